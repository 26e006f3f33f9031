//! Decides whether a stored reply answers a request: fresh, stale with the caller's consent, or
//! only after validation (RFC 9111, 4 and 4.2).

use std::time::Duration;

use http::StatusCode;

use super::directives::{MaxStale, RequestDirectives};
use super::stored_facts::StoredFacts;
use crate::cache::entry::Entry;
use crate::model::time::Moment;

/// Decision about a stored reply for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Fresh {
        age: Duration,
        /// Rest of the lifetime, for `Cache-Status`.
        ttl: Duration,
    },
    /// Serve it labelled as stale: the caller accepts one this old (`max-stale`).
    Stale { age: Duration },
    /// Validate first ([`super::validators::validate`]).
    Revalidate,
    /// The caller wants an answer from the store only, and this one is not good enough: 504
    /// (5.2.1.7).
    Unsatisfiable,
}

/// Decides whether `entry`, with its RFC 9111 facts `stored`, answers a request that `asked`, at
/// `now`.
pub fn decide(asked: &RequestDirectives, entry: &Entry, stored: &StoredFacts, now: Moment) -> Decision {
    let age = entry.age(now);
    let ttl = stored.lifetime.saturating_sub(age);
    let too_old = asked.max_age.is_some_and(|most| age > most);
    let too_short = asked.min_fresh.is_some_and(|least| ttl < least);
    let ask = if asked.only_if_cached { Decision::Unsatisfiable } else { Decision::Revalidate };
    if stored.always_validate || asked.no_cache || too_old {
        return ask;
    }
    if !ttl.is_zero() {
        return if too_short { ask } else { Decision::Fresh { age, ttl } };
    }
    if !stored.never_stale && takes_stale(asked, age.saturating_sub(stored.lifetime)) {
        Decision::Stale { age }
    } else {
        ask
    }
}

fn takes_stale(asked: &RequestDirectives, stale_for: Duration) -> bool {
    match asked.max_stale {
        Some(MaxStale::Any) => true,
        Some(MaxStale::Within(most)) => stale_for <= most,
        None => false,
    }
}

/// Why a stored reply could not be validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginTrouble {
    /// The best reply from any region was this error.
    Status(StatusCode),
    /// No region replied at all: the cache is disconnected (4.2.4).
    Disconnected,
}

/// True if `entry` may be served, labelled, in place of `trouble` (4.2.4; RFC 5861, 4).
///
/// For a 500, 502, 503 or 504 only the reply or the request can allow it, for as long as they say.
/// When disconnected, `unless_said` is the limit if the reply sets none. `no-cache` always forbids
/// it, and once the entry is stale, so do `must-revalidate`, `proxy-revalidate` and `s-maxage`.
pub fn may_serve_on_error(
    asked: &RequestDirectives,
    entry: &Entry,
    stored: &StoredFacts,
    trouble: OriginTrouble,
    unless_said: Duration,
    now: Moment,
) -> bool {
    let stale_for = entry.age(now).saturating_sub(stored.lifetime);
    let is_stale = entry.age(now) >= stored.lifetime;
    if stored.always_validate || asked.no_cache || is_stale && stored.never_stale {
        return false;
    }
    let said = stored.stale_if_error.max(asked.stale_if_error);
    let most = match trouble {
        OriginTrouble::Disconnected => {
            Some(stored.stale_if_error.unwrap_or(unless_said).max(said.unwrap_or_default()))
        }
        OriginTrouble::Status(status) if matches!(status.as_u16(), 500 | 502 | 503 | 504) => said,
        OriginTrouble::Status(_) => None,
    };
    most.is_some_and(|most| stale_for <= most)
}
