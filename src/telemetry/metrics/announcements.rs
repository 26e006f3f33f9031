//! Announcements, and the freshness that they give.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;

use super::definition::{Family, metrics};
use crate::model::ids::RegionId;
use crate::protocol::event::{Alarm, EpochMove};
use crate::telemetry::histogram::{LatencyHistogram, Network};
use crate::telemetry::labels::{Label, RegionLabel, RegionOrNone, label_sets, label_values};

/// Outcome of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum AnnouncementOutcome {
    Applied,
    Heartbeat,
    Grants,
    Duplicate,
    Unrouted,
    Undecodable,
    Paused,
    Lifecycle,
    Forged,
    BadCertificate,
    Expired,
    Malformed,
    NoCertificate,
    NotYetValid,
    Overload,
    Oversized,
    /// Without an envelope, and so without a signature.
    Raw,
    UnknownSignatureVersion,
    UnknownType,
    WrongHost,
    WrongPath,
    WrongTopic,
}

label_values!(AnnouncementOutcome, EpochMove, Alarm);

label_sets! {
    AnnouncementLabels { region: RegionOrNone, outcome: AnnouncementOutcome }
    AnnouncingRegionLabels { region: RegionLabel }
    EpochLabels { region: RegionOrNone, reason: EpochMove }
    AlarmLabels { region: RegionOrNone, reason: Alarm }
}

metrics! {
    /// Announcements, and the freshness that they give.
    pub struct AnnouncementMetrics {
        regions: Regions;
        /// Announcements received, by outcome.
        announcements: Family<AnnouncementLabels, Counter>,
        /// Time from a region's ingest until applied here.
        propagation_delay_seconds: Family<AnnouncingRegionLabels, LatencyHistogram<Network>>,
        /// Times that messages may have been lost.
        epoch_moves: Family<EpochLabels, Counter>,
        /// Floors dropped, versions that jumped (rule R15), floods of announcements.
        alarms: Family<AlarmLabels, Counter>,
        /// Time by which the calendar ran ahead of the clock since boot, taken for pauses (rule R9).
        uncounted_pauses_seconds: Counter<f64, AtomicU64>,
    }
}

impl AnnouncementMetrics {
    /// An announcement was received.
    pub fn announcement(&self, region: Option<RegionId>, outcome: AnnouncementOutcome) {
        let region = self.regions.label_or_none(region);
        self.announcements.at(&AnnouncementLabels { region, outcome }).inc();
    }

    /// An announcement was applied this long after its `ingested_at`.
    pub fn propagation(&self, region: RegionId, took: Duration) {
        if let Some(region) = self.regions.label(region) {
            self.propagation_delay_seconds.at(&AnnouncingRegionLabels { region }).observe(took);
        }
    }

    pub fn epoch_moved(&self, region: RegionId, reason: EpochMove) {
        let region = self.regions.label_or_none(Some(region));
        self.epoch_moves.at(&EpochLabels { region, reason }).inc();
    }

    /// R15: somebody should look at this.
    pub fn alarm(&self, region: RegionId, reason: Alarm) {
        let region = self.regions.label_or_none(Some(region));
        self.alarms.at(&AlarmLabels { region, reason }).inc();
    }

    /// R9: the clock since boot had not counted this time.
    pub fn uncounted_pause(&self, span: Duration) {
        self.uncounted_pauses_seconds.inc_by(span.as_secs_f64());
    }

    /// Announcements from `region` with this outcome; `None` counts those of no known topic.
    pub fn announcements(&self, region: Option<RegionId>, outcome: AnnouncementOutcome) -> u64 {
        let region = self.regions.label_or_none(region);
        self.announcements.at(&AnnouncementLabels { region, outcome }).get()
    }

    /// Alarms about `region` for this reason.
    pub fn alarms(&self, region: RegionId, reason: Alarm) -> u64 {
        let region = self.regions.label_or_none(Some(region));
        self.alarms.at(&AlarmLabels { region, reason }).get()
    }

    pub fn received(&self) -> u64 {
        self.announcements.total()
    }

    pub fn applied(&self) -> u64 {
        let outcome = AnnouncementOutcome::Applied;
        let applied =
            RegionOrNone::all(&self.regions).into_iter().map(|region| AnnouncementLabels { region, outcome });
        applied.map(|labels| self.announcements.at(&labels).get()).sum()
    }

    pub fn epochs_moved(&self) -> u64 {
        self.epoch_moves.total()
    }

    pub fn alarms_raised(&self) -> u64 {
        self.alarms.total()
    }

    /// Seconds that the clock since boot had not counted.
    pub fn uncounted_pauses(&self) -> f64 {
        self.uncounted_pauses_seconds.get()
    }
}
