//! Entries of the cache: one representation, with what freshness needs to know about it.
//!
//! An entry is never changed, only replaced, so [`crate::request::lookup`] reads it without a lock.
//! What does change (floors, generations) is in the records that the entry points to.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::content::Content;
use super::derived::Derived;
use crate::cache::rfc9111::freshness::initial_age;
use crate::cache::rfc9111::stored_facts::StoredFacts;
use crate::http::exchange::{Outgoing, Reply};
use crate::model::ids::RegionId;
use crate::model::time::{Moment, ShortSpan};
use crate::protocol::holding::{Routed, ShownRecord};
use crate::protocol::region_views::RegionViews;
use crate::protocol::standing::{self, Assessment};

pub struct Entry {
    /// As the region sent it.
    pub status: StatusCode,
    /// The region's end-to-end headers without `Age`, and the body. For a routed entry also the
    /// headers of the request that it answers.
    pub content: Content,
    /// The region that answered.
    pub region: RegionId,
    /// Time at which the request was sent.
    pub sent: Moment,
    /// The age the reply already had on arrival, not counting its own transit time
    /// ([`crate::cache::rfc9111::freshness::initial_age`]).
    pub age_at_receipt: ShortSpan,
    pub validity: Validity,
    /// Contents made of the body for callers who want it in another form.
    pub derived: Derived,
    /// True if the body is JSON; computed on first use.
    pub json: KnownJson,
}

/// Findings about an entry's body. They take no memory of their own.
#[derive(Debug, Default)]
pub struct KnownJson(AtomicU8);

impl KnownJson {
    /// `None` while nobody has looked.
    pub fn get(&self) -> Option<bool> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            known => Some(known == 1),
        }
    }

    pub fn set(&self, is_json: bool) {
        self.0.store(if is_json { 1 } else { 2 }, Ordering::Relaxed);
    }
}

/// Shows no header value and nothing of the body: they hold credentials.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("status", &self.status)
            .field("content", &self.content)
            .field("region", &self.region)
            .field("sent", &self.sent)
            .field("age_at_receipt", &self.age_at_receipt)
            .field("validity", &self.validity)
            .finish_non_exhaustive()
    }
}

impl Entry {
    /// A reply that is passed on and never stored.
    pub fn passing(reply: &Reply) -> Self {
        Self::of(reply, Content::new(&reply.headers, &reply.body), Validity::Uncacheable)
    }

    /// An entry for `reply`, whose headers and body `content` already holds.
    pub fn of(reply: &Reply, content: Content, validity: Validity) -> Self {
        let received = reply.sent_wall + reply.received.since(reply.sent);
        Self {
            status: reply.status,
            content,
            region: reply.region,
            sent: reply.sent,
            age_at_receipt: initial_age(&reply.headers, reply.sent, reply.received, received).into(),
            validity,
            derived: Derived::NONE,
            json: KnownJson::default(),
        }
    }

    /// Adds what was made of the entry's body.
    #[must_use]
    pub fn with(&self, derived: Derived) -> Self {
        Self {
            content: self.content.clone(),
            validity: self.validity.clone(),
            derived,
            json: KnownJson::default(),
            ..*self
        }
    }

    /// A copy of the region's headers.
    pub fn headers(&self) -> HeaderMap {
        self.content.headers()
    }

    /// The value of the region's first header line with this name.
    pub fn header(&self, name: &HeaderName) -> Option<HeaderValue> {
        self.content.header(name)
    }

    /// Shares the block without copying it. The entry lives as long as any slice cut from the
    /// result ([`Content::put`], [`Content::cut`]).
    pub fn share(self: &Arc<Self>) -> Bytes {
        struct Shared(Arc<Entry>);
        impl AsRef<[u8]> for Shared {
            fn as_ref(&self) -> &[u8] {
                self.0.content.block()
            }
        }
        Bytes::from_owner(Shared(Arc::clone(self)))
    }

    /// The body; a small one is copied.
    pub fn body(&self) -> Bytes {
        self.content.body()
    }

    /// The request that a routed entry answers, for asking again. It carries the caller's
    /// credentials (`exact`) but not the sidecar's own; they live no longer than the entry and are
    /// never printed. `target` comes from the entry's key ([`super::key::KeyRef::target`]).
    pub fn request(&self, target: &str) -> Arc<Outgoing> {
        let (path_and_query, headers) = (target.to_owned(), self.content.request());
        Arc::new(Outgoing { method: Method::GET, path_and_query, headers, body: Bytes::new() })
    }

    /// The entry's age at `now` (RFC 9111, 4.2.3): its age on arrival, plus the time since its
    /// request was sent.
    pub fn age(&self, now: Moment) -> Duration {
        self.age_at_receipt.get() + now.since(self.sent)
    }

    /// As it stands at `now`, if a route names it.
    #[inline]
    pub fn assess<'a>(&'a self, region_views: &'a RegionViews, now: Moment) -> Option<Assessment<'a>> {
        Some(standing::assess(self.validity.routed()?, self.sent, region_views, now))
    }

    /// Memory used, in bytes: body, headers, the key if the entry holds it, and what keeps it
    /// fresh.
    pub fn weight(&self) -> usize {
        let validity = match &self.validity {
            Validity::Routed(routed) => {
                routed.shows.weight() + routed.digest.as_ref().map_or(0, |_| size_of::<u128>())
            }
            Validity::Unrouted(stored) => size_of_val(&*stored.vary),
            Validity::Uncacheable => 0,
        };
        size_of::<Self>() + self.content.weight() + validity + self.derived.weight()
    }

    /// The records that the entry shows; empty if it is unrouted.
    pub fn shows(&self) -> &[ShownRecord] {
        match &self.validity {
            Validity::Routed(routed) => &routed.shows,
            Validity::Unrouted(_) | Validity::Uncacheable => &[],
        }
    }

    /// True if it may replace `stored` under the same key: a late fill never overwrites a newer
    /// entry (R3).
    ///
    /// An older generation of any record that both show loses. Otherwise the later request wins.
    /// Among one fill's replies, which count as sent together, the last one put wins unless its
    /// versions are lower. A reply to an earlier request wins only with higher versions.
    pub fn supersedes(&self, stored: &Self) -> bool {
        if self.shown_in_both(stored).any(|(new, old)| new.generation < old.generation) {
            return false;
        }
        let newer =
            self.shown_in_both(stored).any(|(new, old)| new.version > old.version || new.generation > old.generation);
        let older = self
            .shown_in_both(stored)
            .any(|(new, old)| new.version < old.version && new.generation == old.generation);
        self.sent > stored.sent || (self.sent == stored.sent || newer) && !older
    }

    /// The records that both show, as this entry and as the other shows them.
    fn shown_in_both<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (&'a ShownRecord, &'a ShownRecord)> {
        self.shows()
            .iter()
            .flat_map(|own| other.shows().iter().filter(|it| it.id() == own.id()).map(move |it| (own, it)))
    }
}

/// Facts that an entry's freshness depends on.
#[derive(Clone, Debug)]
pub enum Validity {
    /// Announcements.
    Routed(Routed),
    /// RFC 9111.
    Unrouted(StoredFacts),
    /// Nothing: the reply is passed on and never stored.
    Uncacheable,
}

impl Validity {
    /// The RFC 9111 facts of an unrouted entry.
    pub const fn unrouted(&self) -> Option<&StoredFacts> {
        match self {
            Self::Unrouted(stored) => Some(stored),
            Self::Routed(_) | Self::Uncacheable => None,
        }
    }

    /// Facts for the freshness of a routed entry.
    pub const fn routed(&self) -> Option<&Routed> {
        match self {
            Self::Routed(routed) => Some(routed),
            Self::Unrouted(_) | Self::Uncacheable => None,
        }
    }
}
