//! Requests of one route, by their outcome.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::telemetry::labels::label_values;

/// Outcome of a request on a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum RouteOutcome {
    /// The store answered.
    Hit,
    /// The regions were asked.
    Miss,
    /// The store answered, although its entry may be old.
    Stale,
}

label_values!(RouteOutcome);

/// Counts of the requests of one route.
#[derive(Debug, Default)]
pub struct RouteCounts {
    hits: AtomicU64,
    misses: AtomicU64,
    stale: AtomicU64,
}

impl RouteCounts {
    /// The store answered.
    pub(crate) fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// The regions were asked.
    pub(crate) fn miss(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// The store answered, although its entry may be old.
    pub(crate) fn stale(&self) {
        self.stale.fetch_add(1, Ordering::Relaxed);
    }

    /// All of them.
    pub(crate) fn total(&self) -> u64 {
        self.counted().iter().map(|(_, count)| count).sum()
    }

    /// The count of each outcome.
    pub(crate) fn counted(&self) -> [(RouteOutcome, u64); 3] {
        let all =
            [(RouteOutcome::Hit, &self.hits), (RouteOutcome::Miss, &self.misses), (RouteOutcome::Stale, &self.stale)];
        all.map(|(outcome, count)| (outcome, count.load(Ordering::Relaxed)))
    }
}
