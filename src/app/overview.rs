//! Gathers what the admin pages show: counts and states of every part, never contents.
//!
//! Before it: the parts. After it: [`crate::admin::status`]. Invariant: gathering takes no lock that a hit takes.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::admin::status::{CacheCounts, Facts, RaceHealth, Status};
use crate::listener::Ending;
use crate::origin::region::RegionStatus;
use crate::serve::Sidecar;

/// A closure that gathers the facts as they are when it is called.
pub(super) fn source(
    sidecar: &Arc<Sidecar>,
    ending: &Ending,
    permits: &Arc<Semaphore>,
) -> Arc<dyn Fn() -> Status + Send + Sync> {
    let (sidecar, ending, permits) = (sidecar.clone(), ending.clone(), permits.clone());
    let started = sidecar.clock.now();
    Arc::new(move || {
        let horizon = sidecar.freshness.horizon();
        let now = sidecar.clock.now();
        Status::of(&Facts {
            config: &sidecar.config,
            horizon: &horizon,
            now,
            wall: sidecar.clock.wall(),
            started,
            draining: ending.lingering.is_cancelled(),
            races: sidecar.regions.status().into_iter().map(race_health).collect(),
            cache: CacheCounts {
                entries: sidecar.store.entries(),
                bytes: sidecar.store.bytes(),
                capacity_bytes: sidecar.config.cache.max_bytes,
            },
            connections: sidecar.config.listen.max_connections.saturating_sub(permits.available_permits()),
            tasks: sidecar.tasks.running(),
            metrics: &sidecar.metrics,
            bound: horizon.bound(now),
        })
    })
}

fn race_health(region: RegionStatus) -> RaceHealth {
    RaceHealth {
        running: region.in_flight,
        p95: region.p95,
        outlier: region.health == "outlier",
        held_off: region.held_off_for,
    }
}
