//! Attempts at regions.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;

use super::definition::{Family, metrics};
use crate::model::ids::RegionId;
use crate::telemetry::histogram::{LatencyHistogram, Network};
use crate::telemetry::labels::{RegionLabel, RegionOrNone, label_sets, label_values};

/// Outcome of an attempt: the verdict on its reply, or its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum AttemptOutcome {
    Good,
    Absent,
    Refused,
    TooOld,
    Worthless,
    Passed,
    Unjudged,
    Coding,
    Connect,
    Deadline,
    Drained,
    Garbage,
    NoCredential,
    NoRoom,
    Oversized,
    Saturated,
    Target,
    Truncated,
    Unprocessed,
}

label_values!(AttemptOutcome);

label_sets! {
    AttemptLabels { region: RegionOrNone, verdict: AttemptOutcome }
    RacedRegionLabels { region: RegionLabel }
}

metrics! {
    /// Attempts at regions.
    pub struct RaceMetrics {
        regions: Regions;
        /// Attempts at a region that ended, by their verdict or failure.
        attempts: Family<AttemptLabels, Counter>,
        /// Time that an attempt at a region took.
        attempt_duration_seconds: Family<RacedRegionLabels, LatencyHistogram<Network>>,
        /// Attempts that lost their race.
        losing_attempts: Family<RacedRegionLabels, Counter>,
    }
}

impl RaceMetrics {
    /// An attempt ended.
    pub fn attempt(&self, region: RegionId, verdict: AttemptOutcome, took: Duration) {
        self.attempts.at(&self.labels(region, verdict)).inc();
        if let Some(region) = self.regions.label(region) {
            self.attempt_duration_seconds.at(&RacedRegionLabels { region }).observe(took);
        }
    }

    /// An attempt lost its race.
    pub fn loser(&self, region: RegionId) {
        if let Some(region) = self.regions.label(region) {
            self.losing_attempts.at(&RacedRegionLabels { region }).inc();
        }
    }

    /// Attempts at `region` that ended like this.
    pub fn attempts(&self, region: RegionId, verdict: AttemptOutcome) -> u64 {
        self.attempts.at(&self.labels(region, verdict)).get()
    }

    pub fn ended(&self) -> u64 {
        self.attempts.total()
    }

    pub fn lost(&self) -> u64 {
        self.losing_attempts.total()
    }

    fn labels(&self, region: RegionId, verdict: AttemptOutcome) -> AttemptLabels {
        AttemptLabels { region: self.regions.label_or_none(Some(region)), verdict }
    }
}
