//! Gathers what the admin pages show: counts and states of every part, never contents. Gathering
//! takes no lock that a hit takes.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};

use super::{Topics, findings};
use crate::admin::audit::{AuditStatus, FreshShare, Violation};
use crate::admin::status::{CacheCounts, Facts, RaceHealth, ReloadStatus, Status};
use crate::config::{Route, Way};
use crate::core::Core;
use crate::core::race::region::RegionHealth;
use crate::http::connection::Shutdown;
use crate::model::ids::{RegionId, Version};
use crate::model::time::{Moment, Wall};
use crate::protocol::audit::Timeline;
use crate::protocol::limits::AUDIT_WINDOWS;
use crate::sidecar::announcements::subscription::Subscriptions;
use crate::tasks::permits::Permits;
use crate::tasks::supervision::FailingTask;
use crate::telemetry::metrics::exposition::WayGauges;

/// A closure that gathers the facts at the time of the call.
pub(super) fn source(
    sidecar: &Arc<Core>,
    topics: &Topics,
    shutdown: &Shutdown,
    connections: &Permits,
    reload: &Arc<ArcSwapOption<ReloadStatus>>,
    remarks: &Arc<ArcSwap<Vec<String>>>,
) -> Arc<dyn Fn() -> Status + Send + Sync> {
    let (sidecar, shutdown, connections) = (sidecar.clone(), shutdown.clone(), connections.clone());
    let (topics, reload, remarks) = (topics.clone(), reload.clone(), remarks.clone());
    let started = sidecar.clock.now();
    Arc::new(move || {
        let sidecar = sidecar.newest();
        let horizon = sidecar.freshness.horizon();
        let subscriptions = topics.get().map(Subscriptions::status).unwrap_or_default();
        let now = sidecar.clock.now();
        Status::of(&Facts {
            config: &sidecar.config,
            horizon: &horizon,
            now,
            started,
            draining: shutdown.lingering.is_cancelled(),
            races: sidecar.regions.status().into_iter().map(race_health).collect(),
            heard: findings::heard(&sidecar, &subscriptions, now),
            cache: CacheCounts {
                entries: sidecar.store.entries(),
                bytes: sidecar.store.bytes(),
                capacity_bytes: sidecar.store.capacity(),
            },
            connections: connections.taken(),
            tasks: sidecar.tasks.running(),
            task_panics: sidecar.tasks.panics(),
            failing_tasks: sidecar.tasks.failing().iter().map(FailingTask::line).collect(),
            metrics: &sidecar.metrics,
            bound: horizon.bound(now),
            audit: audit(&sidecar, now),
            reload: reload.load().as_deref().cloned(),
            findings: findings::of(&sidecar, &subscriptions, now),
            passed: sidecar.observed.passed(now),
            remarks: remarks.load().to_vec(),
            ways: ways(&sidecar),
            routes: sidecar.router.counted().map(|(path, counts)| (path.to_owned(), counts.counted())).collect(),
        })
    })
}

/// Who answers on routes with a second way, and what comparisons have found.
fn ways(sidecar: &Core) -> Vec<(&'static str, WayGauges)> {
    let of = |(place, route): (usize, &Route)| {
        let (second, id) = route.second.as_ref().zip(sidecar.router.second_id(place))?;
        let findings = sidecar.comparisons.ledger.findings(id);
        let found = WayGauges {
            route: route.path.text.clone(),
            comparisons: findings.endings(),
            places: findings.places(),
            clean: findings.clean().filter(|_| second.way == Way::Check),
        };
        Some((second.way.word(), found))
    };
    sidecar.config.service.routes.iter().enumerate().filter_map(of).collect()
}

/// What audits have found, in words and calendar time.
fn audit(sidecar: &Core, now: Moment) -> AuditStatus {
    let wall = sidecar.clock.wall();
    let told = |at: Moment| {
        let back = u64::try_from(now.since(at).as_millis()).unwrap_or(u64::MAX);
        let at = Wall::from_millis(wall.as_millis().saturating_sub(back));
        humantime::format_rfc3339_millis(at.to_system_time()).to_string()
    };
    let name = |region: RegionId| sidecar.regions.name(region).to_owned();
    let stated = |version: Version| (version != Version::NONE).then_some(version.0);
    let violation = |it: Timeline| Violation {
        record_type: sidecar.keyring.type_name(it.record.record_type).unwrap_or_default(),
        key_hash: format!("{:016x}", it.record.hash),
        answered_by: name(it.answered),
        standing: it.standing.word(),
        held_version: stated(it.held),
        requested: told(it.requested),
        confirmed: told(it.confirmed),
        seen_in: name(it.region),
        seen_version: stated(it.version),
        seen: told(it.seen),
        live: it.live.iter().map(name).collect(),
        announced: it.announced.map(told),
        announced_after_ms: it.announced.map(|at| u64::try_from(at.since(it.seen).as_millis()).unwrap_or(u64::MAX)),
    };
    let fresh = AUDIT_WINDOWS.iter().enumerate();
    AuditStatus {
        period_s: sidecar.config.freshness.audit_period.as_secs_f64(),
        entries: sidecar.metrics.audits().collect(),
        open: sidecar.audits.open(),
        fresh: fresh.map(|(place, window)| FreshShare::of(*window, sidecar.metrics.audits_within(place))).collect(),
        violations: sidecar.audits.violations(now).into_iter().map(violation).collect(),
    }
}

fn race_health(region: RegionHealth) -> RaceHealth {
    RaceHealth {
        running: region.in_flight,
        p95: region.p95,
        outlier: region.health == "outlier",
        held_off: region.held_off_for,
        drained: region.drained,
    }
}
