//! Serving of stored replies of unrouted paths.

use http::HeaderMap;

use crate::cache::entry::Entry;
use crate::cache::rfc9111::{self, Decision, OriginTrouble, RequestDirectives};
use crate::model::time::Moment;
use crate::protocol::label::Label;

/// A stored reply that is served without asking.
pub(crate) struct Hit {
    pub(crate) age_s: u64,
    /// Seconds of freshness left; negative once it is over.
    pub(crate) ttl_s: i64,
    pub(crate) label: Option<Label>,
}

/// The stored reply as RFC 9111 lets it be served without asking.
pub(crate) fn hit(wish: &RequestDirectives, entry: &Entry, now: Moment) -> Option<Hit> {
    match rfc9111::decide(wish, entry, entry.validity.unrouted()?, now) {
        Decision::Fresh { age, ttl } => Some(Hit { age_s: age.as_secs(), ttl_s: ttl.as_secs() as i64, label: None }),
        Decision::Stale { age } => {
            Some(Hit { age_s: age.as_secs(), ttl_s: left(entry, now), label: Some(Label::MaxStale) })
        }
        _ => None,
    }
}

/// RFC 9111, 4.2.4 and RFC 5861, 4: the stored reply, labelled, where regions gave none, if it or the
/// request allows that now.
pub(crate) fn stale_hit(
    headers: &HeaderMap,
    entry: &Entry,
    trouble: OriginTrouble,
    unless_said: std::time::Duration,
    now: Moment,
) -> Option<Hit> {
    let wish = RequestDirectives::of(headers);
    let may = rfc9111::may_serve_on_error(&wish, entry, entry.validity.unrouted()?, trouble, unless_said, now);
    may.then(|| Hit { age_s: entry.age(now).as_secs(), ttl_s: left(entry, now), label: Some(Label::StaleIfError) })
}

/// Whole seconds of freshness left; negative once it is over.
fn left(entry: &Entry, now: Moment) -> i64 {
    let lifetime = entry.validity.unrouted().map_or(0, |stored| stored.lifetime.as_secs());
    lifetime as i64 - entry.age(now).as_secs() as i64
}
