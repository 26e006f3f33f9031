//! What can happen to freshness ([`Event`]) and what it asks the edges to do about it ([`Action`]).
//! An event carries every fact that a rule needs, times included, so that a step looks nothing up.

use std::time::Duration;

use super::switch::{Rule, is_on};
use crate::model::ids::{Epoch, RecordId, RegionId, TypeId, Version};
use crate::model::time::{Moment, Wall};

/// Something that happened. Its time is passed to `step` beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A verified message from a region's topic.
    Message {
        region: RegionId,
        /// SNS `Timestamp`: when it was published.
        published: Wall,
        /// SQS `SentTimestamp`, if it came through a queue: cross-checks `published` (R9).
        queued: Option<Wall>,
        /// A hash of the publisher's name, and the message's number.
        numbered: Option<(u64, u64)>,
        says: Says,
    },
    /// A subscription is being made for this region.
    Subscribing(RegionId),
    /// Subscribed and confirmed: messages can arrive, nothing is proven yet.
    Subscribed(RegionId),
    /// The subscription or its queue is gone.
    Lost(RegionId),
    /// A long poll of the region's queue succeeded, empty or not (weak proof's first half).
    Polled(RegionId),
    /// GetSubscriptionAttributes still shows our endpoint and no filter (weak proof's second half).
    Attested(RegionId),
    /// Something that cannot be verified came through a queue that takes messages only from the
    /// region's topic (R14).
    Unverified(RegionId),
    /// AWS was throttled or unreachable, so nobody knows whether the attributes are still right.
    /// Neither a proof nor a loss.
    Unattested(RegionId),
    /// An earlier process saw heartbeats from this region (`freshness.state_file`): weak proof no
    /// longer counts.
    HeartbeatRemembered(RegionId),
    Ordered(OperatorOrder),
    /// From now on an operator does not trust this region's topic.
    Paused(RegionId),
    /// An operator trusts it again.
    Resumed(RegionId),
    /// Time passed. Sent about every second, and after a pause.
    Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorOrder {
    /// Ask again, keep the floors (R18).
    Reload(Scope),
    /// Ask again and forget the floors (R19).
    Reset(Scope),
}

/// What a verified message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Says {
    /// A record changed, perhaps to this version.
    Changed(RecordId, Option<Version>),
    /// A record was deleted, perhaps with this tombstone's version.
    Deleted(RecordId, Option<Version>),
    /// R18.
    Reload(Scope),
    /// R19.
    Reset(Scope),
    /// The publisher is alive. The message's number is its last, not one more.
    Heartbeat {
        /// It comes from `nearside heartbeat` (a publisher named `path:...`). Its number is the
        /// slot `floor(unix time / 5 s)`, any copy may send it, and it proves only the path.
        path: bool,
        /// Everything it ingested through this time is announced at or below its number.
        ingested_through: Option<Wall>,
        /// From now on its silence is expected.
        signing_off: bool,
    },
    /// A record type that no route names (R14): it proves the path and changes no record. R21 takes
    /// note of it.
    Unrouted,
    /// The envelope was verified, the body could not be decoded (R14).
    Undecodable,
}

/// What a RELOAD or RESET covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Record(RecordId),
    Type(TypeId),
    All,
}

impl Scope {
    pub fn covers(self, id: RecordId) -> bool {
        match self {
            Self::Record(only) => only == id,
            Self::Type(only) => only == id.record_type,
            Self::All => true,
        }
    }
}

/// What the edges must do or count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The record was read in the last minute and has changed: refetch its representations now.
    Refetch(RecordId),
    /// Make the region's subscription anew after this wait, to which the edge adds jitter.
    Resubscribe(RegionId, Duration),
    /// The region's epoch moved; the reason is a stable word for logs and metrics.
    EpochMoved(RegionId, Epoch, &'static str),
    /// The message was not applied, because its region is paused. It is acknowledged all the same.
    Passed(RegionId),
    StateChanged(RegionId, SubscriptionState),
    /// The first heartbeat of a region, to be remembered across restarts.
    HeartbeatSeen(RegionId),
    /// Raise the alarm metric: a floor that no region reaches was dropped or a version jumped
    /// (R15), or announcements are a flood.
    Alarm(RegionId, &'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SubscriptionState {
    /// Not made yet.
    #[default]
    Pending,
    /// Made; no proof yet.
    Probing,
    /// The lease holds.
    Live,
    /// 15 to 60 s of silence, or an open hole.
    Suspect,
    /// Over 60 s of silence, or unsubscribed.
    Dead,
    /// An operator does not trust it.
    Paused,
}

impl SubscriptionState {
    /// A stable word for metrics and `/status`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Probing => "probing",
            Self::Live => "live",
            Self::Suspect => "suspect",
            Self::Dead => "dead",
            Self::Paused => "paused",
        }
    }
}

/// How good a region's proof is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Grade {
    /// None yet.
    #[default]
    None,
    /// Polls and attributes only: a lease of 75 s.
    Weak,
    /// Messages or unnumbered heartbeats: a lease of 15 s.
    Path,
    /// Numbered heartbeats without holes: also gives `bound`.
    Watermark,
}

impl Grade {
    /// A stable word for metrics and `/status`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Weak => "weak",
            Self::Path => "path",
            Self::Watermark => "watermark",
        }
    }
}

/// A verified message without its region and what it says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageEnvelope {
    /// SNS `Timestamp`.
    pub(crate) published: Wall,
    /// SQS `SentTimestamp`.
    pub(crate) queued: Option<Wall>,
    /// A hash of the publisher's name, and the message's number.
    pub(crate) numbered: Option<(u64, u64)>,
}

impl MessageEnvelope {
    /// R9: when it was published, on our clock: by the older of SNS's and SQS's word, and never
    /// after its receipt.
    pub(crate) fn published_at(self, now: Moment, wall: Wall) -> Moment {
        if !is_on(Rule::R9) {
            return now;
        }
        let older = self.queued.map_or(self.published, |queued| queued.min(self.published));
        now.before(wall.since(older))
    }
}
