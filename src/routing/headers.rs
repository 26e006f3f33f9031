//! Which of a caller's headers a route's regions get, and which of those are in the key.
//!
//! A header of the caller reaches a region through a fill only if it is part of the key, or is one
//! of those that describe the request itself (`traceparent`, `tracestate`, `baggage`, `x-request-id`,
//! `user-agent`).

use http::{HeaderMap, HeaderName, StatusCode, header};

use super::foreign::{HeaderFate, fate};
use crate::cache::entry::Entry;
use crate::cache::rfc9111;
use crate::config::Route;
use crate::config::grants_version::GRANTS_VERSION;
use crate::config::record_floor::RECORD_FLOOR;
use crate::http::exchange::{Outgoing, Reply};
use crate::http::inert::Inert;

/// The request headers that an entry keeps: all except those that describe that one request, and
/// whose it was where others share the entry.
pub(crate) fn kept(request: &Outgoing, route: &Route) -> HeaderMap {
    let mut kept = request.headers.clone();
    unkeyed(route).filter(|name| is_among(&request.headers, name)).for_each(|name| drop(kept.remove(name)));
    if route.identity.is_granted() {
        route.identity.headers().iter().for_each(|name| drop(kept.remove(name)));
    }
    kept
}

/// Returns whether `headers` have `name`. They are few, so looking through them costs less than its hash.
pub(crate) fn is_among(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.keys().any(|key| key == name)
}

/// Headers that describe the request, not what is asked for: those of the fill's first reader are
/// sent.
pub(crate) const ALONG: [HeaderName; 5] = [
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("baggage"),
    HeaderName::from_static("x-request-id"),
    header::USER_AGENT,
];

/// Those of them that are not part of the keys of `route`.
fn unkeyed(route: &Route) -> impl Iterator<Item = HeaderName> {
    ALONG.into_iter().filter(|name| !route.forward.contains(name) && !route.identity.headers().contains(name))
}

/// The headers of a caller that regions get for a path of `route`, besides `Accept-Encoding`, which
/// we write ourselves.
pub(crate) fn goes_along(route: &Route) -> impl Iterator<Item = HeaderName> {
    let named = route.forward.iter().chain(route.identity.headers()).cloned();
    std::iter::once(header::ACCEPT).chain(unkeyed(route)).chain(named)
}

/// True if a reply is the same for all requests with its key: by its `Vary`, a region may give
/// another one only for headers that are in the key, or whose requests never come here
/// ([`crate::routing::foreign`]).
///
/// `entry` is what was made of `reply`; after a 304 it says more.
pub(crate) fn is_for_all(reply: &Reply, entry: &Entry, route: &Route) -> bool {
    let varies_by = if reply.status == StatusCode::NOT_MODIFIED {
        let lines = entry.content.lines().filter(|(name, _)| *name == header::VARY.as_str().as_bytes());
        rfc9111::storing::nominated_by(lines.map(|(_, line)| line))
    } else {
        rfc9111::storing::nominated(&reply.headers)
    };
    varies_by.is_some_and(|names| !names.iter().any(|name| differs_in_one_key(route, name)))
}

/// True if requests with one key may differ in this header, so that a reply that varies by it is
/// for its caller alone, whatever the table of inert headers and the route's `ignore` say. All
/// callers' `Host` is the region's own by then.
pub(crate) fn differs_in_one_key(route: &Route, name: &HeaderName) -> bool {
    if unkeyed(route).any(|along| along == *name) {
        return true;
    }
    match fate(route, name) {
        HeaderFate::Permitted => true,
        HeaderFate::Ignored | HeaderFate::Inert(Inert::Descriptive | Inert::Handled) => *name != header::HOST,
        HeaderFate::Keyed | HeaderFate::Replaced | HeaderFate::Inert(Inert::Keyed) => false,
        HeaderFate::Foreign | HeaderFate::Withheld => false,
    }
}

/// A caller's end-to-end headers, as they are sent on. Floors are the sidecar's own: what a caller
/// states reaches no region.
pub(crate) fn passed_headers(headers: &HeaderMap) -> HeaderMap {
    let mut headers = rfc9111::end_to_end(headers);
    [header::HOST, RECORD_FLOOR, GRANTS_VERSION].into_iter().for_each(|name| drop(headers.remove(name)));
    headers
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn floors_of_a_caller_stay_here() {
        let lines = ["host", "x-record-floor", "x-grants-version", "x-tenant", "authorization"];
        let sent = lines.map(|name| (HeaderName::from_static(name), HeaderValue::from_static("9")));
        let passed = passed_headers(&HeaderMap::from_iter(sent));
        let mut names: Vec<&str> = passed.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["authorization", "x-tenant"]);
    }
}
