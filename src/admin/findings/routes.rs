//! Compares routes with what is requested, what callers send, and what replies allow.

use http::HeaderName;

use super::evidence::Evidence;
use super::finding::{Check, Finding};
use super::names::list;
use crate::admin::limits;
use crate::config::overrides::is_override;
use crate::config::{IdentityMode, Route};
use crate::model::time::Moment;
use crate::routing::foreign::{HeaderFate, fate};
use crate::telemetry::observed::RouteNotes;

/// Races on record before it is worth a finding that regions never have anything for a route.
const ABSENT: u32 = 8;

/// Unrouted requests resembling a route that make it worth a finding that the route has none.
const BUSY: u64 = 8;

pub(super) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for route in &evidence.config.service.routes {
        let notes = evidence.notes.routes.get(&route.path.text);
        let unrouted = evidence.notes.resembled.get(&route.path.text).copied().unwrap_or_default();
        if notes.is_none() && unrouted >= BUSY {
            found.push(Finding {
                check: Check::RouteUnmatched,
                subject: route.path.text.clone(),
                saw: format!(
                    "no request matched it, and {unrouted} that resemble it matched no route: they are passed on and not \
                     stored"
                ),
                advice: "compare the paths that are asked for with the route (`nearside explain PATH`)".to_owned(),
            });
        }
        found.extend(notes.into_iter().flat_map(|notes| of_route(route, notes, evidence.now)));
        found.extend(notes.and_then(|notes| absent(evidence, route, notes)));
        found.extend(notes.and_then(|notes| back(evidence, route, notes)));
        found.extend(notes.and_then(|notes| other_content(evidence, route, notes)));
    }
    found
}

/// No region ever had anything there: the paths are probably not the service's.
fn absent(evidence: &Evidence<'_>, route: &Route, notes: &RouteNotes) -> Option<Finding> {
    let region = evidence.config.service.regions.first()?;
    let base = region.url.as_str().trim_end_matches('/');
    (notes.good == 0 && notes.no_store.is_empty() && notes.absent.mostly(ABSENT)).then(|| Finding {
        check: Check::Absent,
        subject: route.path.text.clone(),
        saw: format!(
            "every region answers that there is nothing, and never had anything: {} was asked for {base}{}",
            region.name, route.path.text
        ),
        advice: "perhaps this record does not exist: ask for one that does; else look at the paths in service.region's url: \
                 a prefix is missing, or there twice"
            .to_owned(),
    })
}

/// Versions that begin anew with the service, or a restore.
fn back(evidence: &Evidence<'_>, route: &Route, notes: &RouteNotes) -> Option<Finding> {
    let last = notes.back.filter(|last| evidence.now.since(*last) <= limits::LOSS_SHOWN)?;
    Some(Finding {
        check: Check::VersionsBack,
        subject: route.path.text.clone(),
        saw: format!(
            "{} s ago every region answered with a lower version than the one that was stored of them: versions went back, \
             and until they are as high again announcements of them seem old",
            evidence.now.since(last).as_secs()
        ),
        advice: "announce RESET, or `nearside ctl reset --type TYPE`; and let versions outlive a restart of the service: keep \
                 them with the records (docs/publishing.md)"
            .to_owned(),
    })
}

/// Content that changed while its version did not: no announcement can tell of that.
fn other_content(evidence: &Evidence<'_>, route: &Route, notes: &RouteNotes) -> Option<Finding> {
    let last = notes.other_content.filter(|last| evidence.now.since(*last) <= limits::LOSS_SHOWN)?;
    Some(Finding {
        check: Check::SameVersionDiffers,
        subject: route.path.text.clone(),
        saw: format!(
            "{} s ago the regions agreed, twice in a minute, on other content than what had been stored of them under the \
             same version: what a reply shows changed and its version did not, so no bound is stated for a while",
            evidence.now.since(last).as_secs()
        ),
        advice: "let a version cover everything that a reply shows, joined records included, and grow with every change, \
                 also with two in one second (docs/publishing.md); or name the joined records in the route, and announce \
                 them"
            .to_owned(),
    })
}

/// Evidence of a refusal by every region, and its remedy.
fn refused(route: &Route, notes: &RouteNotes) -> (String, String) {
    let status = notes.refused_status;
    let dropped = list(notes.dropped.keys().map(String::as_str));
    if !dropped.is_empty() {
        return (
            format!("every region answers {status}, and {dropped} of the callers did not go along"),
            format!(
                "write what the service needs in the route's forward, or in identity_headers if it tells callers apart: \
                 {dropped}"
            ),
        );
    }
    let identity = route.identity.headers();
    let passed: Vec<_> = route.forward.iter().chain(identity).map(|name| format!("--header '{name}: ...'")).collect();
    let send = if passed.is_empty() {
        String::new()
    } else {
        format!("send what callers send, of which this goes along (as doctor takes it): {}; ", passed.join(" "))
    };
    match &route.identity {
        IdentityMode::Sidecar(credentials) => (
            format!("every region answers {status} to the sidecar's own credentials"),
            match credentials.file() {
                Some(file) => format!("{send}look at the content of {} and at credentials.prefix", file.display()),
                None => format!("{send}compare what nearside doctor shows of the token with what regions expect"),
            },
        ),
        IdentityMode::Exact(_) | IdentityMode::Granted | IdentityMode::Verified(_) => (
            format!("every region answers {status}"),
            format!("{send}the same request to a region itself tells whether the values are right"),
        ),
    }
}

/// Requests with the same foreign header that are worth a finding: anybody can send a few.
const PASSED: u64 = 3;
/// Names that it shows, the most frequent first.
const PASSED_NAMES: usize = 5;

fn header_passed(route: &Route, notes: &RouteNotes) -> Option<Finding> {
    // A reload may have named some of them since.
    let is_foreign =
        |name: &str| HeaderName::from_bytes(name.as_bytes()).is_ok_and(|name| fate(route, &name).is_passed_on());
    let seen = notes.passed.names.iter().filter(|(name, count)| **count >= PASSED && is_foreign(name));
    let mut seen: Vec<_> = seen.collect();
    seen.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    seen.truncate(PASSED_NAMES);
    let names: Vec<_> = seen.iter().map(|(name, _)| name.as_str()).collect();
    let written = |names: &[&str]| names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    // What makes another request of a read can be part of no key, nor what never goes beside own credentials.
    let keyed: Vec<_> = names
        .iter()
        .filter(|name| {
            let name = HeaderName::from_bytes(name.as_bytes());
            name.is_ok_and(|name| !is_override(&name) && fate(route, &name) == HeaderFate::Foreign)
        })
        .copied()
        .collect();
    let forward = if keyed.is_empty() {
        String::new()
    } else {
        format!("forward = [{}] for what changes the answer, ", written(&keyed))
    };
    (!names.is_empty()).then(|| Finding {
        check: Check::HeaderPassed,
        subject: route.path.text.clone(),
        saw: format!(
            "callers send {}, which may change answers: these requests are passed on to one region and nothing is stored",
            list(names.iter().copied())
        ),
        advice: format!(
            "write in the route {forward}ignore = [{}] for what does not change the answer; nearside doctor --path PATH \
             --header 'NAME: VALUE' tells which",
            written(&names)
        ),
    })
}

/// Requests whose tokens proved nothing, for the reason that is the most frequent.
fn callers_unverified(route: &Route, notes: &RouteNotes, now: Moment) -> Option<Finding> {
    route.identity.claims()?;
    let (why, count) = notes.passed.unproven(now)?;
    (count >= PASSED).then(|| Finding {
        check: Check::CallersUnverified,
        subject: route.path.text.clone(),
        saw: format!(
            "identity is \"verified\", and {count} requests proved nothing: {why}; they are passed on to one region and \
             nothing is stored"
        ),
        advice: "compare `iss`, `aud` and `kid` of a caller's token with access.audience and [[access.issuer]]; /status \
                 says whether its keys are known; who sends no token needs a route of its own"
            .to_owned(),
    })
}

fn of_route(route: &Route, notes: &RouteNotes, now: Moment) -> Vec<Finding> {
    let of = |check, saw: String, advice: String| Finding { check, subject: route.path.text.clone(), saw, advice };
    let mut found = Vec::new();
    // If some callers got what they asked for, the others' requests are at fault.
    let none_good = notes.good == 0;
    if none_good && notes.no_store.is_empty() && notes.refused.mostly(3) {
        let (saw, advice) = refused(route, notes);
        found.push(of(Check::Refused, saw, advice));
    }
    found.extend(header_passed(route, notes));
    found.extend(callers_unverified(route, notes, now));
    if notes.varied.mostly(3) {
        let names = list(notes.vary.keys().map(String::as_str));
        let advice = if notes.vary.contains_key("*") {
            "`Vary: *` says that no two callers may share it: leave it out where that is not so".to_owned()
        } else {
            format!(
                "write {names} in the route's forward instead of ignore, so that each value is asked for and kept apart, \
                 or let the service leave it out of Vary"
            )
        };
        let saw = format!("replies vary by {names}, which is in no key: none of them is stored or shared");
        found.push(of(Check::Vary, saw, advice));
    }
    if none_good && notes.no_store.mostly(3) {
        found.push(of(
            Check::NoStore,
            "its replies say no-store: nothing is kept, and every request goes to the regions".to_owned(),
            "let the service leave no-store out, or write store_no_store = true in the route if it does not mean this cache"
                .to_owned(),
        ));
    }
    if notes.unstated.mostly(3) {
        found.push(of(
            Check::GrantsUnstated,
            "identity is \"granted\", and its replies state no X-Grants-Version: they are given and not stored".to_owned(),
            "let all regions run with access.mode \"observe\" or \"enforce\", and nothing before them take the line out; \
             or write identity = \"exact\" in the route"
                .to_owned(),
        ));
    }
    if none_good && notes.too_large.mostly(3) {
        found.push(of(
            Check::TooLarge,
            "its replies are over 8 MiB: they are passed through, each from one region, and not stored".to_owned(),
            "let the service give them in parts".to_owned(),
        ));
    }
    found
}
