//! What `nearside doctor`, `/status` and the log say of a configuration that does not fit the service: what was seen, and what
//! to write instead.
//!
//! Before it: [`crate::telemetry::observed`] and the freshness protocol noted what two sources say. After it:
//! [`super::status`] shows the findings, `app` logs each once. Pure: the same facts make the same findings. A healthy sidecar
//! has none.

use serde::Serialize;

use super::readiness::Heard;
use crate::config::{Config, Transport};
use crate::model::ids::{RegionId, RegionSet};
use crate::model::time::Moment;
use crate::protocol::horizon::Horizon;
use crate::protocol::wiring::Wired;
use crate::sidecar::announcements::subscription::Status as SubscriptionStatus;
use crate::telemetry::observed::Notes;

mod records;
mod regions;
pub mod report;
mod routes;
mod topics;

/// What was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// AWS refuses what the subscription needs.
    Access,
    /// Messages arrive that cannot be verified.
    Unverified,
    /// No announcement arrives, and no heartbeat.
    HeartbeatsMissing,
    /// Announcements are not numbered.
    NumbersMissing,
    /// Heartbeats do not say through when all is ingested.
    ThroughMissing,
    /// Announcements cannot be read.
    Undecodable,
    /// A record type is announced that no route names, while one that a route names is not.
    TypeUnrouted,
    /// Announced keys are not the keys that are read.
    KeysUnmatched,
    /// Records change, and nobody announces it.
    Unannounced,
    /// Replies state no version, announcements do.
    VersionsMissing,
    /// Announcements state no version, replies do.
    VersionsUnannounced,
    /// A region does not answer.
    RegionFails,
    /// A region says 404, 401 or another where the others have the record.
    RegionOdd,
    /// A region does not show what its topic announces.
    TopicSwapped,
    /// This host's clock, or a region's.
    Clock,
    /// A cache stands before a region.
    Aged,
    /// No path matched a route.
    RouteUnmatched,
    /// Regions refuse, and headers of the caller were not forwarded.
    Refused,
    /// No region ever had what the route's paths show.
    Absent,
    /// Replies vary by what is not forwarded.
    Vary,
    /// Replies forbid storing.
    NoStore,
    /// Replies are too large to hold.
    TooLarge,
}

impl Check {
    /// All of them.
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
        Self::TopicSwapped,
        Self::Clock,
        Self::Aged,
        Self::RouteUnmatched,
        Self::Refused,
        Self::Absent,
        Self::Vary,
        Self::NoStore,
        Self::TooLarge,
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
            Self::TopicSwapped => "topic-swapped",
            Self::Clock => "clock",
            Self::Aged => "aged",
            Self::RouteUnmatched => "route-unmatched",
            Self::Refused => "refused",
            Self::Absent => "absent",
            Self::Vary => "vary",
            Self::NoStore => "no-store",
            Self::TooLarge => "too-large",
        }
    }

    /// What `nearside doctor` calls it.
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
            Self::TopicSwapped => "the region shows what its topic announces",
            Self::Clock => "clocks agree",
            Self::Aged => "no cache stands before the region",
            Self::RouteUnmatched => "paths match the route",
            Self::Refused => "regions let the callers in",
            Self::Absent => "regions have what the route's paths show",
            Self::Vary => "what replies vary by is forwarded",
            Self::NoStore => "replies may be stored",
            Self::TooLarge => "replies can be held",
        }
    }

    /// Whether changes may pass by what is stored although topics are alive.
    pub const fn hides_changes(self) -> bool {
        // What cannot be decoded moves the epoch: what is stored is asked for again.
        matches!(self, Self::TypeUnrouted | Self::KeysUnmatched | Self::Unannounced | Self::TopicSwapped)
    }

    /// Whether stored answers may be older than they say, or older for longer, because of it.
    pub const fn touches_freshness(self) -> bool {
        !matches!(
            self,
            Self::RouteUnmatched
                | Self::Refused
                | Self::Absent
                | Self::Vary
                | Self::NoStore
                | Self::TooLarge
                | Self::RegionFails
        )
    }
}

/// Something that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// [`Check::word`]
    #[serde(serialize_with = "word")]
    pub check: Check,
    /// The region, route or record type.
    pub subject: String,
    /// What was seen.
    pub saw: String,
    /// What to do about it.
    pub advice: String,
}

fn word<S: serde::Serializer>(check: &Check, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(check.word())
}

impl Finding {
    /// As one line.
    pub fn line(&self) -> String {
        format!("{}: {}; {}", self.subject, self.saw, self.advice)
    }
}

/// What findings are made from.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// The settings.
    pub config: &'a Config,
    /// What the edges noted.
    pub notes: &'a Notes,
    /// What the read path sees of the regions.
    pub horizon: &'a Horizon,
    /// By region, what came from its topic.
    pub heard: &'a [Heard],
    /// The subscriptions.
    pub subscriptions: &'a [SubscriptionStatus],
    /// Each record type that a route names, and what is known of it.
    pub types: &'a [(String, Wired)],
    /// When all of it was looked at.
    pub now: Moment,
}

impl Evidence<'_> {
    fn name(&self, region: RegionId) -> &str {
        self.config.service.regions.get(region.index()).map_or("?", |region| region.name.as_str())
    }

    fn names(&self, regions: impl IntoIterator<Item = RegionId>) -> String {
        list(regions.into_iter().map(|region| self.name(region)))
    }

    /// The regions that announce.
    fn topics(&self) -> RegionSet {
        let announces = self.config.announcements.transport != Transport::Off;
        let regions = (0u8..).map(RegionId).zip(&self.config.service.regions);
        regions.filter(|(_, region)| announces && region.topic.is_some()).map(|(id, _)| id).collect()
    }
}

/// All findings, in the order of the checks.
pub fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = topics::findings(evidence);
    found.extend(records::findings(evidence));
    found.extend(regions::findings(evidence));
    found.extend(routes::findings(evidence));
    found.sort_by(|left, right| (left.check, &left.subject).cmp(&(right.check, &right.subject)));
    found
}

/// `a`, `a and b`, `a, b and c`.
fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
