//! Events of freshness ([`Event`]) and the work that they ask of the edges ([`Action`]). An
//! event carries every fact that a rule needs, times included, so that a step looks nothing up.

use std::time::Duration;

use crate::model::ids::{Epoch, RecordId, RegionId, TypeId, Version};
use crate::model::time::{Moment, Wall};
use crate::switch::{Rule, is_on};

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

/// Content of a verified message.
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
    /// The grants changed, to this version if it is known: it proves the path, moves the grants' floor
    /// (R22) and changes no record, and R21 does not count it.
    Grants(Option<u64>),
    /// A record type that no route names (R14): it proves the path and changes no record. R21 takes
    /// note of it.
    Unrouted,
    /// The envelope was verified, the body could not be decoded (R14).
    Undecodable,
}

/// Range of a RELOAD or RESET.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
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

/// Work or count asked of the edges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The record was read in the last minute and has changed: refetch its representations now.
    Refetch(RecordId),
    /// Make the region's subscription anew after this wait, to which the edge adds jitter.
    Resubscribe(RegionId, Duration),
    /// The region's epoch moved.
    EpochMoved(RegionId, Epoch, EpochMove),
    /// The message was not applied, because its region is paused. It is acknowledged all the same.
    Passed(RegionId),
    StateChanged(RegionId, SubscriptionState),
    /// The first heartbeat of a region, to be remembered across restarts.
    HeartbeatSeen(RegionId),
    /// Raise the alarm metric.
    Alarm(RegionId, Alarm),
}

/// Cause for which a region's epoch moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum EpochMove {
    /// Messages of a publisher are missing.
    Hole,
    /// A publisher is not at its first message when it is first received from.
    FirstHeard,
    Silence,
    /// A verified message is no announcement (R14).
    Undecodable,
    /// Messages arrive that cannot be verified (R14).
    Unverified,
    /// The subscription was lost.
    Lost,
    /// The subscription was made anew.
    Resubscribed,
    /// A publisher numbers from the beginning again.
    Restarted,
    PublisherGone,
    /// A recovery.
    Live,
    /// An operator paused the region.
    Paused,
    /// An operator resumed it.
    Resumed,
}

/// Cause of an alarm (R15, R17).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Alarm {
    VersionJump,
    /// No region reached it.
    FloorDropped,
    /// A version of the grants from the future is not believed.
    GrantsAhead,
    /// No second region reached a version of the grants, so it is not held against the others.
    GrantsUnreached,
    AbsenceAccepted,
    /// A region shows less than it must have had before.
    Regressed,
    AnnouncementFlood,
    FloorTableOverflow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
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

/// Quality of a region's proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
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
