//! What a routed entry hangs on: the records that it shows, and what its fill earned.

use std::sync::Arc;

use super::record::Record;
use crate::model::ids::{Epoch, Generation, RecordId, RegionSet, Version};
use crate::model::time::{Moment, Span};

/// A routed entry's facts (FRESHNESS.md, State).
#[derive(Debug)]
pub struct Routed {
    /// Its route's id ([`crate::core::router`]).
    pub route: u16,
    /// Each record it shows.
    pub shows: Shows,
    /// Digest over the decoded content, what stands for the version when there is none; `None` when a version is stated
    /// of every record, or while it is being worked out.
    pub digest: Option<Box<u128>>,
    /// CONFIRMED, PROVISIONAL or UNVERIFIED when it was stored.
    pub standing: Standing,
    /// Regions that were LIVE when the request was sent, with their epoch then in `Horizon` order: an epoch per region,
    /// shared by entries filled alike.
    pub epochs: Arc<Vec<Epoch>>,
    /// Those of them that it hangs on ([`crate::protocol::standing::Earned`]).
    pub live: RegionSet,
    /// When it was last confirmed by a region.
    pub confirmed: Moment,
    /// Full TTL of its route (or the negative one), counted from `sent`; jitter already taken off (R16).
    pub ttl: Span,
}

impl Routed {
    /// The digest, where it is kept.
    pub fn digest(&self) -> Option<u128> {
        self.digest.as_deref().copied()
    }
}

/// The records that an entry shows, in the route's order. Nearly all show one, which then takes no memory of its own.
#[derive(Debug)]
pub enum Shows {
    /// One.
    One([Shown; 1]),
    /// None or several.
    Many(Box<[Shown]>),
}

impl Shows {
    /// The memory it takes beside itself, bytes; a record's cell among it, as if nobody else held it.
    pub fn weight(&self) -> usize {
        let apart = match self {
            Self::One(_) => 0,
            Self::Many(shows) => size_of_val(&**shows),
        };
        apart + self.len() * size_of::<Record>()
    }
}

impl std::ops::Deref for Shows {
    type Target = [Shown];
    fn deref(&self) -> &[Shown] {
        match self {
            Self::One(shown) => shown,
            Self::Many(shows) => shows,
        }
    }
}

impl FromIterator<Shown> for Shows {
    fn from_iter<I: IntoIterator<Item = Shown>>(shows: I) -> Self {
        let shows: Vec<Shown> = shows.into_iter().collect();
        shows.try_into().map_or_else(|shows: Vec<Shown>| Self::Many(shows.into()), Self::One)
    }
}

/// One record as an entry shows it.
#[derive(Debug)]
pub struct Shown {
    /// The record's live state, shared.
    pub record: Arc<Record>,
    /// The version shown; `Version::NONE` when the reply stated none.
    pub version: Version,
    /// The record's generation when the request was sent.
    pub generation: Generation,
}

impl Shown {
    /// Which record: what the index and the floors are asked by.
    pub fn id(&self) -> RecordId {
        self.record.id()
    }
}

/// How much an entry counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Full TTL.
    Confirmed,
    /// Short TTL, being rechecked.
    Provisional,
    /// Must be asked before it counts.
    Unverified,
}

impl Standing {
    /// A stable word for `/status`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Provisional => "provisional",
            Self::Unverified => "unverified",
        }
    }
}
