//! Facts about a stored reply that RFC 9111 needs.

use std::time::Duration;

use http::HeaderName;

/// RFC 9111 facts about an unrouted entry, computed once when it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredFacts {
    /// Freshness lifetime of the entry (4.2.1), compared with [`crate::cache::entry::Entry::age`].
    /// Zero if the reply did not say.
    pub lifetime: Duration,
    /// `no-cache`: never served without validation.
    pub always_validate: bool,
    /// `must-revalidate`, `proxy-revalidate` or `s-maxage`: never served stale, whatever happens
    /// (4.2.4).
    pub never_stale: bool,
    /// Time after its lifetime for which the entry may stand in for an error (RFC 5861, 4), if the
    /// reply says.
    pub stale_if_error: Option<Duration>,
    /// The request headers that its `Vary` nominates, sorted, without duplicates (4.1).
    pub vary: Box<[HeaderName]>,
}
