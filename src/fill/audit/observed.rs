//! The observations that an audit compares: what the regions show, and what is stored.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use crate::cache::entry::{Entry, Validity};
use crate::fill::routed::keep::is_absent;
use crate::fill::settings::Settings;
use crate::http::exchange::Reply;
use crate::model::ids::{RegionId, RegionSet, Version};
use crate::payload::digest;
use crate::protocol::audit::{self, AuditVerdict, Observation};
use crate::protocol::holding::Routed;
use crate::race::Tally;
use crate::race::verdict::{self, Verdict as Worth};
use crate::shape::form::{form_of, form_sent};

/// Observations of the regions that say anything about the records, without replies from before an
/// announcement (R8). Bodies are compared with those of the form that is stored alone, and those
/// that state versions only where these are the stored ones (R23).
pub(super) async fn seen(tally: &Tally, records: usize, entry: &Entry) -> Vec<(RegionId, Observation)> {
    let form = form_of(&entry.content);
    let held = shown_versions(entry);
    let mut seen = Vec::new();
    for attempt in &tally.attempts {
        let Some(reply) = attempt.outcome.as_ref().ok() else { continue };
        let versions = credible(reply.versions.iter().copied(), records);
        let says = match attempt.verdict {
            Some(Worth::Good | Worth::Absent) => true,
            Some(Worth::TooOld) => !versions.is_empty(),
            Some(Worth::Refused | Worth::Worthless) | None => false,
        };
        if !says {
            continue;
        }
        let absent = is_absent(reply.status);
        let in_form = form_sent(&reply.headers) == form;
        let digest = tally.digests.iter().find(|(region, _)| *region == attempt.region).map(|(_, digest)| *digest);
        // A copy that an intermediary kept does not tell what its region shows now.
        let is_now = verdict::made(reply) >= reply.sent;
        let is_compared = in_form && is_now && reply.status.is_success() && !versions.is_empty() && versions == held;
        let meaning = if is_compared { meaning_of(reply).await } else { None };
        seen.push((attempt.region, Observation { absent, versions, digest: digest.filter(|_| in_form), meaning }));
    }
    seen.sort_by_key(|(region, _)| *region);
    seen
}

async fn meaning_of(reply: &Arc<Reply>) -> Option<u128> {
    let own = reply.clone();
    digest::of_body(reply.body.len(), move || digest::digest_of_meaning(&own.body, &own.headers)).await.flatten()
}

/// A version of each record that the entry shows, or none at all.
fn shown_versions(entry: &Entry) -> Box<[Version]> {
    let Validity::Routed(routed) = &entry.validity else { return Box::default() };
    credible(routed.shows.iter().map(|shown| shown.version), routed.shows.len())
}

/// The regions whose replies can be no older than what is held unless they went back: none lags by
/// more than `worst_lag`, and no intermediary has kept their replies since before the entry was
/// asked for.
pub(super) fn caught_up(settings: &Settings, tally: &Tally, entry: &Entry) -> RegionSet {
    let worst_lag = settings.config.freshness.worst_lag;
    tally
        .attempts
        .iter()
        .filter(|attempt| {
            attempt.outcome.as_ref().is_ok_and(|reply| verdict::made(reply).since(entry.sent) > worst_lag)
        })
        .map(|attempt| attempt.region)
        .collect()
}

/// A version of each record, or none at all.
fn credible(versions: impl Iterator<Item = Version>, records: usize) -> Box<[Version]> {
    let versions: Vec<_> = versions.filter(|version| version.is_credible()).collect();
    if versions.len() == records { versions.into() } else { Box::default() }
}

/// Compares the entry with the observations in `seen`. Digests are computed only if they are
/// needed.
pub(super) async fn judge(
    entry: &Arc<Entry>,
    routed: &Routed,
    seen: &[(RegionId, Observation)],
    caught_up: RegionSet,
) -> (Observation, AuditVerdict) {
    let versions = shown_versions(entry);
    let absent = is_absent(entry.status);
    let compared = versions.is_empty() || seen.iter().any(|(_, shows)| shows.versions.is_empty());
    let digest = match routed.digest() {
        None if compared => digest_by(entry, |body, headers| Some(digest::digest(body, headers))).await,
        known => known,
    };
    let is_asked = !absent && seen.iter().any(|(_, shows)| shows.meaning.is_some());
    let meaning = if is_asked { digest_by(entry, digest::digest_of_meaning).await } else { None };
    let held = Observation { absent, versions, digest, meaning };
    let verdict = audit::judge(&held, seen, caught_up).of_reply_by(entry.region);
    (held, verdict)
}

async fn digest_by(entry: &Arc<Entry>, digest: fn(&Bytes, &HeaderMap) -> Option<u128>) -> Option<u128> {
    let entry = entry.clone();
    digest::of_body(entry.content.body_len(), move || digest(&entry.body(), &entry.headers())).await.flatten()
}

/// Says whether a race may have brought other content than that of `previous` under its version
/// (R23). What comes again is usually the same, so bytes are compared before anything is hashed.
pub(super) fn may_differ(previous: &Entry, tally: &Tally) -> bool {
    let held = shown_versions(previous);
    // A region that says that nothing was modified still has it.
    if held.is_empty() || tally.replies().any(|reply| reply.status == StatusCode::NOT_MODIFIED) {
        return false;
    }
    let body = previous.body();
    tally.replies().any(|reply| {
        let shown = credible(reply.versions.iter().copied(), held.len());
        reply.status.is_success() && shown == held && reply.body != body
    })
}
