//! Subscriptions to regions' topics, and what they bring.

use std::time::Duration;

use super::evidence::Evidence;
use super::finding::{Check, Finding};
use crate::admin::limits;
use crate::admin::readiness::tampered;
use crate::aws::verify::Rejected;
use crate::model::ids::RegionId;
use crate::protocol::event::{Grade, SubscriptionState};
use crate::protocol::limits::HEARTBEAT_SLOT;
use crate::sidecar::announcements::subscription::Stage;
use crate::telemetry::observed::RegionNotes;

/// Time for which a subscription may go without a heartbeat; they come every 5 s.
const HEARTBEAT_WAIT: Duration = Duration::from_secs(12);
/// Silence after which heartbeats have ended: a publisher that restarts is back before that.
const HEARTBEATS_ENDED: Duration = Duration::from_secs(60);

pub(super) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for id in evidence.topics().iter() {
        found.extend(access(evidence, id));
        if let Some(why) = evidence.arrivals.get(id.index()).and_then(|arrivals| arrivals.unverified) {
            let saw = format!("announcements arrive that cannot be verified: {why}");
            found.push(evidence.finding(id, Check::Unverified, saw, &unverified_advice(evidence, why)));
        }
        let Some(notes) = evidence.notes.regions.get(id.index()) else { continue };
        let heartbeats = heartbeats(evidence, id, notes);
        found.extend(heartbeats.map(|(saw, advice)| evidence.finding(id, Check::HeartbeatsMissing, saw, advice)));
        if notes.topic.numbered.never(1) {
            found.push(evidence.finding(
                id,
                Check::NumbersMissing,
                "its announcements carry no publisher and no sequence: one that is lost leaves no hole, and what it \
                 changed stays stored until its TTL or an audit"
                    .to_owned(),
                "let each publisher number its announcements 1, 2, 3, ... (docs/publishing.md)",
            ));
        }
        if notes.topic.through.never(2) {
            found.push(evidence.finding(
                id,
                Check::ThroughMissing,
                "its heartbeats do not say ingestedThrough: no answer can say how old it is (bound=none)".to_owned(),
                "let heartbeats carry ingestedThrough, the time through which all is ingested and announced \
                 (docs/publishing.md)",
            ));
        }
        if notes.topic.undecodable.yes_count() > 0 {
            found.push(evidence.finding(
                id,
                Check::Undecodable,
                format!(
                    "{} of its last {} messages are no announcements: {}",
                    notes.topic.undecodable.yes_count(),
                    notes.topic.undecodable.len(),
                    notes.topic.undecodable_why
                ),
                "publish nearside.v1.Announcement as JSON or as base64 (docs/publishing.md), and nothing else on this \
                 topic; `nearside check --announcement FILE` reads one",
            ));
        }
        if notes.topic.versioned.never(2) && states_versions(evidence) {
            let saw = "its announcements state no version although replies do: a region that lags cannot be \
                       distinguished from one that has the change, and every reader waits for all of them after \
                       each change";
            let advice = "announce the version that replies state in the version header";
            found.push(evidence.finding(id, Check::VersionsUnannounced, saw.to_owned(), advice));
        }
    }
    found
}

/// Heartbeats that never came, or that ended: what was seen, and what to do.
fn heartbeats(
    evidence: &Evidence<'_>,
    id: RegionId,
    notes: &RegionNotes,
) -> impl Iterator<Item = (String, &'static str)> {
    let never = is_without_heartbeats(evidence, id, notes).then(|| {
        (
            "its topic is subscribed to, and no heartbeat arrives: a silent topic is noticed after minutes, and no \
             answer can say how old it is (bound=none)"
                .to_owned(),
            "let its publishers send one every 5 s (docs/publishing.md), or run `nearside heartbeat --topic ARN`",
        )
    });
    let ended = heartbeats_ended(evidence, id, notes).map(|ago| {
        let ago = ago.as_secs();
        (
            format!(
                "its heartbeats ended {ago} s ago: nothing proves any more that its announcements arrive, and bounds \
                 grow or are not stated"
            ),
            "see whether its publishers run and may publish to the topic, or whatever runs `nearside heartbeat`",
        )
    });
    never.into_iter().chain(ended)
}

/// An emulator's certificates are elsewhere than Amazon's: then two spellings have to be compared.
fn unverified_advice(evidence: &Evidence<'_>, why: Rejected) -> String {
    let advice = why.advice();
    if !matches!(why, Rejected::CertificateUrl(_)) {
        return advice.to_owned();
    }
    let signer = evidence.config.announcements.insecure_sns_signer.as_ref();
    let set = signer.map_or("is not set".to_owned(), |url| format!("says {}", url.origin().ascii_serialization()));
    format!(
        "{advice}, which {set}: `certificate_at` in the log's line `an announcement was rejected` is where the message's \
         certificate is, and for an emulator the setting must be spelt exactly so"
    )
}

fn states_versions(evidence: &Evidence<'_>) -> bool {
    evidence.notes.routes.values().any(|route| route.versioned.mostly(2))
}

fn is_without_heartbeats(evidence: &Evidence<'_>, id: RegionId, notes: &RegionNotes) -> bool {
    let region_view = evidence.region_views.regions.get(id.index()).copied().unwrap_or_default();
    let silent = notes.topic.heartbeats == 0 && region_view.grade < Grade::Watermark;
    silent && hears_for(evidence, id).is_some_and(|heard| heard > HEARTBEAT_WAIT)
}

/// Age of the last heartbeat, if they have ended. What callers ask for plays no part in it: a quiet
/// process says so too.
fn heartbeats_ended(evidence: &Evidence<'_>, id: RegionId, notes: &RegionNotes) -> Option<Duration> {
    let ago = evidence.now.since(notes.topic.heartbeat_at?);
    let is_heard = hears_for(evidence, id).is_some_and(|heard| heard > HEARTBEAT_WAIT);
    (ago > HEARTBEATS_ENDED && is_heard).then_some(ago)
}

/// Time since the topic was subscribed to; `None` while its messages do not count.
fn hears_for(evidence: &Evidence<'_>, id: RegionId) -> Option<Duration> {
    // The heartbeats may be among the messages that cannot be verified; fix that first.
    if evidence.arrivals.get(id.index()).is_some_and(|arrivals| arrivals.unverified.is_some()) {
        return None;
    }
    let is_paused =
        evidence.region_views.regions.get(id.index()).is_some_and(|it| it.state == SubscriptionState::Paused);
    let status = evidence.subscriptions.iter().find(|status| status.region == id)?;
    (status.stage == Stage::Subscribed && !is_paused).then(|| evidence.now.since(status.since))
}

/// Reports what AWS refuses in its own words, or else what somebody did to our subscription or
/// queue.
fn access(evidence: &Evidence<'_>, id: RegionId) -> Option<Finding> {
    let status = evidence.subscriptions.iter().find(|status| status.region == id)?;
    let (saw, advice) = match status.failure.as_ref().or(status.unlooked.as_ref()) {
        Some(failure) => (failure.saw.clone(), failure.advice),
        None => {
            let (_, why) = status.lost.filter(|(at, _)| evidence.now.since(*at) < limits::LOSS_SHOWN)?;
            let (what, advice) = tampered(why)?;
            (format!("the last subscription was lost: {what}"), advice)
        }
    };
    let saw = match status.stage {
        Stage::Subscribed => format!("{} is subscribed to, but {saw}", status.topic),
        _ => format!("{} is not subscribed to: {saw}", status.topic),
    };
    Some(Finding { check: Check::Access, subject: evidence.name(id).to_owned(), saw, advice: advice.to_owned() })
}

const _: () = assert!(HEARTBEAT_WAIT.as_secs() > 2 * HEARTBEAT_SLOT.as_secs());
