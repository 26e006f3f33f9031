//! One test per point of RFC 9111, named by its section.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::*;
use crate::cache::content::Content;
use crate::cache::entry::{Entry, Validity};
use crate::http::exchange::Reply;
use crate::model::ids::RegionId;
use crate::model::time::{Moment, Wall};

mod reading;
mod renewing;
mod serving;
mod storing;

/// Sun, 06 Nov 1994 08:49:37 GMT, the RFC's own example.
const DATE: Wall = Wall::from_millis(784_111_777_000);
const START: Moment = Moment::from_nanos(1_000_000_000_000);
const BODY: &[u8] = b"content";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    map
}

/// A reply sent at `START` and `DATE` that arrived at once.
fn reply(status: u16, pairs: &[(&str, &str)]) -> Reply {
    Reply {
        region: RegionId(0),
        status: StatusCode::from_u16(status).unwrap(),
        headers: headers(pairs),
        body: Bytes::from_static(BODY),
        versions: Vec::new(),
        sent: START,
        sent_wall: DATE,
        received: START,
        grants: None,
    }
}

/// Facts stored for a 200 with `pairs` that answers a GET with `request`'s headers; `None` if it
/// may not be stored.
fn stored_of(request: &[(&str, &str)], pairs: &[(&str, &str)]) -> Option<StoredFacts> {
    storable(&Method::GET, &headers(request), &reply(200, pairs))
}

fn stored(pairs: &[(&str, &str)]) -> StoredFacts {
    stored_of(&[], pairs).expect("this reply may be stored")
}

/// The entry that a fill makes of a 200 with these headers.
fn entry(pairs: &[(&str, &str)]) -> Entry {
    let reply = reply(200, pairs);
    Entry {
        status: reply.status,
        content: Content::new(&fields::kept(&reply.headers, DATE), &reply.body),
        region: reply.region,
        sent: reply.sent,
        age_at_receipt: freshness::initial_age(&reply.headers, START, START, DATE).into(),
        derived: crate::cache::derived::Derived::NONE,
        json: Default::default(),
        validity: Validity::Unrouted(
            storable(&Method::GET, &HeaderMap::new(), &self::reply(200, pairs)).unwrap_or_default(),
        ),
    }
}

/// The decision on an entry of a 200 with `pairs`, `after` seconds later, for a request with these
/// headers.
fn decided(request: &[(&str, &str)], pairs: &[(&str, &str)], after: u64) -> Decision {
    let entry = entry(pairs);
    let Validity::Unrouted(stored) = &entry.validity else { unreachable!() };
    decide(&RequestDirectives::of(&headers(request)), &entry, stored, START + seconds(after))
}

fn is_fresh(request: &[(&str, &str)], pairs: &[(&str, &str)], after: u64) -> bool {
    matches!(decided(request, pairs, after), Decision::Fresh { .. })
}
