//! The request that regions get for a caller's, before an upstream adds its own lines
//! ([`crate::race::upstream`]).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use crate::cache::key::AcceptEncoding;
use crate::cache::rfc9111;
use crate::config::Route;
use crate::http::admission::{Admitted, Head};
use crate::http::exchange::Outgoing;
use crate::http::inert;
use crate::routing::foreign;
use crate::routing::headers::{goes_along, is_among, passed_headers};
use crate::shape::shapes::name_region_tags;
use crate::telemetry::limits::OBSERVED_NAMES;

/// The request that regions get for a routed path.
pub(crate) fn request_of_caller(head: Head<'_>, route: &Route) -> Outgoing {
    let sent = rfc9111::end_to_end(head.headers);
    let mut headers = HeaderMap::new();
    for name in goes_along(route).filter(|name| is_among(&sent, name)) {
        for value in sent.get_all(&name) {
            headers.append(&name, value.clone());
        }
    }
    // Without the header a region could choose a coding that the caller does not accept.
    let codings = AcceptEncoding::of(head.headers).header();
    headers.insert(header::ACCEPT_ENCODING, codings.unwrap_or(HeaderValue::from_static("identity")));
    Outgoing { method: Method::GET, path_and_query: head.path_and_query.to_owned(), headers, body: Bytes::new() }
}

/// The headers of a caller that `request_of_caller` left out and that might matter to a region all
/// the same: those that the route ignores.
pub(crate) fn dropped(headers: &HeaderMap, request: &Outgoing) -> Arc<[HeaderName]> {
    let names = inert::that_matter(headers).filter(|name| !request.headers.contains_key(*name));
    names.take(OBSERVED_NAMES).cloned().collect()
}

/// The caller's headers that a read through a route needs as well when it is passed on: the
/// requested range, the conditions, and what describes a body.
const OF_A_PASSED_READ: [HeaderName; 8] = [
    header::RANGE,
    header::IF_RANGE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
];

/// The request that one region gets for GET or HEAD on a route when the reply cannot be held for
/// others.
pub(crate) fn passed_read(admitted: &Admitted, route: &Route) -> Outgoing {
    let mut request = request_of_caller(admitted.head(), route);
    request.method = admitted.method.clone();
    request.body = admitted.body.clone();
    for name in OF_A_PASSED_READ {
        for value in admitted.headers.get_all(&name) {
            request.headers.append(&name, value.clone());
        }
    }
    name_region_tags(&mut request.headers, &route.payload);
    request
}

/// The request that one region gets for a read of a route with foreign headers: all of its own, but
/// for what [`foreign::withhold`] takes out.
pub(crate) fn foreign_read(admitted: &Admitted, route: &Route) -> Outgoing {
    let mut request = passed_request(admitted, Some(route));
    foreign::withhold(route, &mut request.headers);
    request
}

/// The request that one region gets when only it can answer: all end-to-end headers, including the
/// caller's conditions.
/// `route` is the one that its path is on, if any.
pub(crate) fn passed_request(admitted: &Admitted, route: Option<&Route>) -> Outgoing {
    let mut headers = passed_headers(&admitted.headers);
    if let Some(route) = route {
        name_region_tags(&mut headers, &route.payload);
    }
    let path_and_query = admitted.path_and_query.clone();
    Outgoing { method: admitted.method.clone(), path_and_query, headers, body: admitted.body.clone() }
}
