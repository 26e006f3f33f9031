//! Whether what is announced is what is read: types, keys, versions.

use super::{Check, Evidence, Finding, list};
use crate::admin::limits;
use crate::config::{RecordTemplate, Route};
use crate::model::ids::{RegionId, RegionSet};
use crate::protocol::wiring::Wired;
use crate::telemetry::observed::UnroutedType;

/// From this similarity on (0 to 1), two names are probably meant to be the same.
const ALIKE: f64 = 0.75;

pub(super) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found: Vec<_> =
        evidence.notes.unrouted_types.iter().filter_map(|(name, seen)| unrouted(evidence, name, seen)).collect();
    for (name, wired) in evidence.types {
        found.extend(unmatched(evidence, name, *wired));
        found.extend(unannounced(evidence, name, *wired));
    }
    found.extend(without_versions(evidence));
    found
}

/// The types whose announcements miss what is read here, each with the regions concerned: what the
/// findings `type-unrouted` and `keys-unmatched` are about.
pub(super) fn astray(evidence: &Evidence<'_>) -> Vec<(String, RegionSet)> {
    let unmet = |wired: &Wired, regions: RegionSet| RegionSet(regions.0 & !wired.met.0);
    let mut all = Vec::new();
    for (name, wired) in evidence.types {
        if unmatched(evidence, name, *wired).is_some() {
            all.push((name.clone(), unmet(wired, wired.named)));
        }
    }
    for (name, seen) in &evidence.notes.unrouted_types {
        let Some(Suspects { announced, silent, meant }) = suspects(evidence, name, seen) else { continue };
        for (name, wired) in evidence.types {
            if meant == Some(name.as_str()) {
                all.push((name.clone(), unmet(wired, announced)));
            } else if meant.is_none() && silent.contains(&name.as_str()) {
                all.push((name.clone(), RegionSet(announced.0 & !wired.heard.0)));
            }
        }
    }
    all
}

/// The types of routes that an unrouted one may be about.
struct Suspects<'a> {
    /// The regions that announced it.
    announced: RegionSet,
    /// The types that one of these regions never announced.
    silent: Vec<&'a str>,
    /// The one that is spelt almost the same.
    meant: Option<&'a str>,
}

/// Other services may share the topic, so an unrouted type counts only if a route's own type is
/// never announced, or if the two look alike.
fn suspects<'a>(evidence: &Evidence<'a>, name: &str, seen: &UnroutedType) -> Option<Suspects<'a>> {
    let is_over = evidence.now.since(seen.last) > limits::LOSS_SHOWN;
    if is_over || evidence.types.iter().any(|(known, _)| known == name) {
        return None;
    }
    let announced: RegionSet = seen.regions.iter().copied().collect();
    let unheard = |wired: &Wired| RegionSet(announced.0 & !wired.heard.0);
    let silent = evidence.types.iter().filter(|(_, wired)| !unheard(wired).is_empty());
    let alike = |candidate: &str| strsim::jaro_winkler(&name.to_lowercase(), &candidate.to_lowercase());
    // A type whose announcements already match what is read there is not meant by another name too.
    let unmet = |(_, wired): &&(String, Wired)| announced.0 & !wired.met.0 != 0;
    let closest =
        evidence.types.iter().filter(unmet).max_by(|(left, _), (right, _)| alike(left).total_cmp(&alike(right)));
    let meant = closest.map(|(name, _)| name.as_str()).filter(|candidate| alike(candidate) >= ALIKE);
    let silent: Vec<_> = silent.map(|(name, _)| name.as_str()).collect();
    (!silent.is_empty() || meant.is_some()).then_some(Suspects { announced, silent, meant })
}

fn unrouted(evidence: &Evidence<'_>, name: &str, seen: &UnroutedType) -> Option<Finding> {
    let Suspects { announced, silent, meant } = suspects(evidence, name, seen)?;
    let regions = evidence.names(announced.iter());
    let mut saw = format!("{} announced it {} times, and no route names it", regions, seen.count);
    if !silent.is_empty() {
        saw += &format!("; {} of the routes was never announced there", list(silent.iter().copied()));
    }
    let advice = match meant {
        Some(meant) => format!(
            "if `{meant}` is meant, announce it as `{meant}`, or write `{name}:` in the route's records; no bound is \
             stated until then"
        ),
        None => format!(
            "name it in a route's records (`{name}:{{key}}`), or announce what the routes name; until then no bound is \
             stated for a type that was never announced beside it, and it is kept for cache.soft_ttl only"
        ),
    };
    Some(Finding { check: Check::TypeUnrouted, subject: name.to_owned(), saw, advice })
}

/// A region announces records that are never read here, and something shows that its keys have
/// another form.
fn unmatched(evidence: &Evidence<'_>, name: &str, wired: Wired) -> Option<Finding> {
    let named = RegionSet(wired.named.0 & !wired.met.0);
    if named.is_empty() {
        return other_case(evidence, name, wired);
    }
    let templates = templates(evidence, name);
    let why = another_form(evidence, name, wired)
        .or_else(|| out_of_shape(evidence, name, &templates))
        .or_else(|| changed_meanwhile(wired))?;
    let keys: Vec<_> = templates.iter().map(|(record, path)| format!("`{}` of {path}", record.key_text())).collect();
    Some(Finding {
        check: Check::KeysUnmatched,
        subject: name.to_owned(),
        saw: format!(
            "{} announced changes of it and none of a record that is read here; {why}",
            evidence.names(named.iter())
        ),
        advice: format!(
            "announce the key as the route makes it of the path: {}, filled in, without `{name}:` before it; or change the \
             route's records; `nearside check --announcement FILE --path PATH` says whether a message fits, `nearside \
             explain PATH` which keys a path has; no bound is stated until an announced key is one that is read",
            list(keys.iter().map(String::as_str))
        ),
    })
}

/// The records of this type that routes name, each with its route's path.
fn templates<'a>(evidence: &Evidence<'a>, name: &str) -> Vec<(&'a RecordTemplate, &'a str)> {
    let routes = &evidence.config.service.routes;
    let of = |route: &'a Route| route.records.iter().map(move |record| (record, route.path.text.as_str()));
    routes.iter().flat_map(of).filter(|(record, _)| record.record_type == name).collect()
}

/// A region announces some keys as they are read, and others in another letter case.
fn other_case(evidence: &Evidence<'_>, name: &str, wired: Wired) -> Option<Finding> {
    let regions = wired.other_case;
    let templates = templates(evidence, name);
    let keys: Vec<_> = templates.iter().map(|(record, path)| format!("`{}` of {path}", record.key_text())).collect();
    (!regions.is_empty()).then(|| Finding {
        check: Check::KeysUnmatched,
        subject: name.to_owned(),
        saw: format!(
            "{} announced keys that are read in another letter case (and others as they are read): keys are compared byte \
             by byte, so those changes pass by",
            evidence.names(regions.iter())
        ),
        advice: format!(
            "announce every key in the letter case of the path: {}, filled in; or let callers ask in the case that is \
             announced; `nearside explain PATH` says which keys a path has; no bound is stated for an hour after the last \
             of them",
            list(keys.iter().map(String::as_str))
        ),
    })
}

/// Keys that are read stand inside announced ones, or differ from them by letter case.
fn another_form(evidence: &Evidence<'_>, name: &str, wired: Wired) -> Option<String> {
    if (wired.misnamed.0 | wired.other_case.0) & !wired.met.0 == 0 {
        return None;
    }
    let forms = evidence.notes.key_forms.get(name)?;
    let form = forms.form.as_deref().unwrap_or("with more around them");
    Some(format!("keys that are read were announced {form} (so far: {})", forms.count))
}

/// No route can make any of the announced keys: its own have punctuation that none of those has.
fn out_of_shape(evidence: &Evidence<'_>, name: &str, templates: &[(&RecordTemplate, &str)]) -> Option<String> {
    let unread = evidence.notes.unread_keys.get(name)?;
    let lacking = |(record, _): &(&RecordTemplate, &str)| {
        let lacking = record.punctuation().find(|sign| !unread.punctuation.contains(sign))?;
        Some(format!("the `{lacking}` of `{}`", record.key_text()))
    };
    let lacking: Vec<String> = templates.iter().map(lacking).collect::<Option<_>>()?;
    (!lacking.is_empty()).then(|| {
        let lacking = list(lacking.iter().map(String::as_str));
        format!("no announced key (so far: {}) has {lacking}", unread.count)
    })
}

/// What is read changes, and the announcements are not of it.
fn changed_meanwhile(wired: Wired) -> Option<String> {
    match wired.untold + wired.pending {
        0 if !wired.missed => None,
        0 => Some("an audit saw that what is read changed without an announcement".to_owned()),
        1 => Some("meanwhile a record that is read changed without an announcement".to_owned()),
        grown => Some(format!("meanwhile {grown} records that are read changed without an announcement")),
    }
}

/// Versions grow, and nobody announces it.
fn unannounced(evidence: &Evidence<'_>, name: &str, wired: Wired) -> Option<Finding> {
    let unmatched = wired.named.0 & !wired.met.0 != 0;
    // If nobody ever announced this type, there is no point in waiting long for an announcement.
    let never = wired.heard.is_empty() && wired.pending > 0;
    if unmatched || !(never || wired.is_missed(evidence.now)) {
        return None;
    }
    let untold = wired.untold + wired.pending;
    let regions: Vec<RegionId> = evidence.topics().iter().filter(|id| !wired.heard.contains(*id)).collect();
    let silent = match regions.is_empty() {
        true => String::new(),
        false => format!(" ({} never announced this type)", evidence.names(regions)),
    };
    let saw = match untold {
        0 => format!("an audit saw changes that nobody announced{silent}"),
        _ => format!(
            "replies showed changes that nobody announced: {untold} of {} seen, each by a higher version in a \
             reply{silent}{}",
            untold + wired.told,
            if wired.missed { "; an audit saw one too" } else { "" }
        ),
    };
    Some(Finding {
        check: Check::Unannounced,
        subject: name.to_owned(),
        saw,
        advice:
            "let every change be announced once the region answers with it (docs/publishing.md); /status lists what \
                 audits saw under audit.violations"
                .to_owned(),
    })
}

fn without_versions(evidence: &Evidence<'_>) -> Vec<Finding> {
    let announced = evidence.notes.regions.iter().any(|region| region.versioned.mostly(1));
    let header = &evidence.config.service.version_header;
    let lacking = evidence.notes.routes.iter().filter(|(_, route)| announced && route.versioned.never(3));
    lacking
        .map(|(path, _)| Finding {
            check: Check::VersionsMissing,
            subject: path.clone(),
            saw: format!(
                "announcements state versions and replies do not ({header} is missing): a region that lags cannot be told \
                 from one that has the change"
            ),
            advice: format!(
                "let replies state each record's version in {header}, or name the header that they use in \
                 service.version_header"
            ),
        })
        .collect()
}
