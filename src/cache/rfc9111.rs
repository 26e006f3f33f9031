//! What HTTP allows a shared cache to do: RFC 9111, and stale-if-error from RFC 5861, as pure
//! functions.
//!
//! There is no clock, no I/O and no heuristic freshness. Whatever cannot be understood makes an
//! entry older or leaves it unstored, never fresher. [`decide`] allocates nothing. Routed paths use
//! only what applies to every reply: header fields ([`fields`]) and callers' conditional requests
//! ([`validators`]). `docs/decisions/0001-rfc-9111-policy.md` says why no library does this.
//!
//! | file | section |
//! | --- | --- |
//! | [`directives`] | 5.2 `Cache-Control`, 5.4 `Pragma` |
//! | [`fields`] | 3.1 and 3.2, which header fields are kept, updated, passed on |
//! | [`freshness`] | 4.2 lifetime and age |
//! | [`validators`] | 4.3.1 and 4.3.2, sending and answering conditional requests |
//! | [`storing`] | 3 and 3.5, what may be stored; 4.1 `Vary` |
//! | [`reuse`] | 4 and 4.2.4, what may be served, fresh or stale |
//! | [`renewal`] | 4.3.4 and 4.3.5, freshening by a 304 and by HEAD |
//! | [`invalidation`] | 4.4 |

pub mod directives;
pub mod fields;
pub mod freshness;
mod invalidation;
mod renewal;
mod reuse;
pub mod storing;
pub(crate) mod validators;

#[cfg(test)]
mod tests;

use std::time::Duration;

use http::{HeaderMap, HeaderName, Method, header};

pub use crate::http::fields::end_to_end;
pub use directives::RequestDirectives;
pub use invalidation::invalidates;
pub use renewal::{HeadEffect, Renewal, after_head, refreshed};
pub use reuse::{Decision, OriginTrouble, decide, may_serve_on_error};
pub use storing::storable;
pub use validators::{not_modified, not_modified_instead};

/// RFC 9111 facts about an unrouted entry, computed once when it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredFacts {
    /// How long the entry is fresh (4.2.1), compared with [`super::entry::Entry::age`]. Zero if the
    /// reply did not say.
    pub lifetime: Duration,
    /// `no-cache`: never served without validation.
    pub always_validate: bool,
    /// `must-revalidate`, `proxy-revalidate` or `s-maxage`: never served stale, whatever happens
    /// (4.2.4).
    pub never_stale: bool,
    /// How long after its lifetime the entry may stand in for an error (RFC 5861, 4), if the reply
    /// says.
    pub stale_if_error: Option<Duration>,
    /// The request headers that its `Vary` nominates, sorted, without duplicates (4.1).
    pub vary: Box<[HeaderName]>,
}

/// How an unrouted request is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// May be answered from the store, and its reply may be stored.
    Cached,
    /// Safe, but only a region can answer it: a range, or a condition that only the origin may
    /// evaluate (4.3.2).
    Passed,
    /// Goes to one region, once; its reply may invalidate (4.4).
    Unsafe,
}

/// A range, and conditions that only the origin may evaluate.
pub const ORIGIN_ONLY: [HeaderName; 4] =
    [header::RANGE, header::IF_RANGE, header::IF_MATCH, header::IF_UNMODIFIED_SINCE];

/// Decides how to handle a request of `method` with `headers`.
pub fn way(method: &Method, headers: &HeaderMap) -> Handling {
    match *method {
        Method::GET | Method::HEAD if ORIGIN_ONLY.iter().any(|name| headers.contains_key(name)) => Handling::Passed,
        Method::GET | Method::HEAD => Handling::Cached,
        _ if is_safe(method) => Handling::Passed,
        _ => Handling::Unsafe,
    }
}

/// Whether a range alone keeps a GET or HEAD with these lines from the store.
pub fn is_only_ranged(headers: &HeaderMap) -> bool {
    !headers.contains_key(header::IF_MATCH) && !headers.contains_key(header::IF_UNMODIFIED_SINCE)
}

/// RFC 9110, 9.2.1. An unknown method counts as unsafe (4.4).
pub fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}
