//! Requests of callers, and their outcomes.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;

use super::definition::{Family, metrics};
use crate::model::ids::RegionId;
use crate::protocol::label::Label;
use crate::telemetry::histogram::{CountOf, LatencyHistogram, Local, Network};
use crate::telemetry::labels::{RegionOrNone, label_sets, label_values};

/// Outcome of a request that was not a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum MissVerdict {
    Good,
    /// 404 or 410.
    Absent,
    /// 3xx and other 4xx.
    Refused,
    TooOld,
    /// A region's own error was passed on.
    Worthless,
    /// A stored reply stood in.
    Stale,
    /// Passed through, or too large to hold.
    Streamed,
    /// An answer of Nearside's own.
    None,
}

/// Cause for which a stored reply is labelled as stale: those of [`Label`] that say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum StaleReason {
    BelowFloor,
    FloorEscaped,
    Grace,
    StaleIfError,
    GrantsUnproven,
}

/// Cause for which a request is passed to one region, past the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum PassReason {
    Body,
    Condition,
    /// A header that may change answers.
    Header,
    Memory,
    Method,
    Range,
    /// The reply is too large to hold.
    Size,
    Unrouted,
}

/// Cause for which a request is refused before it is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum RefusalReason {
    BadBatch,
    BadBody,
    BadHost,
    BadTarget,
    Coding,
    CrossSite,
    Crowded,
    ForeignHost,
    LargeBatch,
    LargeBody,
    LargeHead,
    LongTarget,
    ManyKeys,
    NoRoom,
    NotJson,
    SlowBody,
    Token,
    Tunnel,
}

label_values!(MissVerdict, StaleReason, PassReason, RefusalReason);

label_sets! {
    MissLabels { region: RegionOrNone, verdict: MissVerdict }
    StaleLabels { reason: StaleReason }
    PassLabels { reason: PassReason }
    RefusalLabels { reason: RefusalReason }
}

metrics! {
    /// Requests of callers, and their outcomes.
    pub struct RequestMetrics {
        regions: Regions;
        /// Time that a request answered from the store took.
        hit_duration_seconds: LatencyHistogram<Local>,
        /// Requests answered from the store.
        hits: CountOf<Local> = CountOf(hit_duration_seconds.clone()),
        /// Requests answered after a fill, by their outcome and the region that gave it.
        misses: Family<MissLabels, Counter>,
        /// Time that a request answered after a fill took.
        miss_duration_seconds: LatencyHistogram<Network>,
        /// Stored replies served, labelled, although they could not be shown fresh.
        stale_served: Family<StaleLabels, Counter>,
        /// Requests passed on to one region, past the store.
        passed_requests: Family<PassLabels, Counter>,
        /// Requests refused before they were looked up.
        refused_requests: Family<RefusalLabels, Counter>,
        /// Readers that joined a fill under way.
        fills_shared: Counter,
        /// Warnings that callers seem to mint a token per request.
        identity_churn: Counter,
    }
}

impl RequestMetrics {
    /// A request was answered from the store: two atomic additions.
    pub fn hit(&self, took: Duration) {
        self.hit_duration_seconds.observe(took);
    }

    /// A request was answered after a fill, with a reply of `region`.
    pub fn miss(&self, verdict: MissVerdict, region: Option<RegionId>, took: Duration) {
        let region = self.regions.label_or_none(region);
        self.misses.at(&MissLabels { region, verdict }).inc();
        self.miss_duration_seconds.observe(took);
    }

    /// A stored reply was served with this label. Labels that say nothing of being stale are not
    /// counted.
    pub fn stale(&self, label: Label) {
        let reason = match label {
            Label::BelowFloor => StaleReason::BelowFloor,
            Label::FloorEscaped => StaleReason::FloorEscaped,
            Label::Grace => StaleReason::Grace,
            Label::StaleIfError => StaleReason::StaleIfError,
            Label::GrantsUnproven => StaleReason::GrantsUnproven,
            Label::MaxStale | Label::Unproven | Label::Unwired | Label::Provisional => return,
        };
        self.stale_served.at(&StaleLabels { reason }).inc();
    }

    /// A request was passed on to one region.
    pub fn passed(&self, reason: PassReason) {
        self.passed_requests.at(&PassLabels { reason }).inc();
    }

    /// A request was refused before it was looked up.
    pub fn refused(&self, reason: RefusalReason) {
        self.refused_requests.at(&RefusalLabels { reason }).inc();
    }

    /// A reader joined a running fill.
    pub fn fill_shared(&self) {
        self.fills_shared.inc();
    }

    /// A record has many identities: callers seem to mint a token per request.
    pub fn churn(&self) {
        self.identity_churn.inc();
    }

    pub fn hits(&self) -> u64 {
        self.hits.0.count()
    }

    pub fn misses(&self) -> u64 {
        self.misses.total()
    }

    pub fn stale_replies(&self) -> u64 {
        self.stale_served.total()
    }

    /// Stored replies that were served, labelled, for this reason.
    pub fn stale_for(&self, reason: StaleReason) -> u64 {
        self.stale_served.at(&StaleLabels { reason }).get()
    }

    pub fn refusals(&self) -> u64 {
        self.refused_requests.total()
    }

    pub fn shared_fills(&self) -> u64 {
        self.fills_shared.get()
    }

    pub fn churn_warnings(&self) -> u64 {
        self.identity_churn.get()
    }
}
