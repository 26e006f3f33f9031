//! Owns what is kept: one representation with what freshness needs to know of it.
//!
//! Before it: a fill builds it. After it: [`super::store`] holds it, [`crate::core::lookup`] reads it without a lock.
//! Invariant: an entry is never changed, only replaced; what moves (floors, generations) is in the records that it
//! points to.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::content::Content;
use crate::cache::rfc9111::freshness::initial_age;
use crate::http::exchange::{Outgoing, Reply};
use crate::model::ids::RegionId;
use crate::model::time::{Moment, Span};
use crate::protocol::holding::{Routed, Shown};

/// A cached response.
pub struct Entry {
    /// The region's status.
    pub status: StatusCode,
    /// The region's headers, end-to-end ones only, without `Age`; the body; and, of a routed
    /// entry, the headers of the request that it answers.
    pub content: Content,
    /// Who answered.
    pub region: RegionId,
    /// When its request was sent.
    pub sent: Moment,
    /// The age that the reply already had when it arrived, its own way here not counted
    /// ([`crate::cache::rfc9111::freshness::initial_age`]).
    pub age_at_receipt: Span,
    /// What it hangs on.
    pub hold: Hold,
}

/// No header's value and nothing of the body is shown: they hold credentials.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("status", &self.status)
            .field("content", &self.content)
            .field("region", &self.region)
            .field("sent", &self.sent)
            .field("age_at_receipt", &self.age_at_receipt)
            .field("hold", &self.hold)
            .finish_non_exhaustive()
    }
}

impl Entry {
    /// A reply that is passed on and never stored.
    pub fn passing(reply: &Reply) -> Self {
        Self::of(reply, Content::new(&reply.headers, &reply.body), Hold::Passing)
    }

    /// A reply, as `content` has it.
    pub fn of(reply: &Reply, content: Content, hold: Hold) -> Self {
        let received = reply.sent_wall + reply.received.since(reply.sent);
        Self {
            status: reply.status,
            content,
            region: reply.region,
            sent: reply.sent,
            age_at_receipt: initial_age(&reply.headers, reply.sent, reply.received, received).into(),
            hold,
        }
    }

    /// The region's headers, a copy.
    pub fn headers(&self) -> HeaderMap {
        self.content.headers()
    }

    /// The first of the region's header lines with this name.
    pub fn header(&self, name: &HeaderName) -> Option<HeaderValue> {
        self.content.header(name)
    }

    /// Its lines and its body where they lie, which stay as long as what is cut from this ([`Content::put`],
    /// [`Content::cut`]).
    pub fn share(self: &Arc<Self>) -> Bytes {
        struct Shared(Arc<Entry>);
        impl AsRef<[u8]> for Shared {
            fn as_ref(&self) -> &[u8] {
                self.0.content.block()
            }
        }
        Bytes::from_owner(Shared(Arc::clone(self)))
    }

    /// The body: a copy of what is small.
    pub fn body(&self) -> Bytes {
        self.content.body()
    }

    /// The request that a routed entry answers, to ask again with: without the sidecar's own credentials, but with the
    /// caller's (`exact`), which live no longer than the entry and are shown nowhere. `target` is its key's
    /// ([`super::key::KeyRef::target`]).
    pub fn request(&self, target: &str) -> Arc<Outgoing> {
        let (path_and_query, headers) = (target.to_owned(), self.content.request());
        Arc::new(Outgoing { method: Method::GET, path_and_query, headers, body: Bytes::new() })
    }

    /// How old it is at `now` (RFC 9111, 4.2.3): what it had when it came, and the time since its request was sent.
    pub fn age(&self, now: Moment) -> Duration {
        self.age_at_receipt.get() + now.since(self.sent)
    }

    /// The memory it takes, bytes: body, headers, the key if it holds it, and what it hangs on.
    pub fn weight(&self) -> usize {
        let hold = match &self.hold {
            Hold::Routed(routed) => routed.shows.weight() + routed.digest.as_ref().map_or(0, |_| size_of::<u128>()),
            Hold::Unrouted(stored) => size_of_val(&*stored.vary),
            Hold::Passing => 0,
        };
        size_of::<Self>() + self.content.weight() + hold
    }

    /// The records that it shows; none when it is unrouted.
    pub fn shows(&self) -> &[Shown] {
        match &self.hold {
            Hold::Routed(routed) => &routed.shows,
            Hold::Unrouted(_) | Hold::Passing => &[],
        }
    }

    /// Whether it may take the place of `stored`, under the same key: a late fill never overwrites a newer entry (R3).
    ///
    /// An older generation of any record they both show loses. Otherwise the later request wins, and of one fill's
    /// replies (they count as sent together) the one put last, unless its versions are lower; one sent earlier wins only
    /// with higher versions.
    pub fn supersedes(&self, stored: &Self) -> bool {
        let both = || {
            self.shows()
                .iter()
                .flat_map(|new| stored.shows().iter().filter(|old| old.id() == new.id()).map(move |old| (new, old)))
        };
        if both().any(|(new, old)| new.generation < old.generation) {
            return false;
        }
        let newer = both().any(|(new, old)| new.version > old.version || new.generation > old.generation);
        let older = both().any(|(new, old)| new.version < old.version && new.generation == old.generation);
        self.sent > stored.sent || (self.sent == stored.sent || newer) && !older
    }
}

/// What an entry's freshness hangs on.
#[derive(Debug)]
pub enum Hold {
    /// Announcements keep it.
    Routed(Routed),
    /// RFC 9111 does.
    Unrouted(crate::cache::rfc9111::Stored),
    /// Nothing does: it is passed on and never stored.
    Passing,
}

impl Hold {
    /// What RFC 9111 needs to know, of an unrouted entry.
    pub const fn unrouted(&self) -> Option<&crate::cache::rfc9111::Stored> {
        match self {
            Self::Unrouted(stored) => Some(stored),
            Self::Routed(_) | Self::Passing => None,
        }
    }

    /// What freshness needs to know, of a routed one.
    pub const fn routed(&self) -> Option<&Routed> {
        match self {
            Self::Routed(routed) => Some(routed),
            Self::Unrouted(_) | Self::Passing => None,
        }
    }
}
