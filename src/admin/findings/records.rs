//! Comparison of what is announced with what is read: types, keys, versions.

use super::evidence::Evidence;
use super::finding::{Check, Finding};
use super::names::list;
use crate::admin::limits;
use crate::config::RecordTemplate;
use crate::model::ids::{RegionId, RegionSet};
use crate::protocol::wiring::TypeWiring;
use crate::telemetry::observed::UnroutedType;

/// Least similarity (0 to 1) of two type names that are probably meant to be the same.
const NAME_SIMILARITY: f64 = 0.75;

/// Age up to which an announcement of an unrouted type says something of the present.
const RECENT: std::time::Duration = limits::LOSS_SHOWN;

pub(super) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found: Vec<_> = evidence
        .notes
        .unrouted_types
        .iter()
        .filter_map(|(name, seen)| unrouted_type_finding(evidence, name, seen))
        .collect();
    for (name, wired) in evidence.types {
        found.extend(unmatched(evidence, name, *wired));
        found.extend(unannounced(evidence, name, *wired));
    }
    found.extend(without_versions(evidence));
    found
}

/// The types whose announcements never match a record read here, each with the regions concerned: what
/// the findings `type-unrouted` and `keys-unmatched` are about.
pub(super) fn types_with_missed_announcements(evidence: &Evidence<'_>) -> Vec<(String, RegionSet)> {
    let mut all = Vec::new();
    for (name, wired) in evidence.types {
        if unmatched(evidence, name, *wired).is_some() {
            all.push((name.clone(), regions_without_match(wired, wired.named)));
        }
    }
    for (name, seen) in &evidence.notes.unrouted_types {
        let Some(Suspects { announced, never_announced, similar_name }) = suspects(evidence, name, seen) else {
            continue;
        };
        for (routed, wired) in evidence.types {
            if similar_name == Some(routed.as_str()) {
                all.push((routed.clone(), regions_without_match(wired, announced)));
            } else if similar_name.is_none() && never_announced.iter().any(|(name, _)| *name == routed.as_str()) {
                all.push((routed.clone(), regions_without_announcement(wired, announced)));
            }
        }
    }
    all
}

/// Those of `regions` that named no record of it that was read here.
fn regions_without_match(wiring: &TypeWiring, regions: RegionSet) -> RegionSet {
    RegionSet(regions.0 & !wiring.met.0)
}

/// Those of `regions` that announced nothing of it.
fn regions_without_announcement(wiring: &TypeWiring, regions: RegionSet) -> RegionSet {
    RegionSet(regions.0 & !wiring.announcers.0)
}

/// The types of routes that an unrouted one may be about.
struct Suspects<'a> {
    /// The regions that announced it.
    announced: RegionSet,
    /// The types that some of these regions never announced, each with those regions.
    never_announced: Vec<(&'a str, RegionSet)>,
    /// The one that is spelt almost the same.
    similar_name: Option<&'a str>,
}

/// Other services may share the topic, so an unrouted type counts only if a route's own type is
/// never announced, or if the two look alike.
fn suspects<'a>(evidence: &Evidence<'a>, name: &str, seen: &UnroutedType) -> Option<Suspects<'a>> {
    let is_over = evidence.now.since(seen.last) > RECENT;
    if is_over || evidence.types.iter().any(|(known, _)| known == name) {
        return None;
    }
    let announced: RegionSet = seen.regions.iter().copied().collect();
    let alike = |candidate: &str| strsim::jaro_winkler(&name.to_lowercase(), &candidate.to_lowercase());
    // Skips types whose announcements already match: the misspelt name is not theirs.
    let closest = evidence
        .types
        .iter()
        .filter(|(_, wired)| !regions_without_match(wired, announced).is_empty())
        .max_by(|(left, _), (right, _)| alike(left).total_cmp(&alike(right)));
    let similar_name =
        closest.map(|(routed, _)| routed.as_str()).filter(|candidate| alike(candidate) >= NAME_SIMILARITY);
    let never_announced: Vec<_> = evidence
        .types
        .iter()
        .map(|(routed, wired)| (routed.as_str(), regions_without_announcement(wired, announced)))
        .filter(|(_, regions)| !regions.is_empty())
        .collect();
    let is_suspect = !never_announced.is_empty() || similar_name.is_some();
    is_suspect.then_some(Suspects { announced, never_announced, similar_name })
}

fn unrouted_type_finding(evidence: &Evidence<'_>, name: &str, seen: &UnroutedType) -> Option<Finding> {
    let Suspects { announced, never_announced, similar_name } = suspects(evidence, name, seen)?;
    let (regions, times) = (evidence.names(announced.iter()), if seen.count == 1 { "time" } else { "times" });
    let mut observed = format!("{regions} announced it {} {times}, and no route names it", seen.count);
    for (routed, regions) in &never_announced {
        observed += &format!("; {} never announced {routed}, which routes use", evidence.names(regions.iter()));
    }
    let advice = match similar_name {
        Some(meant) => format!(
            "to announce `{meant}`, use that name; or write `{name}:` in the route's records; no bound is stated until \
             then"
        ),
        None => format!(
            "name it in a route's records (`{name}:{{key}}`), or announce what the routes name; until then, entries of \
             {} have no bound and are kept for cache.soft_ttl only",
            list(never_announced.iter().map(|(routed, _)| *routed))
        ),
    };
    Some(Finding { check: Check::TypeUnrouted, subject: name.to_owned(), saw: observed, advice })
}

/// A region announces records that are never read here, and something shows that its keys have
/// another spelling.
fn unmatched(evidence: &Evidence<'_>, name: &str, wired: TypeWiring) -> Option<Finding> {
    let named = RegionSet(wired.named.0 & !wired.met.0);
    if named.is_empty() {
        return other_case(evidence, name, wired);
    }
    let templates = templates(evidence, name);
    let why = another_spelling(evidence, name, wired)
        .or_else(|| out_of_shape(evidence, name, &templates))
        .or_else(|| unannounced_change_text(wired))?;
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
    routes
        .iter()
        .flat_map(|route| route.records.iter().map(move |record| (record, route.path.text.as_str())))
        .filter(|(record, _)| record.record_type == name)
        .collect()
}

/// A region announces some keys as they are read, and others in another letter case.
fn other_case(evidence: &Evidence<'_>, name: &str, wired: TypeWiring) -> Option<Finding> {
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
fn another_spelling(evidence: &Evidence<'_>, name: &str, wired: TypeWiring) -> Option<String> {
    if (wired.misnamed.0 | wired.other_case.0) & !wired.met.0 == 0 {
        return None;
    }
    let known = evidence.notes.key_spellings.get(name)?;
    let spelling = known.spelling.as_deref().unwrap_or("with more around them");
    Some(format!("keys that are read were announced {spelling} (so far: {})", known.count))
}

/// No route can make any of the announced keys: its own have punctuation that none of those has.
fn out_of_shape(evidence: &Evidence<'_>, name: &str, templates: &[(&RecordTemplate, &str)]) -> Option<String> {
    let unread = evidence.notes.unread_keys.get(name)?;
    let lacking = templates.iter().map(|(record, _)| {
        let lacking = record.punctuation().find(|sign| !unread.punctuation.contains(sign))?;
        Some(format!("the `{lacking}` of `{}`", record.key_text()))
    });
    let lacking: Vec<String> = lacking.collect::<Option<_>>()?;
    (!lacking.is_empty()).then(|| {
        let lacking = list(lacking.iter().map(String::as_str));
        format!("no announced key (so far: {}) has {lacking}", unread.count)
    })
}

/// Text saying that records read here changed while no announcement named them; `None` if nothing shows
/// it. A pending change may still be announced.
fn unannounced_change_text(wired: TypeWiring) -> Option<String> {
    match wired.unannounced + wired.pending {
        0 if !wired.missed => None,
        0 => Some("an audit saw that what is read changed and no announcement has come".to_owned()),
        1 => Some("meanwhile a record that is read changed and no announcement has come so far".to_owned()),
        count => Some(format!("meanwhile {count} records that are read changed and no announcement has come so far")),
    }
}

/// Versions grow, and nobody announces it.
fn unannounced(evidence: &Evidence<'_>, name: &str, wired: TypeWiring) -> Option<Finding> {
    let unmatched = wired.named.0 & !wired.met.0 != 0;
    // If nobody ever announced this type, there is no point in waiting long for an announcement.
    let never = wired.announcers.is_empty() && wired.pending > 0;
    if unmatched || !(never || wired.is_missed(evidence.now)) {
        return None;
    }
    let unannounced = wired.unannounced + wired.pending;
    let regions: Vec<RegionId> = evidence.topics().iter().filter(|id| !wired.announcers.contains(*id)).collect();
    let silent = if regions.is_empty() {
        String::new()
    } else {
        format!(" ({} never announced this type)", evidence.names(regions))
    };
    let saw = match unannounced {
        0 => format!("an audit saw changes that nobody announced{silent}"),
        _ => format!(
            "replies showed changes that nobody announced: {unannounced} of {} seen, each by a higher version in a \
             reply{silent}{}",
            unannounced + wired.announced,
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
    let announced = evidence.notes.regions.iter().any(|region| region.topic.versioned.mostly(1));
    let header = &evidence.config.service.version_header;
    let lacking = evidence.notes.routes.iter().filter(|(_, route)| announced && route.versioned.never(3));
    lacking
        .map(|(path, _)| Finding {
            check: Check::VersionsMissing,
            subject: path.clone(),
            saw: format!(
                "announcements state versions and replies do not ({header} is missing): a region that lags cannot be \
                 distinguished from one that has the change"
            ),
            advice: format!(
                "let replies state each record's version in {header}, or name the header that they use in \
                 service.version_header"
            ),
        })
        .collect()
}
