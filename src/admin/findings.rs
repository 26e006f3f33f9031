//! Findings: what `nearside doctor`, `/status` and the log say about a configuration that does not
//! fit the service, and what to write instead.
//!
//! [`crate::telemetry::observed`] and the freshness protocol note what two sources say; this
//! compares them. It is pure, so the same facts give the same findings. A healthy sidecar has none.

use std::time::Duration;

use serde::Serialize;

use super::readiness::Heard;
use crate::config::{Config, Transport};
use crate::model::ids::{RegionId, RegionSet};
use crate::model::time::Moment;
use crate::protocol::horizon::Horizon;
use crate::protocol::wiring::Wired;
use crate::sidecar::announcements::subscription::SubscriptionStatus;
use crate::telemetry::observed::Notes;

mod records;
mod regions;
pub mod report;
mod routes;
mod topics;
pub mod unrouted;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// AWS refuses what the subscription needs.
    Access,
    /// Messages arrive that cannot be verified.
    Unverified,
    /// No heartbeat arrives.
    HeartbeatsMissing,
    NumbersMissing,
    /// Heartbeats carry no `ingestedThrough`.
    ThroughMissing,
    Undecodable,
    /// An announced record type is in no route, while a routed type is not announced or is spelt
    /// almost the same.
    TypeUnrouted,
    /// The announced keys are not the keys that are read.
    KeysUnmatched,
    /// Records change, and nobody announces it.
    Unannounced,
    /// Announcements state versions, replies do not.
    VersionsMissing,
    /// Replies state versions, announcements do not.
    VersionsUnannounced,
    /// Most of the last requests to a region failed.
    RegionFails,
    /// A region answers 404, 401 or some other status where the others have the record.
    RegionOdd,
    /// A region shows versions that nobody announced and no other region reaches.
    RegionAhead,
    /// A region compresses replies in a way that nobody here can take off.
    Coding,
    /// A region does not show what its topic announces.
    TopicSwapped,
    /// This host's clock or a region's is wrong.
    Clock,
    /// A cache stands in front of a region.
    Aged,
    /// No request matched the route.
    RouteUnmatched,
    /// Every region refuses, perhaps because a caller's headers were not forwarded.
    Refused,
    /// No region ever had what the route's paths show.
    Absent,
    /// Callers send headers that may change answers, and their requests are passed on.
    HeaderPassed,
    /// Replies vary by a header that is not forwarded.
    Vary,
    NoStore,
    /// Replies are too large to hold.
    TooLarge,
    /// All regions answer with lower versions than before.
    VersionsBack,
    /// All regions show other content than before under the same version.
    SameVersionDiffers,
}

impl Check {
    pub const ALL: &[Self] = &[
        Self::Access,
        Self::Unverified,
        Self::HeartbeatsMissing,
        Self::NumbersMissing,
        Self::ThroughMissing,
        Self::Undecodable,
        Self::TypeUnrouted,
        Self::KeysUnmatched,
        Self::Unannounced,
        Self::VersionsMissing,
        Self::VersionsUnannounced,
        Self::RegionFails,
        Self::RegionOdd,
        Self::RegionAhead,
        Self::Coding,
        Self::TopicSwapped,
        Self::Clock,
        Self::Aged,
        Self::RouteUnmatched,
        Self::Refused,
        Self::Absent,
        Self::HeaderPassed,
        Self::Vary,
        Self::NoStore,
        Self::TooLarge,
        Self::VersionsBack,
        Self::SameVersionDiffers,
    ];

    /// A stable word for metrics, `/status` and the log.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Unverified => "unverified",
            Self::HeartbeatsMissing => "heartbeats-missing",
            Self::NumbersMissing => "numbers-missing",
            Self::ThroughMissing => "through-missing",
            Self::Undecodable => "undecodable",
            Self::TypeUnrouted => "type-unrouted",
            Self::KeysUnmatched => "keys-unmatched",
            Self::Unannounced => "unannounced",
            Self::VersionsMissing => "versions-missing",
            Self::VersionsUnannounced => "versions-unannounced",
            Self::RegionFails => "region-fails",
            Self::RegionOdd => "region-odd",
            Self::RegionAhead => "region-ahead",
            Self::Coding => "coding",
            Self::TopicSwapped => "topic-swapped",
            Self::Clock => "clock",
            Self::Aged => "aged",
            Self::RouteUnmatched => "route-unmatched",
            Self::Refused => "refused",
            Self::Absent => "absent",
            Self::HeaderPassed => "header-passed",
            Self::Vary => "vary",
            Self::NoStore => "no-store",
            Self::TooLarge => "too-large",
            Self::VersionsBack => "versions-back",
            Self::SameVersionDiffers => "same-version-differs",
        }
    }

    /// What `nearside doctor` prints: a sentence that is true when all is well.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Access => "AWS lets this process subscribe",
            Self::Unverified => "messages can be verified",
            Self::HeartbeatsMissing => "heartbeats arrive",
            Self::NumbersMissing => "announcements are numbered",
            Self::ThroughMissing => "heartbeats say ingestedThrough",
            Self::Undecodable => "announcements can be read",
            Self::TypeUnrouted => "announced record types are those of the routes",
            Self::KeysUnmatched => "announced keys are the keys that are read",
            Self::Unannounced => "what changes is announced",
            Self::VersionsMissing => "replies state versions",
            Self::VersionsUnannounced => "announcements state versions",
            Self::RegionFails => "the region answers",
            Self::RegionOdd => "the region answers as the others do",
            Self::RegionAhead => "the others reach the region's versions",
            Self::Coding => "compressed replies can be decompressed",
            Self::TopicSwapped => "the region shows what its topic announces",
            Self::Clock => "clocks agree",
            Self::Aged => "no cache stands before the region",
            Self::RouteUnmatched => "paths match the route",
            Self::Refused => "regions let the callers in",
            Self::Absent => "regions have what the route's paths show",
            Self::HeaderPassed => "callers' headers are sent, ignored or known to change nothing",
            Self::Vary => "what replies vary by is forwarded",
            Self::NoStore => "replies may be stored",
            Self::TooLarge => "replies can be held",
            Self::VersionsBack => "versions only grow",
            Self::SameVersionDiffers => "a version stands for one content",
        }
    }

    /// Whether stored entries may miss changes although the topics are alive.
    pub const fn hides_changes(self) -> bool {
        // `Undecodable` is not among these: it moves the epoch, so stored entries are asked about
        // again.
        matches!(self, Self::TypeUnrouted | Self::KeysUnmatched | Self::Unannounced | Self::TopicSwapped)
    }

    /// Whether it can make stored answers older than they say, or keep them old for longer.
    pub const fn touches_freshness(self) -> bool {
        !matches!(
            self,
            Self::RouteUnmatched
                | Self::Refused
                | Self::Absent
                | Self::HeaderPassed
                | Self::Vary
                | Self::NoStore
                | Self::TooLarge
                | Self::RegionFails
                | Self::Coding
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Serialized as [`Check::word`].
    #[serde(serialize_with = "word")]
    pub check: Check,
    /// The region, route or record type.
    pub subject: String,
    pub saw: String,
    pub advice: String,
}

fn word<S: serde::Serializer>(check: &Check, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(check.word())
}

impl Finding {
    pub fn line(&self) -> String {
        format!("{}: {}; {}", self.subject, self.saw, self.advice)
    }
}

/// The facts that findings are made from.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    pub config: &'a Config,
    pub notes: &'a Notes,
    /// What the read path sees of the regions.
    pub horizon: &'a Horizon,
    /// What came from each region's topic, by region.
    pub heard: &'a [Heard],
    pub subscriptions: &'a [SubscriptionStatus],
    /// Each record type that a route names, and what is known about it.
    pub types: &'a [(String, Wired)],
    /// Time for which a region may be the only one to show what nobody announced.
    pub lead_wait: Duration,
    /// When the facts were gathered.
    pub now: Moment,
}

impl Evidence<'_> {
    fn name(&self, region: RegionId) -> &str {
        self.config.service.regions.get(region.index()).map_or("?", |region| region.name.as_str())
    }

    fn names(&self, regions: impl IntoIterator<Item = RegionId>) -> String {
        list(regions.into_iter().map(|region| self.name(region)))
    }

    /// The regions with a topic; none while announcements are off.
    fn topics(&self) -> RegionSet {
        let announces = self.config.announcements.transport != Transport::Off;
        let regions = (0u8..).map(RegionId).zip(&self.config.service.regions);
        regions.filter(|(_, region)| announces && region.topic.is_some()).map(|(id, _)| id).collect()
    }
}

/// All findings, in the order of the checks, then of the subjects.
pub fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = topics::findings(evidence);
    found.extend(records::findings(evidence));
    found.extend(regions::findings(evidence));
    found.extend(routes::findings(evidence));
    found.sort_by(|left, right| (left.check, &left.subject).cmp(&(right.check, &right.subject)));
    found
}

/// The record types whose announcements miss what is read here, each with the regions concerned.
/// Entries of these types do not earn the full TTL from these regions (R21).
pub fn astray(evidence: &Evidence<'_>) -> Vec<(String, RegionSet)> {
    records::astray(evidence)
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
