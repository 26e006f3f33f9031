//! Gathers the evidence for findings, logs each finding once while it lasts, and lets those that
//! speak against the wiring shorten what depends on it (R21).

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Topics;
use crate::admin::findings::{self, Check, Evidence, Finding};
use crate::admin::readiness::Heard;
use crate::core::Core;
use crate::model::time::Moment;
use crate::sidecar::announcements::subscription::{SubscriptionStatus, Subscriptions};

const EVERY: Duration = Duration::from_secs(5);

pub(super) fn of(sidecar: &Core, subscriptions: &[SubscriptionStatus], now: Moment) -> Vec<Finding> {
    with_evidence(sidecar, subscriptions, now, findings::findings)
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
        now,
    })
}

/// Logs each finding once, and when it is over, until the process stops.
pub(super) fn start(sidecar: &Arc<Core>, topics: &Topics) {
    let topics = topics.clone();
    let (own, stopping) = (sidecar.clone(), sidecar.tasks.stopping());
    // What was logged once is not logged again after a panic.
    let told: Arc<Mutex<HashSet<(Check, String)>>> = Arc::default();
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
                tell(&found, &mut told.lock().unwrap_or_else(PoisonError::into_inner));
            }
        };
        async move { stopping.run_until_cancelled(looks).await }
    });
}

fn tell(found: &[Finding], told: &mut HashSet<(Check, String)>) {
    for Finding { check, subject, saw, advice } in found {
        if told.insert((*check, subject.clone())) {
            tracing::warn!(check = check.word(), subject, advice, "{saw}");
        }
    }
    told.retain(|(check, subject)| {
        let lasts = found.iter().any(|it| it.check == *check && it.subject == *subject);
        if !lasts {
            tracing::info!(check = check.word(), subject, "this finding is over");
        }
        lasts
    });
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
