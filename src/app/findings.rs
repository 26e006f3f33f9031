//! Gathers the evidence for findings, logs each finding once while it lasts, and lets those that
//! speak against the wiring shorten what depends on it (R21).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::topics::Topics;
use crate::admin::findings::unrouted::{self, UnroutedStatus};
use crate::admin::findings::{self, Check, Evidence, Finding};
use crate::admin::readiness::TopicArrivals;
use crate::model::time::Moment;
use crate::request::settings::Settings;
use crate::sidecar::announcements::subscription::{SubscriptionStatus, Subscriptions};
use crate::telemetry::rate_limiter::RateLimiter;

const EVERY: Duration = Duration::from_secs(5);
/// Until a finding that lasts is logged whose line found no room.
const TRY_AGAIN: Duration = Duration::from_secs(60);

/// The findings, and the announced types that no route names.
pub(super) fn of(
    sidecar: &Settings,
    subscriptions: &[SubscriptionStatus],
    now: Moment,
) -> (Vec<Finding>, Vec<UnroutedStatus>) {
    with_evidence(sidecar, subscriptions, now, |evidence| (findings::findings(evidence), unrouted::types(evidence)))
}

/// Gathers the evidence for findings and passes it to `judge`.
pub(super) fn with_evidence<T>(
    sidecar: &Settings,
    subscriptions: &[SubscriptionStatus],
    now: Moment,
    judge: impl FnOnce(&Evidence<'_>) -> T,
) -> T {
    let notes = sidecar.fill.shared.observed.seen();
    let known = sidecar.fill.shared.freshness.wired(now);
    let records = sidecar.fill.config.service.routes.iter().flat_map(|route| &route.records);
    let mut types: Vec<_> = records.map(|record| record.record_type.clone()).collect();
    types.sort_unstable();
    types.dedup();
    let types: Vec<_> = types
        .into_iter()
        .filter_map(|name| {
            let id = sidecar.fill.shared.keyed_hashes.type_id(&name)?;
            Some((name, known.get(usize::from(id.0)).copied().unwrap_or_default()))
        })
        .collect();
    judge(&Evidence {
        config: &sidecar.fill.config,
        notes: &notes,
        region_views: &sidecar.fill.shared.freshness.region_views(),
        arrivals: &arrivals(sidecar, subscriptions, now),
        subscriptions,
        types: &types,
        lead_wait: sidecar.fill.config.freshness.worst_lag,
        now,
    })
}

/// Logs each finding once, and when it is over, until the process stops.
pub(super) fn start(sidecar: &Arc<Settings>, topics: &Topics) {
    let topics = topics.clone();
    let (own, stopping) = (sidecar.clone(), sidecar.fill.shared.tasks.stopping());
    // What was logged once is not logged again after a panic.
    let reported: Arc<Mutex<FindingLines>> = Arc::default();
    sidecar.fill.shared.tasks.spawn_service("findings", move || {
        let (own, topics, reported, stopping) = (own.clone(), topics.clone(), reported.clone(), stopping.clone());
        let looks = async move {
            loop {
                tokio::time::sleep(EVERY).await;
                let subscriptions = topics.get().map(Subscriptions::status).unwrap_or_default();
                let sidecar = own.newest();
                let (found, astray) =
                    with_evidence(&sidecar, &subscriptions, own.fill.shared.clock.now(), |evidence| {
                        (findings::findings(evidence), findings::types_with_missed_announcements(evidence))
                    });
                sidecar.fill.shared.freshness.found_astray(
                    &astray
                        .into_iter()
                        .filter_map(|(name, regions)| {
                            Some((sidecar.fill.shared.keyed_hashes.type_id(&name)?, regions))
                        })
                        .collect::<Vec<_>>(),
                );
                reported.lock().log(&found, own.fill.shared.clock.now());
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
        let mut ration = |check: Check, is_over: bool| rations.entry((check, is_over)).or_default().admit(now);
        for Finding { check, subject, saw, advice } in found {
            let known = lasting.get(&(*check, subject.clone()));
            if known.is_some_and(|tried| tried.is_none_or(|tried| now.since(tried) < TRY_AGAIN)) {
                continue;
            }
            let room = ration(*check, false);
            if let Some(suppressed) = room {
                tracing::warn!(check = check.into_str(), subject, advice, suppressed, "{saw}");
            }
            lasting.insert((*check, subject.clone()), if room.is_some() { None } else { Some(now) });
        }
        lasting.retain(|(check, subject), tried| {
            let lasts = found.iter().any(|it| it.check == *check && it.subject == *subject);
            let is_over = !lasts && tried.is_none();
            if is_over && let Some(suppressed) = ration(*check, true) {
                tracing::info!(check = check.into_str(), subject, suppressed, "this finding is over");
            }
            lasts
        });
    }
}

/// Arrivals from the regions' topics, and the state of their subscriptions.
pub(super) fn arrivals(sidecar: &Settings, subscriptions: &[SubscriptionStatus], now: Moment) -> Vec<TopicArrivals> {
    let arrived = sidecar.fill.shared.freshness.arrived(now);
    let mut arrivals: Vec<_> =
        arrived.iter().map(|it| TopicArrivals { lag_ms: it.lag_ms, ..TopicArrivals::default() }).collect();
    for status in subscriptions {
        let place = status.region.index();
        let Some((arrivals, arrived)) = arrivals.get_mut(place).zip(arrived.get(place)) else { continue };
        arrivals.lost = status.lost;
        arrivals.unverified = status.unverified.filter(|_| arrived.unverified);
    }
    arrivals
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
    fn lasting_findings_are_all_logged() {
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
    fn flapping_findings_flood_no_log() {
        let (lines, mut own) = (CountedLines::start(), FindingLines::default());
        for number in 0..100 {
            own.log(&[finding(Check::Access, number % 7), finding(Check::Unverified, number)], Moment::default());
            own.log(&[], Moment::default());
        }
        let most = RATIONED_LINES.0 as usize;
        assert_eq!((lines.with("WARN"), lines.with("this finding is over")), (2 * most, 2 * most));
        own.log(&[finding(Check::Access, 200)], Moment::default() + RATIONED_LINES.1);
        assert_eq!(lines.with("suppressed=90"), 1, "what was left out is counted");
    }
}
