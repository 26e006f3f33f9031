//! Gathers the evidence for findings, logs each finding once while it lasts, and lets those that
//! speak against the wiring shorten what depends on it (R21).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Topics;
use crate::admin::findings::unrouted::{self, UnroutedStatus};
use crate::admin::findings::{self, Check, Evidence, Finding};
use crate::admin::readiness::Heard;
use crate::core::Core;
use crate::model::time::Moment;
use crate::sidecar::announcements::subscription::{SubscriptionStatus, Subscriptions};
use crate::telemetry::rate_limiter::RateLimiter;

const EVERY: Duration = Duration::from_secs(5);
/// Until a finding that lasts is logged whose line found no room.
const TRY_AGAIN: Duration = Duration::from_secs(60);

/// The findings, and the announced types that no route names.
pub(super) fn of(
    sidecar: &Core,
    subscriptions: &[SubscriptionStatus],
    now: Moment,
) -> (Vec<Finding>, Vec<UnroutedStatus>) {
    let look = |evidence: &Evidence<'_>| (findings::findings(evidence), unrouted::types(evidence));
    with_evidence(sidecar, subscriptions, now, look)
}

/// Gathers the evidence for findings and passes it to `judge`.
pub(super) fn with_evidence<T>(
    sidecar: &Core,
    subscriptions: &[SubscriptionStatus],
    now: Moment,
    judge: impl FnOnce(&Evidence<'_>) -> T,
) -> T {
    let notes = sidecar.observed.seen();
    let known = sidecar.freshness.wired(now);
    let records = sidecar.config.service.routes.iter().flat_map(|route| &route.records);
    let mut types: Vec<_> = records.map(|record| record.record_type.clone()).collect();
    types.sort_unstable();
    types.dedup();
    let wired = |name: String| {
        let id = sidecar.keyring.type_id(&name)?;
        Some((name, known.get(usize::from(id.0)).copied().unwrap_or_default()))
    };
    let types: Vec<_> = types.into_iter().filter_map(wired).collect();
    judge(&Evidence {
        config: &sidecar.config,
        notes: &notes,
        horizon: &sidecar.freshness.horizon(),
        heard: &heard(sidecar, subscriptions, now),
        subscriptions,
        types: &types,
        lead_wait: sidecar.config.freshness.worst_lag,
        now,
    })
}

/// Logs each finding once, and when it is over, until the process stops.
pub(super) fn start(sidecar: &Arc<Core>, topics: &Topics) {
    let topics = topics.clone();
    let (own, stopping) = (sidecar.clone(), sidecar.tasks.stopping());
    // What was logged once is not logged again after a panic.
    let told: Arc<Mutex<FindingLines>> = Arc::default();
    sidecar.tasks.spawn_service("findings", move || {
        let (own, topics, told, stopping) = (own.clone(), topics.clone(), told.clone(), stopping.clone());
        let looks = async move {
            loop {
                tokio::time::sleep(EVERY).await;
                let subscriptions = topics.get().map(Subscriptions::status).unwrap_or_default();
                let sidecar = own.newest();
                let look = |evidence: &Evidence<'_>| (findings::findings(evidence), findings::astray(evidence));
                let (found, astray) = with_evidence(&sidecar, &subscriptions, own.clock.now(), look);
                let named = |(name, regions): (String, _)| Some((sidecar.keyring.type_id(&name)?, regions));
                sidecar.freshness.found_astray(&astray.into_iter().filter_map(named).collect::<Vec<_>>());
                told.lock().unwrap_or_else(PoisonError::into_inner).log(&found, own.clock.now());
            }
        };
        async move { stopping.run_until_cancelled(looks).await }
    });
}

/// Findings that were logged and last. What a region or a peer does may come and go, so the lines of
/// each check are rationed, those of its end apart; `/status` has all.
#[derive(Default)]
struct FindingLines {
    /// With when it was tried, those whose line found no room.
    lasting: HashMap<(Check, String), Option<Moment>>,
    rations: HashMap<(Check, bool), RateLimiter>,
}

impl FindingLines {
    fn log(&mut self, found: &[Finding], now: Moment) {
        let Self { lasting, rations } = self;
        let mut ration = |check: Check, is_over: bool| rations.entry((check, is_over)).or_default().take(now);
        for Finding { check, subject, saw, advice } in found {
            let known = lasting.get(&(*check, subject.clone()));
            if known.is_some_and(|tried| tried.is_none_or(|tried| now.since(tried) < TRY_AGAIN)) {
                continue;
            }
            let room = ration(*check, false);
            if let Some(left_out) = room {
                tracing::warn!(check = check.word(), subject, advice, left_out, "{saw}");
            }
            lasting.insert((*check, subject.clone()), if room.is_some() { None } else { Some(now) });
        }
        lasting.retain(|(check, subject), tried| {
            let lasts = found.iter().any(|it| it.check == *check && it.subject == *subject);
            let is_over = !lasts && tried.is_none();
            if is_over && let Some(left_out) = ration(*check, true) {
                tracing::info!(check = check.word(), subject, left_out, "this finding is over");
            }
            lasts
        });
    }
}

/// What came from the regions' topics, and the state of their subscriptions.
pub(super) fn heard(sidecar: &Core, subscriptions: &[SubscriptionStatus], now: Moment) -> Vec<Heard> {
    let arrived = sidecar.freshness.arrived(now);
    let mut heard: Vec<_> = arrived.iter().map(|it| Heard { lag_ms: it.lag_ms, ..Heard::default() }).collect();
    for status in subscriptions {
        let place = status.region.index();
        let Some((heard, arrived)) = heard.get_mut(place).zip(arrived.get(place)) else { continue };
        heard.lost = status.lost;
        heard.unverified = status.unverified.filter(|_| arrived.unverified);
    }
    heard
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::limits::RATIONED_LINES;
    use crate::telemetry::scripted::CountedLines;

    fn finding(check: Check, number: u32) -> Finding {
        let subject = format!("subject {number}");
        Finding { check, subject, saw: "something".to_owned(), advice: "do this".to_owned() }
    }

    #[test]
    fn findings_that_last_are_all_told() {
        let (lines, mut own) = (CountedLines::start(), FindingLines::default());
        let all: Vec<_> = (0..25).map(|number| finding(Check::HeaderPassed, number)).collect();
        for look in 0..60 {
            own.log(&all, Moment::default() + look * EVERY);
        }
        assert_eq!(lines.with("WARN"), all.len());
        own.log(&[], Moment::default() + 60 * EVERY);
        assert_eq!(lines.with("this finding is over"), RATIONED_LINES.0 as usize);
    }

    #[test]
    fn findings_that_come_and_go_fill_no_log() {
        let (lines, mut own) = (CountedLines::start(), FindingLines::default());
        for number in 0..100 {
            own.log(&[finding(Check::Access, number % 7), finding(Check::Unverified, number)], Moment::default());
            own.log(&[], Moment::default());
        }
        let most = RATIONED_LINES.0 as usize;
        assert_eq!((lines.with("WARN"), lines.with("this finding is over")), (2 * most, 2 * most));
        own.log(&[finding(Check::Access, 200)], Moment::default() + RATIONED_LINES.1);
        assert_eq!(lines.with("left_out=90"), 1, "what was left out is counted");
    }
}
