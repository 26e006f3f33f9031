//! What a fill asks for: the representation's key, the request as regions get it, and what is
//! stored already.
//!
//! A header of the caller reaches a region through a fill only if it is part of the key, or is one
//! of those that describe the request itself (`traceparent`, `tracestate`, `baggage`, `x-request-id`,
//! `user-agent`).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::cache::entry::Entry;
use crate::cache::key::{AcceptEncoding, Key};
use crate::cache::rfc9111;
use crate::config::{IdentityMode, Route};
use crate::core::answer::Cookies;
use crate::core::batch::gather::InBatch;
use crate::core::floors::{self, Stated};
use crate::core::foreign::{self, HeaderFate, fate};
use crate::core::race::region::Purpose;
use crate::core::shape;
use crate::core::{Core, limits, way};
use crate::http::admission::{Admitted, Head};
use crate::http::exchange::{Outgoing, Reply};
use crate::http::inert::{self, Inert};
use crate::model::ids::{Generation, RecordId, Version};
use crate::model::time::Moment;
use crate::protocol::Freshness;
use crate::protocol::record::{Record, Snapshot};
use crate::protocol::standing::Sent;
use crate::protocol::switch::{Rule, is_on};
use crate::telemetry::limits::OBSERVED_NAMES;

/// One representation to ask for.
#[derive(Clone)]
pub struct Ask {
    pub key: Key,
    /// The request, without validators and without the sidecar's own credentials.
    pub request: Arc<Outgoing>,
    pub of: Of,
    /// What is stored under the key now.
    pub previous: Option<Arc<Entry>>,
    /// Whether a reader waits for it.
    pub purpose: Purpose,
    /// Ask end to end, in a fill that begins after the reader came: it said `no-cache`.
    pub no_cache: bool,
    /// What its reader has heard of: a fill that began earlier will do if it brought that. Only
    /// where the origin is authoritative.
    pub floor: Option<Arc<[Version]>>,
    /// Share with nobody and store nothing: the caller said `no-store`.
    pub alone: bool,
    /// Headers of the caller that do not reach the regions and might matter to them.
    pub dropped: Arc<[HeaderName]>,
    /// Its batch's: what is asked for together travels in one request per region.
    pub(crate) through: Option<Arc<InBatch>>,
}

/// Which rules apply.
#[derive(Clone)]
pub enum Of {
    /// On a route: announcements.
    Route(Routing),
    /// On no route: RFC 9111; with when the path was last invalidated.
    Path(Moment),
}

#[derive(Clone)]
pub struct Routing {
    /// The route's id ([`crate::core::router`]).
    pub route: u16,
    pinned: Arc<Pinned>,
}

/// Live cells, given back to freshness when the last fill or reader drops them, so that a fill that
/// stored nothing leaves none behind.
struct Pinned {
    freshness: Arc<Freshness>,
    records: Vec<(RecordId, Arc<Record>)>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        for (id, record) in self.records.drain(..) {
            drop(record);
            self.freshness.release(id);
        }
    }
}

impl Routing {
    /// `records` in the route's order.
    pub fn new(freshness: &Arc<Freshness>, route: u16, records: Vec<(RecordId, Arc<Record>)>) -> Self {
        Self { route, pinned: Arc::new(Pinned { freshness: freshness.clone(), records }) }
    }

    /// In the route's order.
    pub fn records(&self) -> &[(RecordId, Arc<Record>)] {
        &self.pinned.records
    }

    /// Notes a reader of each record.
    pub fn note_read(&self, now: Moment) {
        self.records().iter().for_each(|(_, record)| record.note_read(now));
    }

    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.records().iter().map(|(_, record)| record.snapshot()).collect()
    }

    /// The newest generation of the records. They are drawn from one sequence, so it moves whenever
    /// that of any record does.
    pub fn generation(&self) -> Generation {
        self.records().iter().map(|(_, record)| record.snapshot().generation).max().unwrap_or_default()
    }
}

impl Core {
    /// What to ask for again for a stored entry; `None` when no route shows it any more.
    pub fn routing_of(&self, entry: &Entry) -> Option<Routing> {
        let routed = entry.hold.routed()?;
        // It was stored under a route that a reload took away.
        self.router.place(routed.route)?;
        let records = routed.shows.iter().map(|shown| (shown.id(), shown.record.clone())).collect();
        Some(Routing::new(&self.freshness, routed.route, records))
    }
}

impl Ask {
    /// The generation that its fill belongs to (R3).
    pub fn generation(&self) -> Generation {
        match &self.of {
            Of::Route(routing) if is_on(Rule::R3) => routing.generation(),
            Of::Route(_) => Generation::default(),
            Of::Path(invalidated) => Generation(invalidated.as_nanos()),
        }
    }
}

impl Ask {
    /// Its batch does not wait for it: another fill answers it.
    pub(crate) fn withdraw(&self) {
        self.through.iter().for_each(|batch| batch.began());
    }

    /// Whether its reader wants nothing that was asked for before that reader came.
    pub fn insists(&self) -> bool {
        self.no_cache && self.purpose == Purpose::Foreground
    }

    /// Whether regions are asked past any cache in front of them, because the caller wants that or
    /// something was announced (R8).
    pub fn is_end_to_end(&self) -> bool {
        let announced = |routing: &Routing| routing.records().iter().any(|(_, it)| it.snapshot().marker.is_some());
        self.no_cache || matches!(&self.of, Of::Route(routing) if is_on(Rule::R8) && announced(routing))
    }
}

/// The request as it is sent: with validators, `no-cache` after an announcement (R8), the `floor`
/// that it states and the sidecar's own credentials. It is shared unchanged if there are none of
/// these. `None` when a reload took the route away.
pub(crate) fn dressed(
    core: &Core,
    ask: &Ask,
    routing: &Routing,
    sent: &Sent,
    conditional: bool,
    floor: Option<Stated>,
) -> Option<Arc<Outgoing>> {
    let tag = ask.previous.as_ref().filter(|_| conditional).and_then(|previous| previous.header(&header::ETAG));
    // What came out of an intermediary's cache is not asked for there again, because it earns
    // little (R5).
    let aged = ask.previous.as_ref().is_some_and(|previous| previous.age_at_receipt.get() >= limits::AGED);
    let marked = sent.fence.iter().any(|record| record.marker.is_some());
    let no_cache = ask.no_cache || is_on(Rule::R8) && (marked || aged);
    let place = core.router.place(routing.route)?;
    let second = core.second(routing.route);
    let credentials = match second {
        Some(_) => core.second_credentials(place),
        None => core.credentials[place].as_ref(),
    };
    let common = core.common_form(routing.route);
    let asked = common.map_or_else(|| ask.request.clone(), |common| common.dressed(ask.request.clone(), sent.at));
    if tag.is_none() && !no_cache && credentials.is_none() && floor.is_none() && second.is_none() {
        return Some(asked);
    }
    let mut request = Outgoing::clone(&asked);
    if let Some((route, second, _)) = second {
        request.path_and_query = way::target(route, second, &request.path_and_query).into_owned();
    }
    if let Some(tag) = tag {
        request.headers.insert(header::IF_NONE_MATCH, tag);
    }
    floors::insert(&mut request.headers, no_cache, floor);
    if let Some(credentials) = credentials {
        request.headers.insert(credentials.header.clone(), credentials.value());
    }
    Some(Arc::new(request))
}

/// The request headers that an entry keeps: all except those that describe that one request.
pub(crate) fn kept(request: &Outgoing, route: &Route) -> HeaderMap {
    let mut kept = request.headers.clone();
    unkeyed(route).filter(|name| is_among(&request.headers, name)).for_each(|name| drop(kept.remove(name)));
    kept
}

/// Returns whether `headers` have `name`. They are few, so looking through them costs less than its hash.
fn is_among(headers: &HeaderMap, name: &HeaderName) -> bool {
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
    ALONG.into_iter().filter(|name| !route.forward.contains(name) && !told_apart(route).contains(name))
}

/// The headers that tell a route's callers apart.
fn told_apart(route: &Route) -> &[HeaderName] {
    match &route.identity {
        IdentityMode::Exact(names) => names,
        IdentityMode::Sidecar(_) => &[],
    }
}

/// The headers of a caller that regions get for a path of `route`, besides `Accept-Encoding`, which
/// we write ourselves.
pub(crate) fn goes_along(route: &Route) -> impl Iterator<Item = HeaderName> {
    let named = route.forward.iter().chain(told_apart(route)).cloned();
    std::iter::once(header::ACCEPT).chain(unkeyed(route)).chain(named)
}

/// Whether a reply is the same for all requests with its key: by its `Vary`, a region may give
/// another one only for headers that are in the key, or whose requests never come here
/// ([`crate::core::foreign`]).
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

/// Whether requests with one key may differ in this header, so that a reply that varies by it is for
/// its caller alone, whatever the table of inert headers and the route's `ignore` say. All callers'
/// `Host` is the region's own by then.
pub(crate) fn differs_in_one_key(route: &Route, name: &HeaderName) -> bool {
    let is_left_out = || match fate(route, name) {
        HeaderFate::Ignored | HeaderFate::Inert(Inert::Descriptive | Inert::Handled) => *name != header::HOST,
        HeaderFate::Keyed | HeaderFate::Replaced | HeaderFate::Inert(Inert::Keyed) => false,
        HeaderFate::Foreign | HeaderFate::Withheld => false,
    };
    unkeyed(route).any(|along| along == *name) || is_left_out()
}

/// The cookies that a reply brings for the caller whose request it answers. What a region sets for
/// the sidecar's own credentials is for no caller.
pub(crate) fn cookies(reply: &Reply, route: &Route) -> Cookies {
    match route.identity {
        IdentityMode::Exact(_) => Cookies::of(&reply.headers),
        IdentityMode::Sidecar(_) => Cookies::NONE,
    }
}

/// The request that regions get for a routed path.
pub(crate) fn routed_request(head: Head<'_>, route: &Route) -> Outgoing {
    let sent = rfc9111::end_to_end(head.headers);
    let mut headers = HeaderMap::new();
    let mut copy = |name: &HeaderName| {
        for value in sent.get_all(name) {
            headers.append(name, value.clone());
        }
    };
    goes_along(route).filter(|name| is_among(&sent, name)).for_each(|name| copy(&name));
    // Without the header a region could choose a coding that the caller does not accept.
    let codings = AcceptEncoding::of(head.headers).header();
    headers.insert(header::ACCEPT_ENCODING, codings.unwrap_or(HeaderValue::from_static("identity")));
    Outgoing { method: Method::GET, path_and_query: head.path_and_query.to_owned(), headers, body: Bytes::new() }
}

/// The headers of a caller that `routed_request` left out and that might matter to a region all the
/// same: those that the route ignores.
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
    let mut request = routed_request(admitted.head(), route);
    request.method = admitted.method.clone();
    request.body = admitted.body.clone();
    for name in OF_A_PASSED_READ {
        for value in admitted.headers.get_all(&name) {
            request.headers.append(&name, value.clone());
        }
    }
    shape::name_region_tags(&mut request.headers, &route.payload);
    request
}

/// The request that one region gets for a read of a route with foreign headers: all of its own, but
/// for what [`foreign::withhold`] takes out.
pub(crate) fn foreign_read(admitted: &Admitted, route: &Route) -> Outgoing {
    let mut request = passed_request(admitted, Some(route));
    foreign::withhold(route, &mut request.headers);
    request
}

/// The request that regions get for an unrouted path: all end-to-end headers except the caller's
/// own conditions, which the sidecar answers from the whole reply.
pub(crate) fn unrouted_request(head: Head<'_>) -> Outgoing {
    let mut headers = passed_headers(head.headers);
    rfc9111::validators::unconditional(&mut headers);
    let (method, path_and_query) = (head.method.clone(), head.path_and_query.to_owned());
    Outgoing { method, path_and_query, headers, body: Bytes::new() }
}

/// The request that one region gets when only it can answer: all end-to-end headers, including the
/// caller's conditions.
/// `route` is the one that its path is on, if any.
pub(crate) fn passed_request(admitted: &Admitted, route: Option<&Route>) -> Outgoing {
    let mut headers = passed_headers(&admitted.headers);
    if let Some(route) = route {
        shape::name_region_tags(&mut headers, &route.payload);
    }
    let path_and_query = admitted.path_and_query.clone();
    Outgoing { method: admitted.method.clone(), path_and_query, headers, body: admitted.body.clone() }
}

fn passed_headers(headers: &HeaderMap) -> HeaderMap {
    let mut headers = rfc9111::end_to_end(headers);
    headers.remove(header::HOST);
    headers
}
