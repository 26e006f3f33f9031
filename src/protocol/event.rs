//! Owns what may happen to freshness ([`Event`]) and what it asks the edges to do about it ([`Action`]).
//!
//! Before it: [`crate::sidecar::announcements`] and the ticker make events. After it: `app` carries the actions out. Invariant:
//! an event carries every fact that a rule needs, times included; nothing is looked up while stepping.

use std::time::Duration;

use super::switch::{Rule, is_on};
use crate::model::ids::{Epoch, RecordId, RegionId, TypeId, Version};
use crate::model::time::{Moment, Wall};

/// Something that happened, with its time handed to `step` beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A verified message from a region's topic.
    Message {
        /// Whose topic carried it.
        region: RegionId,
        /// SNS `Timestamp`: when it was published.
        published: Wall,
        /// SQS `SentTimestamp`, when it came through a queue: cross-checks `published` (R9).
        queued: Option<Wall>,
        /// Who numbers it: a hash of the publisher's name, and its number.
        numbered: Option<(u64, u64)>,
        /// What it says.
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
    /// Something that cannot be verified came through a queue that takes messages from the region's topic only (R14).
    Unverified(RegionId),
    /// AWS did not say whether they do: throttled, or not to be reached. Neither a proof nor a loss.
    Unattested(RegionId),
    /// An earlier process saw heartbeats from this region (`freshness.state_file`): weak proof is over.
    HeartbeatRemembered(RegionId),
    /// An operator's order.
    Ordered(Order),
    /// An operator does not believe this region's topic from now on.
    Paused(RegionId),
    /// An operator believes it again.
    Resumed(RegionId),
    /// Time passed. Sent about every second, and after a pause.
    Tick,
}

/// What an operator may order of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Ask anew, keep the floors (R18).
    Reload(Scope),
    /// Ask anew and forget the floors (R19).
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
    /// The publisher lives. The message's number is its last, not one more.
    Heartbeat {
        /// It comes from `nearside heartbeat` (a publisher named `path:...`): its number is the slot
        /// `floor(unix time / 5 s)`, any copy may send it, and it proves the path only.
        path: bool,
        /// All it ingested through this time is announced at or below its number.
        ingested_through: Option<Wall>,
        /// It is not missed from now on.
        signing_off: bool,
    },
    /// A record type that no route names (R14): proves the path, changes nothing.
    Unrouted,
    /// The envelope was verified, the body could not be decoded (R14).
    Undecodable,
}

/// What a RELOAD or RESET covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One record.
    Record(RecordId),
    /// All of a type.
    Type(TypeId),
    /// Everything.
    All,
}

impl Scope {
    /// Whether it names this record.
    pub fn covers(self, id: RecordId) -> bool {
        match self {
            Self::Record(only) => only == id,
            Self::Type(only) => only == id.record_type,
            Self::All => true,
        }
    }
}

/// What the edges must do, or count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The record was read in the last minute and has changed: refetch its representations now.
    Refetch(RecordId),
    /// Make the region's subscription anew, after this (jitter is the edge's to add).
    Resubscribe(RegionId, Duration),
    /// The region's epoch moved; why, in a stable word for logs and metrics.
    EpochMoved(RegionId, Epoch, &'static str),
    /// The message was not applied: its region is paused. It is acknowledged all the same.
    Passed(RegionId),
    /// The region's subscription state changed.
    StateChanged(RegionId, Subscription),
    /// First heartbeat of a region: to be remembered across restarts.
    HeartbeatSeen(RegionId),
    /// A floor that no region reaches was dropped, or a version jumped (R15), or announcements are a flood: raise the
    /// alarm metric.
    Alarm(RegionId, &'static str),
}

/// The states of a region's subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Subscription {
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
    /// An operator does not believe it.
    Paused,
}

impl Subscription {
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

/// A verified message, less its region and what it says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    /// SNS `Timestamp`.
    pub(crate) published: Wall,
    /// SQS `SentTimestamp`.
    pub(crate) queued: Option<Wall>,
    /// Who numbers it, and its number.
    pub(crate) numbered: Option<(u64, u64)>,
}

impl Envelope {
    /// R9: when it was published, on our clock: by the older of SNS's word and SQS's, never after its receipt.
    pub(crate) fn published_at(self, now: Moment, wall: Wall) -> Moment {
        if !is_on(Rule::R9) {
            return now;
        }
        let older = self.queued.map_or(self.published, |queued| queued.min(self.published));
        now.before(wall.since(older))
    }
}
