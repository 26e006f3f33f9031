//! Gathers what the admin pages show: counts and states of every part, never contents. Gathering
//! takes no lock that a hit takes.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};

use super::findings;
use super::topics::Topics;
use crate::admin::audit::{AuditStatus, FreshShare, Violation};
use crate::admin::grants::GrantsFacts;
use crate::admin::status::{
    CacheCounts, Facts, Observations, RaceHealth, RegionFacts, ReloadStatus, RouteFacts, Status, TaskFacts,
};
use crate::config::MigrationMode;
use crate::http::connection::Shutdown;
use crate::model::ids::{RegionId, RouteIndex, Version};
use crate::model::time::{Moment, Wall};
use crate::protocol::audit::Timeline;
use crate::protocol::limits::AUDIT_WINDOWS;
use crate::race::region::status::RegionHealth;
use crate::request::settings::Settings;
use crate::routing::router::Router;
use crate::sidecar::announcements::subscription::Subscriptions;
use crate::tasks::FailingTask;
use crate::tasks::permits::Permits;
use crate::telemetry::counts::RouteOutcome;
use crate::telemetry::metrics::exposition::ComparisonGauges;

/// A closure that gathers the facts at the time of the call.
pub(super) fn source(
    sidecar: &Arc<Settings>,
    topics: &Topics,
    shutdown: &Shutdown,
    connections: &Permits,
    reload: &Arc<ArcSwapOption<ReloadStatus>>,
    remarks: &Arc<ArcSwap<Vec<String>>>,
) -> Arc<dyn Fn() -> Status + Send + Sync> {
    let (sidecar, shutdown, connections) = (sidecar.clone(), shutdown.clone(), connections.clone());
    let (topics, reload, remarks) = (topics.clone(), reload.clone(), remarks.clone());
    let started = sidecar.fill.shared.clock.now();
    Arc::new(move || {
        let sidecar = sidecar.newest();
        let shared = &sidecar.fill.shared;
        let region_views = shared.freshness.region_views();
        let subscriptions = topics.get().map(Subscriptions::status).unwrap_or_default();
        let now = shared.clock.now();
        let (findings, unrouted_types) = findings::of(&sidecar, &subscriptions, now);
        Status::of(&Facts {
            config: &sidecar.fill.config,
            now,
            started,
            draining: shutdown.lingering.is_cancelled(),
            regions: RegionFacts {
                region_views: &region_views,
                races: sidecar.fill.regions.status().into_iter().map(race_health).collect(),
                arrivals: findings::arrivals(&sidecar, &subscriptions, now),
                grants: GrantsFacts {
                    issuers: sidecar.shared.verifier.iter().flat_map(|it| it.issuers().states()).collect(),
                    permits: shared.fills.permits.remembered(),
                    view: shared.freshness.grants().view(),
                },
            },
            cache: CacheCounts {
                entries: shared.store.entries(),
                bytes: shared.store.bytes(),
                capacity_bytes: shared.store.capacity(),
            },
            connections: connections.taken(),
            tasks: TaskFacts {
                running: shared.tasks.running(),
                panics: shared.tasks.panics(),
                failing: shared.tasks.failing().iter().map(FailingTask::line).collect(),
            },
            metrics: &shared.metrics,
            bound: region_views.bound(now),
            audit: audit(&sidecar, now),
            reload: reload.load().as_deref().cloned(),
            observations: Observations {
                findings,
                unrouted_types,
                credentials: sidecar.fill.minters.status(now),
                passed: shared.observed.passed(now),
            },
            remarks: remarks.load().to_vec(),
            routes: RouteFacts { counted: counted(&sidecar.fill.router), migrations: migrations(&sidecar) },
        })
    })
}

/// Each route's path, and its requests by outcome.
fn counted(router: &Router) -> Vec<(String, [(RouteOutcome, u64); 3])> {
    router.counted().map(|(path, counts)| (path.to_owned(), counts.counted())).collect()
}

/// Modes of routes with a candidate, and what comparisons have found.
fn migrations(sidecar: &Settings) -> Vec<(&'static str, ComparisonGauges)> {
    let routes = sidecar.fill.config.service.routes.iter().enumerate();
    let migrations = routes.filter_map(|(index, route)| {
        let (candidate, id) = route.candidate.as_ref().zip(sidecar.fill.router.candidate_id(RouteIndex(index)))?;
        let findings = sidecar.fill.shared.comparisons.tally.findings(id);
        let found = ComparisonGauges {
            route: route.path.text.clone(),
            comparisons: findings.endings(),
            places: findings.places(),
            clean: findings.clean().filter(|_| candidate.mode == MigrationMode::Check),
        };
        Some((candidate.mode.word(), found))
    });
    migrations.collect()
}

/// Results of audits, in words and calendar time.
fn audit(sidecar: &Settings, now: Moment) -> AuditStatus {
    let fresh = AUDIT_WINDOWS.iter().enumerate().map(|(place, window)| {
        let (fresh, stale) = sidecar.fill.shared.metrics.audits.audits_within(place);
        FreshShare::of(*window, fresh, stale)
    });
    let wall = sidecar.fill.shared.clock.wall();
    let violations = sidecar.fill.shared.auditor.violations(now).into_iter();
    AuditStatus {
        period_s: sidecar.fill.config.freshness.audit_period.as_secs_f64(),
        entries: sidecar.fill.shared.metrics.audits.audits().collect(),
        open: sidecar.fill.shared.auditor.open(),
        fresh: fresh.collect(),
        violations: violations.map(|it| violation(sidecar, it, now, wall)).collect(),
    }
}

fn violation(sidecar: &Settings, it: Timeline, now: Moment, wall: Wall) -> Violation {
    let name = |region: RegionId| sidecar.fill.regions.name(region).to_owned();
    Violation {
        record_type: sidecar.fill.shared.keyed_hashes.type_name(it.record.record_type).unwrap_or_default(),
        key_hash: format!("{:016x}", it.record.hash),
        answered_by: name(it.answered),
        standing: it.standing.into_str(),
        held_version: stated(it.held),
        requested: on_calendar(it.requested, now, wall),
        confirmed: on_calendar(it.confirmed, now, wall),
        seen_in: name(it.region),
        seen_version: stated(it.version),
        seen: on_calendar(it.first_seen_at, now, wall),
        live: it.live.iter().map(name).collect(),
        announced: it.announced.map(|at| on_calendar(at, now, wall)),
        announced_after_ms: it
            .announced
            .map(|at| u64::try_from(at.since(it.first_seen_at).as_millis()).unwrap_or(u64::MAX)),
    }
}

fn stated(version: Version) -> Option<u64> {
    (version != Version::NONE).then_some(version.0)
}

/// A past moment in calendar time (RFC 3339): `now` is `wall` on the calendar.
fn on_calendar(at: Moment, now: Moment, wall: Wall) -> String {
    let back = u64::try_from(now.since(at).as_millis()).unwrap_or(u64::MAX);
    let at = Wall::from_millis(wall.as_millis().saturating_sub(back));
    humantime::format_rfc3339_millis(at.to_system_time()).to_string()
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
