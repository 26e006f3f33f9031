//! Records that a routed entry shows, and what its fill earned.

use std::sync::Arc;

use super::record::Record;
use crate::model::ids::{Epoch, Generation, RecordId, RegionSet, RouteId, Version};
use crate::model::time::{Moment, Span};

/// State kept of a routed entry (docs/freshness.md, State).
#[derive(Clone, Debug)]
pub struct Routed {
    /// The route's id in [`crate::routing::router`].
    pub route: RouteId,
    pub shows: ShownRecords,
    /// A digest of the decoded content, which stands for the version where there is none. `None` if
    /// the reply stated a version of every record, or while the digest is being computed.
    pub digest: Option<Box<u128>>,
    /// Standing that it earned when it was stored.
    pub standing: Standing,
    /// Every region's epoch when the request was sent, in `RegionViews` order. Entries filled alike
    /// share one list.
    pub epochs: Arc<Vec<Epoch>>,
    /// The regions it depends on, all of which were LIVE when the request was sent
    /// ([`crate::protocol::standing::Classification`]).
    pub live: RegionSet,
    /// Time at which a region last confirmed it.
    pub confirmed: Moment,
    /// The full TTL of its route (or the negative one), counted from `sent`, with jitter already
    /// taken off (R16).
    pub ttl: Span,
}

impl Routed {
    pub fn digest(&self) -> Option<u128> {
        self.digest.as_deref().copied()
    }
}

/// The records an entry shows, in the route's order. Nearly all entries show one, which then takes
/// no memory of its own.
#[derive(Clone, Debug)]
pub enum ShownRecords {
    One([ShownRecord; 1]),
    /// None or several.
    Many(Box<[ShownRecord]>),
}

impl ShownRecords {
    /// The memory it takes beside itself, in bytes. That includes each record's cell, as if nobody
    /// else held it.
    pub fn weight(&self) -> usize {
        let apart = match self {
            Self::One(_) => 0,
            Self::Many(shows) => size_of_val(&**shows),
        };
        apart + self.len() * size_of::<Record>()
    }
}

impl std::ops::Deref for ShownRecords {
    type Target = [ShownRecord];
    fn deref(&self) -> &[ShownRecord] {
        match self {
            Self::One(shown) => shown,
            Self::Many(shows) => shows,
        }
    }
}

impl FromIterator<ShownRecord> for ShownRecords {
    fn from_iter<I: IntoIterator<Item = ShownRecord>>(shows: I) -> Self {
        let shows: Vec<ShownRecord> = shows.into_iter().collect();
        shows.try_into().map_or_else(|shows: Vec<ShownRecord>| Self::Many(shows.into()), Self::One)
    }
}

/// One record as an entry shows it.
#[derive(Clone, Debug)]
pub struct ShownRecord {
    /// The record's live state, shared.
    pub record: Arc<Record>,
    /// `Version::NONE` if the reply stated none.
    pub version: Version,
    /// The record's generation when the request was sent.
    pub generation: Generation,
}

impl ShownRecord {
    /// Key of the record in the index and the floors.
    pub fn id(&self) -> RecordId {
        self.record.id()
    }
}

/// Weight of an entry's claim to be fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Standing {
    /// For the full TTL.
    Confirmed,
    /// For the short TTL, while it is being rechecked.
    Provisional,
}
