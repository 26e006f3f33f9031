//! Metrics of the catalogue.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;

use super::problem_kind::ProblemKind;
use crate::telemetry::histogram::{Bounds, LatencyHistogram};
use crate::telemetry::labels::{label_sets, label_values};
use crate::telemetry::metrics::definition::{Family, metrics};

/// From 1 ms, which is memory or a disk, to the longest that a caller waits.
#[derive(Clone, Copy, Debug)]
struct StoreBounds;

impl Bounds for StoreBounds {
    const NANOS: &'static [u64] = &[
        1_000_000,
        2_000_000,
        5_000_000,
        10_000_000,
        20_000_000,
        50_000_000,
        100_000_000,
        200_000_000,
        500_000_000,
        1_000_000_000,
        5_000_000_000,
        30_000_000_000,
    ];
}

/// Outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub(super) enum WriteOutcome {
    Created,
    Replaced,
    Deleted,
    /// The answer of an earlier request with its idempotency key.
    Replayed,
}

/// Kind of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub(super) enum ReadKind {
    Record,
    Listing,
    History,
}

/// Call of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub(super) enum StoreCall {
    Get,
    Query,
    Write,
}

label_values!(WriteOutcome, ReadKind, StoreCall, ProblemKind);

label_sets! {
    WriteLabels { outcome: WriteOutcome }
    ReadLabels { what: ReadKind }
    RefusalLabels { problem: ProblemKind }
    StoreLabels { call: StoreCall }
}

metrics! {
    /// Metrics of one catalogue.
    pub struct CatalogueCounts("catalogue_") {
        /// Records written, and requests whose answer was repeated.
        writes: Family<WriteLabels, Counter>,
        /// Reads that were answered with something.
        reads: Family<ReadLabels, Counter>,
        /// Requests that got a problem document, by problem.
        refusals: Family<RefusalLabels, Counter>,
        /// Writes that were tried again, or given up.
        conflicts: Counter,
        /// Reads of records that are no JSON objects.
        damaged: Counter,
        /// Time that the store took, whatever it answered.
        store_duration_seconds: Family<StoreLabels, LatencyHistogram<StoreBounds>>,
    }
}

impl CatalogueCounts {
    pub(super) fn wrote(&self, outcome: WriteOutcome) {
        self.writes.at(&WriteLabels { outcome }).inc();
    }

    pub(super) fn read(&self, what: ReadKind) {
        self.reads.at(&ReadLabels { what }).inc();
    }

    pub(super) fn refused(&self, problem: ProblemKind) {
        self.refusals.at(&RefusalLabels { problem }).inc();
    }

    pub(super) fn conflict(&self) {
        self.conflicts.inc();
    }

    pub(super) fn damaged(&self) {
        self.damaged.inc();
    }

    pub(super) fn store_took(&self, call: StoreCall, took: Duration) {
        self.store_duration_seconds.at(&StoreLabels { call }).observe(took);
    }
}
