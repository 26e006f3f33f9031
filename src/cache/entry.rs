//! Owns what is kept: one representation with what freshness needs to know of it.
//!
//! Before it: a fill builds it. After it: [`super::store`] holds it, [`crate::serve`] reads it without a lock.
//! Invariant: an entry is never changed, only replaced; what moves (floors, generations) is in the records that it
//! points to.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use crate::clock::{Moment, Wall};
use crate::freshness::record::Record;
use crate::freshness::words::{Generation, RecordId, RegionId, RegionSet, Version};
use crate::origin::reply::Outgoing;

/// A cached response.
#[derive(Debug)]
pub struct Entry {
    /// The region's status.
    pub status: StatusCode,
    /// The region's headers, end-to-end ones only, without `Age`.
    pub headers: HeaderMap,
    /// The body, shared with every reader.
    pub body: Bytes,
    /// Who answered.
    pub region: RegionId,
    /// When its request was sent, on the suspended-time clock and on the wall clock.
    pub sent: Moment,
    /// The same on the wall clock.
    pub sent_wall: Wall,
    /// The age that the reply already had when it arrived (RFC 9111, 4.2.3).
    pub age_at_receipt: Duration,
    /// The request that it answers, to ask again with.
    pub request: Arc<Outgoing>,
    /// What it hangs on.
    pub hold: Hold,
}

/// What an entry's freshness hangs on.
#[derive(Debug)]
pub enum Hold {
    /// Announcements keep it.
    Routed(Routed),
    /// RFC 9111 does.
    Unrouted(super::policy::Stored),
    /// Nothing does: it is passed on once and never stored.
    Passing,
}

/// A routed entry's facts (FRESHNESS.md, State).
#[derive(Debug)]
pub struct Routed {
    /// Its route, by its place in the configuration.
    pub route: u16,
    /// Each record it shows.
    pub shows: Box<[Shown]>,
    /// Digest over the decoded content: what stands for the version when there is none.
    pub digest: u128,
    /// CONFIRMED, PROVISIONAL or UNVERIFIED when it was stored.
    pub standing: Standing,
    /// Regions that were LIVE when the request was sent, with their epoch then in `Horizon` order: an epoch per region.
    pub epochs: Box<[crate::freshness::words::Epoch]>,
    /// Regions LIVE at that time.
    pub live: RegionSet,
    /// When it was last confirmed by a region.
    pub confirmed: Moment,
    /// Full TTL of its route (or the negative one), counted from `sent`; jitter already taken off (R16).
    pub ttl: Duration,
}

/// One record as an entry shows it.
#[derive(Debug)]
pub struct Shown {
    /// Which record.
    pub id: RecordId,
    /// Its live state, shared.
    pub record: Arc<Record>,
    /// The version shown; `Version::NONE` when the reply stated none.
    pub version: Version,
    /// The record's generation when the request was sent.
    pub generation: Generation,
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

impl Entry {
    /// A reply that is passed on and never stored.
    pub fn passing(reply: &crate::origin::reply::Reply) -> Self {
        Self {
            status: reply.status,
            headers: reply.headers.clone(),
            body: reply.body.clone(),
            region: reply.region,
            sent: reply.sent,
            sent_wall: reply.sent_wall,
            age_at_receipt: Duration::ZERO,
            request: Arc::new(Outgoing {
                method: http::Method::GET,
                path_and_query: String::new(),
                headers: HeaderMap::new(),
                body: Bytes::new(),
            }),
            hold: Hold::Passing,
        }
    }
    pub fn age(&self, now: Moment) -> Duration {
        self.age_at_receipt + now.since(self.sent)
    }
}
