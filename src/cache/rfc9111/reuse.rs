//! Owns whether a stored reply answers a request: fresh, stale by leave, or only after asking (RFC 9111, 4 and 4.2).

use std::time::Duration;

use http::StatusCode;

use super::directives::MaxStale;
use super::{Asked, Stored};
use crate::cache::entry::Entry;
use crate::model::time::Moment;

/// What a stored reply is worth to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Serve it.
    Fresh {
        /// For `Age`.
        age: Duration,
        /// What is left of its lifetime, for `Cache-Status`.
        ttl: Duration,
    },
    /// Serve it, labelled stale: the caller takes one this old (`max-stale`).
    Stale {
        /// For `Age`.
        age: Duration,
    },
    /// Ask first, with its validators ([`super::validators::validate`]).
    Revalidate,
    /// The caller wants it from the store or not at all, and it is not good enough: 504 (5.2.1.7).
    Unsatisfiable,
}

/// What `entry`, stored under `stored`, is worth at `now` to a request that `asked`.
pub fn decide(asked: &Asked, entry: &Entry, stored: &Stored, now: Moment) -> Decision {
    let age = entry.age(now);
    let ttl = stored.lifetime.saturating_sub(age);
    let too_old = asked.max_age.is_some_and(|most| age > most);
    let too_short = asked.min_fresh.is_some_and(|least| ttl < least);
    let ask = || if asked.only_if_cached { Decision::Unsatisfiable } else { Decision::Revalidate };
    if stored.always_validate || asked.no_cache || too_old {
        return ask();
    }
    match ttl.is_zero() {
        false if !too_short => Decision::Fresh { age, ttl },
        true if !stored.never_stale && takes_stale(asked, age.saturating_sub(stored.lifetime)) => {
            Decision::Stale { age }
        }
        _ => ask(),
    }
}

fn takes_stale(asked: &Asked, stale_for: Duration) -> bool {
    match asked.max_stale {
        Some(MaxStale::Any) => true,
        Some(MaxStale::Within(most)) => stale_for <= most,
        None => false,
    }
}

/// Why a stored reply could not be validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The best that any region gave was this error.
    Status(StatusCode),
    /// No region gave a reply at all: the cache is disconnected (4.2.4).
    Disconnected,
}

/// Whether `entry` may be served in place of `trouble` (4.2.4; RFC 5861, 4), labelled.
///
/// For a 500, 502, 503 or 504 only the reply or the request can allow it, for as long as they say; when disconnected,
/// `unless_said` is the limit where the reply sets none. Never against `no-cache`, and once stale never against
/// `must-revalidate`, `proxy-revalidate` or `s-maxage`.
pub fn may_serve_on_error(
    asked: &Asked,
    entry: &Entry,
    stored: &Stored,
    trouble: Trouble,
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
        Trouble::Disconnected => Some(stored.stale_if_error.unwrap_or(unless_said).max(said.unwrap_or_default())),
        Trouble::Status(status) if matches!(status.as_u16(), 500 | 502 | 503 | 504) => said,
        Trouble::Status(_) => None,
    };
    most.is_some_and(|most| stale_for <= most)
}
