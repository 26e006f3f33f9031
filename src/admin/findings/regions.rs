//! Compares each region with the others, and the clocks.

use super::evidence::Evidence;
use super::finding::{Check, Finding};
use crate::admin::limits;
use crate::model::ids::{RegionId, RegionSet};
use crate::telemetry::observed::{RegionNotes, Undecoded};

pub(super) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let regions = (0u8..).map(RegionId).zip(&evidence.notes.regions);
    let mut found: Vec<_> = regions.clone().flat_map(|(id, notes)| of_region(evidence, id, notes)).collect();
    found.extend(clocks(evidence));
    found.extend(regions.filter_map(|(id, _)| ahead(evidence, id)));
    found
}

fn of_region(evidence: &Evidence<'_>, id: RegionId, notes: &RegionNotes) -> Vec<Finding> {
    let mut found = Vec::new();
    if notes.failed.mostly(3) {
        found.push(evidence.finding(
            id,
            Check::RegionFails,
            format!(
                "{} of the last {} requests to it failed, the last with {}{}",
                notes.failed.yes_count(),
                notes.failed.len(),
                notes.failure,
                failure_meaning(&notes.failure)
            ),
            failure_advice(&notes.failure),
        ));
    }
    if notes.odd.mostly(4) {
        found.push(evidence.finding(
            id,
            Check::RegionOdd,
            format!("it answers {} where another region has the record", notes.odd_status),
            odd_advice(notes.odd_status),
        ));
    }
    if notes.undecoded.yes_count() > 0 {
        found.push(evidence.finding(
            id,
            Check::Coding,
            format!(
                "{} of its last {} replies on routes with compression cannot be decompressed and count as failed; \
                 on {} {}",
                notes.undecoded.yes_count(),
                notes.undecoded.len(),
                notes.undecoded_last.route,
                coding_meaning(&notes.undecoded_last)
            ),
            coding_advice(notes.undecoded_last.why),
        ));
    }
    if notes.unshown.mostly(3) {
        found.push(evidence.finding(
            id,
            Check::TopicSwapped,
            "its topic announces changes that it does not answer with itself when it is asked after that".to_owned(),
            "compare service.region's url and topic: perhaps two topics are swapped; or the region announces before it \
             has ingested, or a cache stands before it",
        ));
    }
    if notes.unannounced.mostly(6) && !notes.unshown.mostly(1) {
        found.push(evidence.finding(
            id,
            Check::TopicSwapped,
            "it shows changes that another region's topic announced and its own did not".to_owned(),
            "compare service.region's url and topic, and whether all of its publishers announce on that topic",
        ));
    }
    if notes.aged.mostly(6) {
        found.push(evidence.finding(
            id,
            Check::Aged,
            "a cache before it answers with replies that it kept (Age): they count for that much less, and are asked \
             for end to end after a change"
                .to_owned(),
            "let service.region's url lead past that cache, or keep it from storing these paths",
        ));
    }
    found
}

/// Versions of another environment: the region that is merely the first to have a change announces
/// it, and is reached.
fn ahead(evidence: &Evidence<'_>, region: RegionId) -> Option<Finding> {
    let others = evidence.notes.regions.len().saturating_sub(1);
    let leads: Vec<_> = evidence
        .notes
        .leads
        .iter()
        .filter(|lead| lead.region == region)
        .filter(|lead| {
            let is_over = evidence.now.since(lead.last) > limits::LOSS_SHOWN;
            !is_over
                && lead.last.since(lead.first) >= evidence.lead_wait
                && lead.below.iter().count() >= others.min(2)
        })
        .collect();
    let longest = leads.iter().map(|lead| lead.last.since(lead.first)).max()?;
    let below = leads.iter().fold(RegionSet::EMPTY, |all, lead| RegionSet(all.0 | lead.below.0));
    Some(Finding {
        check: Check::RegionAhead,
        subject: evidence.name(region).to_owned(),
        saw: format!(
            "of {} it shows versions that no topic announced here and that {} did not reach in {} s: its answers win over \
             theirs",
            match leads.len() {
                1 => "one record".to_owned(),
                count => format!("{count} records"),
            },
            evidence.names(below.iter()),
            longest.as_secs()
        ),
        advice: format!(
            "compare service.region's url with the others': perhaps it is another environment's (staging); or the others no \
             longer ingest; until you know, `nearside ctl region drain {name}`, and once its url is right, `ctl purge` and \
             `ctl reset` of what it answered",
            name = evidence.name(region)
        ),
    })
}

/// The words of [`crate::http::exchange::Failure`] that do not speak for themselves.
fn failure_meaning(failure: &str) -> &'static str {
    match failure {
        "connect" => " (no connection: refused, no way there, no such name, or TLS)",
        "deadline" => " (no whole reply in time)",
        "garbage" => " (what came was no HTTP)",
        "truncated" => " (the connection ended before the reply did)",
        _ => "",
    }
}

fn failure_advice(failure: &str) -> &'static str {
    match failure {
        "connect" => {
            "the log has the cause (`the region cannot be reached`): look at service.region's url: name, port, TLS \
             (tls.ca_file for a private CA), and whether this host reaches it"
        }
        "deadline" => "look at the region, or give it more time in race.deadline",
        "garbage" => {
            "look at service.region's url: what answers there does not speak HTTP (another protocol, or only over TLS: https)"
        }
        "truncated" => {
            "look at service.region's url and at what stands between: what answers there ends before a whole reply has come \
             (another protocol, perhaps)"
        }
        _ => "look at the region's own log: it answers with an error",
    }
}

/// Meaning of the undecoded reply, by the words of [`crate::payload::coding::CodingError`].
fn coding_meaning(last: &Undecoded) -> String {
    let Undecoded { why, stated, .. } = last;
    match *why {
        "unasked" => format!("the last one came in the coding `{stated}`, which was not asked for"),
        "several" => format!("the last one came in several codings one behind the other (`{stated}`)"),
        "window" => format!("the last one (`{stated}`) takes a larger window than every decoder has"),
        "other-dictionary" => {
            format!("the last one (`{stated}`) is compressed with another dictionary than the one offered")
        }
        _ => format!("the last one said `{stated}`, and its bytes are not that or are cut short"),
    }
}

fn coding_advice(why: &str) -> &'static str {
    match why {
        "unasked" | "several" => {
            "let this region, and what stands before it, answer in one of the codings that Accept-Encoding asks for, or plain; or \
             leave compression out of the route (docs/payloads.md, Compression)"
        }
        "window" => {
            "let this region compress with a window of 8 MiB at most, as HTTP has it; or leave compression out of the route \
             (docs/payloads.md, Compression)"
        }
        "other-dictionary" => {
            "give this region the file that the route's dictionary names; or leave dictionary out of the route \
             (docs/payloads.md, Compression)"
        }
        _ => {
            "ask this region itself with Accept-Encoding: zstd, gzip, and look at what stands before it: something names a coding \
             that the bytes do not have, or changes them; or leave compression out of the route (docs/payloads.md, Compression)"
        }
    }
}

fn odd_advice(status: u16) -> &'static str {
    match status {
        401 | 403 => "look at the credentials: this region does not take those that the others take",
        404 | 410 => {
            "look at the path in service.region's url (a prefix too many or too few?), and whether its data is complete"
        }
        300..=399 => "look at service.region's url: this region redirects (http where https is wanted, or a slash)",
        _ => "look at service.region's url and at the region's own log",
    }
}

/// The offset of the region's `Date` that was closest to zero, positive if ahead of this host's
/// clock; `None` with fewer than two of them.
fn skew_ms(notes: &RegionNotes) -> Option<i64> {
    let closest = notes.skews_ms.iter().copied().min_by_key(|skew| skew.abs())?;
    (notes.skews_ms.len() >= 2).then_some(closest)
}

/// If everyone who states a time agrees that our clock is off, it is ours; otherwise it is theirs.
fn clocks(evidence: &Evidence<'_>) -> Vec<Finding> {
    let most = limits::CLOCK_SKEW.as_millis() as i64;
    let skews: Vec<_> = evidence.notes.regions.iter().map(skew_ms).collect();
    let stated: Vec<i64> = skews.iter().flatten().copied().collect();
    // A late message has an early stamp, so only a lag that all messages share says something about
    // a clock.
    let topics = evidence.arrivals.iter().filter_map(|arrivals| arrivals.lag_ms).map(|lag| -lag);
    let all: Vec<i64> = stated.iter().copied().chain(topics).collect();
    let off = |skew: &i64| skew.abs() > most;
    let same_direction = all.iter().all(|skew| off(skew) && skew.signum() == all[0].signum());
    if all.len() > 1 && same_direction {
        let ahead = all.iter().map(|skew| skew.abs()).min().unwrap_or_default() as f64 / 1e3;
        let (direction, harm) = match all[0].signum() {
            1 => ("behind", "bounds are stated too small by as much"),
            _ => ("ahead", "what is announced seems to arrive late, and beyond 15 s proves nothing"),
        };
        return vec![Finding {
            check: Check::Clock,
            subject: "this host".to_owned(),
            saw: format!("its clock is {direction} of the regions' and of SNS's by {ahead:.1} s: {harm}"),
            advice: "set this host's clock (NTP)".to_owned(),
        }];
    }
    let regions = (0u8..).map(RegionId).zip(&skews).filter_map(|(id, skew)| {
        let skew = skew.filter(off)?;
        let direction = if skew > 0 { "ahead of" } else { "behind" };
        Some(Finding {
            check: Check::Clock,
            subject: evidence.name(id).to_owned(),
            saw: format!(
                "its Date is {direction} this host's clock by {:.1} s, and others' are not",
                skew.abs() as f64 / 1e3
            ),
            advice:
                "set that region's clock: its ingestedThrough, and so the bounds it vouches for, are off by as much"
                    .to_owned(),
        })
    });
    regions.collect()
}
