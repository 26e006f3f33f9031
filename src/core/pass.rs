//! Requests passed to one region as they are, because neither the race nor the store applies:
//! unsafe methods, ranges, bodies, and replies too large to hold. The reply streams to the caller.
//! An unsafe request is sent at most once, and if it succeeds it invalidates what RFC 9111, 4.4
//! names.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

mod foreign;

pub(crate) use foreign::whole_read;

use super::Core;
use super::write::{self, Write};
use crate::cache::key::KeyBuffer;
use crate::cache::rfc9111::{self, Handling, RequestDirectives};
use crate::config::IdentityMode;
use crate::core::answer::{Attempted, Blame, CacheLine, Detail, Fwd, Outcome};
use crate::core::fill::{Routing, ask};
use crate::core::floors;
use crate::core::lookup::OnRoute;
use crate::core::race::region::Regions;
use crate::core::race::verdict;
use crate::core::shape::{self, Shape, ShapeRefused, Shaping};
use crate::http::admission::Admitted;
use crate::http::exchange::{Failure, Outgoing, Streamed};
use crate::model::ids::{RecordId, RegionId, RegionSet, Version};
use crate::model::time::Moment;
use crate::protocol::label::Label;
use crate::protocol::record::{Record, Snapshot};
use crate::protocol::switch::{Rule, is_on};
use crate::protocol::vote::{self, Ballot, Presence, Rank};

/// Passes a request to one region; `on_route` is the route that its path is on, if any.
/// `is_for_room`: the reply could have been held, had there been memory.
pub(super) async fn pass(
    core: &Arc<Core>,
    admitted: &Admitted,
    on_route: Option<&OnRoute>,
    is_for_room: bool,
) -> Outcome {
    let started = core.clock.now();
    let route = on_route.map(|it| &core.config.service.routes[it.place]);
    // A header may make a write of a read.
    let method = core.taken_as(route, &admitted.method, &admitted.headers);
    let reason = reason(core, &method, admitted, on_route, is_for_room);
    core.metrics.passed(reason);
    if let (HEADER, Some(on_route)) = (reason, on_route) {
        return foreign::read(core, admitted, on_route, started).boxed().await;
    }
    let safe = rfc9111::is_safe(&method);
    // An unsafe request goes to the first of them alone.
    let candidates = core.regions.line_up(RegionSet::EMPTY);
    let sent_to = candidates.first().copied();
    let write = on_route.filter(|_| !safe).map(|it| Write::begin(core, &method, &it.records, sent_to));
    let read = on_route.filter(|_| matches!(method, Method::GET | Method::HEAD));
    let whole = match read.map(|on_route| Whole::of(core, admitted, on_route.place)).transpose() {
        Ok(whole) => whole.unwrap_or_default(),
        Err(refused) => return Outcome::Unshaped(refused),
    };
    let passed = match read {
        Some(on_route) => read_through(core, admitted, &whole, on_route, started).await,
        None => {
            let request = ask::passed_request(admitted, route);
            core.regions.pass_along(request, candidates.into()).await.map(|head| (head, None))
        }
    };
    let outcome = match passed {
        Ok((Streamed { region, .. }, Some(Label::BelowFloor))) if core.config.freshness.strict => {
            let region = core.names[region.index()].clone();
            Outcome::BelowFloor(vec![Attempted { region, outcome: "too-old".into(), blame: Blame::Unusable }])
        }
        Ok((head, _)) if is_for_room && whole.is_lost(&head) => Outcome::Unshaped(ShapeRefused::NoRoom),
        Ok((head, _)) if whole.is_refused(&head) => Outcome::Unshaped(ShapeRefused::Mismatch),
        Ok((head, label)) => {
            // Before the caller learns of it: its next request must not be answered from before the
            // write.
            if let (Some(write), Some(on_route)) = (write, on_route) {
                write.answered(&head, states_the_record(core, on_route, &admitted.headers));
            }
            let Streamed { region, status, mut headers, body, .. } = head;
            invalidate(core, (&method, admitted), region, Some(status), &headers);
            if let Some(label) = label {
                core.metrics.stale(label);
            }
            if let (Some(_), Some(route)) = (read, route) {
                headers = shape::varied(headers, &route.payload);
            }
            if route.is_some_and(|route| matches!(route.identity, IdentityMode::Sidecar(_))) {
                // It may be the session of the sidecar's own credentials.
                headers.remove(header::SET_COOKIE);
            }
            let line = CacheLine {
                fwd: Some(if safe { Fwd::Bypass } else { Fwd::Method }),
                fwd_status: Some(status.as_u16()),
                detail: Some(label.map_or(Detail::Region(region), Detail::Label)),
                ..CacheLine::default()
            };
            Outcome::Streamed { status, headers, body, line }
        }
        Err(failure) => {
            if let Some(write) = write {
                write.failed(&failure);
            }
            // Otherwise nobody knows whether the region did what was asked.
            if !failure.is_without_effect() {
                invalidate(core, (&method, admitted), RegionId(0), None, &HeaderMap::new());
            }
            let region = if matches!(failure, Failure::Drained) { "all" } else { "one" };
            let (region, outcome) = (region.to_owned(), failure.word().to_owned());
            Outcome::NoneAnswered(vec![Attempted { region, outcome, blame: Blame::of(&failure) }])
        }
    };
    core.count_miss(&outcome, started);
    outcome
}

/// A read with headers that may change its answer.
const HEADER: &str = "header";

/// Why a request that regions take as `method` is passed on, as a stable word.
fn reason(
    core: &Core,
    method: &Method,
    admitted: &Admitted,
    on_route: Option<&OnRoute>,
    is_for_room: bool,
) -> &'static str {
    let headers = &admitted.headers;
    let Some(on_route) = on_route else { return "unrouted" };
    if !matches!(*method, Method::GET | Method::HEAD) {
        return "method";
    }
    if core.has_foreign(&core.config.service.routes[on_route.place], headers) {
        return HEADER;
    }
    match rfc9111::way(&admitted.method, headers) {
        _ if !admitted.body.is_empty() => "body",
        Handling::Passed if rfc9111::is_only_ranged(headers) => "range",
        Handling::Passed => "condition",
        _ if is_for_room => "memory",
        _ => "size",
    }
}

/// How a region is asked for what is passed on whole, in the region's form, whatever shape the
/// caller wants; nothing where the route declares nothing.
#[derive(Default)]
struct Whole {
    /// The target without the parameter that names fields, if it is there.
    path_and_query: Option<String>,
    accept: Option<HeaderValue>,
    shape: Option<Shape>,
}

impl Whole {
    fn of(core: &Core, admitted: &Admitted, place: usize) -> Result<Self, ShapeRefused> {
        let Some(shapes) = &core.shapes[place] else { return Ok(Self::default()) };
        let choice = shapes.choice(&admitted.headers);
        let Shaping { path_and_query, shape } = shapes.shaping(admitted.head(), choice)?;
        let common = || shapes.common_form().map(|common| common.asked(core.clock.now()));
        let accept = shapes.asked_form(choice).map(|form| shape::accept_of(common().unwrap_or(form)));
        Ok(Self { path_and_query: path_and_query.map(Cow::into_owned), accept, shape })
    }

    fn put(&self, request: &mut Outgoing) {
        if let Some(path_and_query) = &self.path_and_query {
            request.path_and_query.clone_from(path_and_query);
        }
        if let Some(accept) = &self.accept {
            request.headers.insert(header::ACCEPT, accept.clone());
        }
    }

    /// Whether the caller would have got less of it, or another form of it, had it been held.
    fn is_lost(&self, head: &Streamed) -> bool {
        let is_cut = self.shape.as_ref().is_some_and(|shape| shape.cuts(&head.headers));
        self.is_refused(head) || head.status == StatusCode::OK && is_cut
    }

    /// Whether this is a record in a form that the caller does not take.
    fn is_refused(&self, head: &Streamed) -> bool {
        head.status.is_success() && self.shape.as_ref().is_some_and(|shape| shape.refuses(&head.headers))
    }
}

/// Reads through a route. With the reply comes its label: below the floor (R1) because no region
/// has better, or doubtful (R15).
///
/// Only reads use the sidecar's credentials: whoever reaches the listener may read, not write.
async fn read_through(
    core: &Arc<Core>,
    admitted: &Admitted,
    whole: &Whole,
    on_route: &OnRoute,
    started: Moment,
) -> Result<(Streamed, Option<Label>), Failure> {
    let OnRoute { place, records, .. } = on_route;
    let routing = core.routing(core.router.id(*place), records.iter().copied());
    routing.note_read(started);
    let records = routing.records();
    let mut request = ask::passed_read(admitted, &core.config.service.routes[*place]);
    whole.put(&mut request);
    if let Some(held) = &core.credentials[*place] {
        request.headers.insert(held.header.clone(), held.value());
    }
    state_floor(&mut request, &admitted.headers, &routing, started);
    // A body may say what is asked for.
    let of = if admitted.body.is_empty() { Subject::Record } else { Subject::Other };
    at_the_floor(core, &core.regions, request, (records, of), started).await
}

/// R8. What is too large to hold here may lie in the store of a region's node.
fn state_floor(request: &mut Outgoing, asked: &HeaderMap, routing: &Routing, started: Moment) {
    let (asks, fence) = (RequestDirectives::of(asked), routing.snapshots());
    let insists = asks.no_cache || asks.max_age.is_some();
    let no_cache = insists || fence.iter().any(|record| record.marker.is_some());
    let floor = floors::stated(&fence, started).filter(|_| !insists);
    floors::insert(&mut request.headers, no_cache, floor);
}

/// Subject of a passed read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// The records as entries show them.
    Record,
    /// Perhaps something else at the same path: another tenant's records. Its versions say nothing
    /// about what is stored.
    Other,
}

/// Asks one region after the other, within one race's deadline, until a reply may be served at
/// once; else passes on the best one heard. The label comes with it.
async fn at_the_floor(
    core: &Arc<Core>,
    regions: &Arc<Regions>,
    request: Outgoing,
    (records, of): (&[(RecordId, Arc<Record>)], Subject),
    started: Moment,
) -> Result<(Streamed, Option<Label>), Failure> {
    let worst_lag = core.config.freshness.worst_lag;
    let begun: Vec<Snapshot> =
        records.iter().map(|(_, record)| record.snapshot().as_of(started, worst_lag)).collect();
    // This reader came before whatever is announced from now on: it is owed what had been announced
    // when it came (R4, R8).
    let states = || records.iter().zip(&begun).map(|((_, record), begun)| record.snapshot().announced_by(begun));
    let mut waiting: Vec<Heard> = Vec::new();
    let mut announcers_first = true;
    // At most one turn per region: a region that fails in its turn gives way to one that was heard.
    for _ in 0..core.names.len() {
        let heard: RegionSet = waiting.iter().map(|it| it.head.region).collect();
        let sent = core.clock.now();
        let avoid = if announcers_first { heard_or_behind(heard, states()) } else { heard };
        let head = match regions.pass(request.clone(), avoid).await {
            Ok(head) => head,
            Err(failure) if waiting.is_empty() => return Err(failure),
            Err(_) => break,
        };
        // The regions that should come first did not answer.
        announcers_first &= !avoid.contains(head.region);
        let now = core.clock.now();
        let heard = Heard { sent, generated: verdict::age(&head.headers).map(|age| vote::generated(now, age)), head };
        if of == Subject::Record {
            note_versions(core, &heard, records, now);
        }
        let now_states: Vec<_> = states().collect();
        if rank(&heard, &now_states) == Rank::Now {
            return Ok((heard.head, doubt(&now_states)));
        }
        if !waiting.iter().any(|it| it.head.region == heard.head.region) {
            waiting.push(heard);
        }
        if now.since(started) >= regions.deadline() {
            break;
        }
    }
    let states: Vec<_> = states().collect();
    let ballots: Vec<_> = waiting.iter().filter_map(Heard::ballot).collect();
    // Everything in `waiting` cast a ballot, since only a ballot can wait, so the indices agree.
    let best = vote::best(&ballots, &states).unwrap_or_default();
    let below = ballots.get(best).is_some_and(|ballot| vote::rank(ballot, &states) == Rank::Below);
    let label = if below { Some(Label::BelowFloor) } else { doubt(&states) };
    Ok((waiting.swap_remove(best).head, label))
}

/// R15.
fn doubt(records: &[Snapshot]) -> Option<Label> {
    records.iter().any(|record| record.escaped).then_some(Label::FloorEscaped)
}

/// Returns whether a write's reply states versions of the records as entries show them. Who writes
/// matters to no version; any other header that may change an answer could.
fn states_the_record(core: &Core, on_route: &OnRoute, headers: &HeaderMap) -> bool {
    let route = &core.config.service.routes[on_route.place];
    let mut others =
        super::foreign::names(route, headers).filter(|name| ![header::AUTHORIZATION, header::COOKIE].contains(*name));
    core.config.service.authoritative || others.next().is_none()
}

/// R1: what is passed on was served. A tombstone's version counts like any other (R6).
fn note_versions(core: &Arc<Core>, heard: &Heard, records: &[(RecordId, Arc<Record>)], now: Moment) {
    let Heard { head, sent, generated } = heard;
    let says = said(head.status).is_some() && head.versions.len() == records.len();
    let stated = records.iter().zip(&head.versions).filter(|(_, version)| says && **version != Version::NONE);
    let made = generated.map_or(*sent, |generated| generated.min(*sent));
    for ((_, record), version) in stated {
        core.carry_out(core.freshness.served(record, *version, head.region, made, now));
    }
}

/// A streamed reply's head, with when it was asked for and when it was made.
struct Heard {
    head: Streamed,
    sent: Moment,
    generated: Option<Moment>,
}

impl Heard {
    /// What it says about the records, if anything.
    fn ballot(&self) -> Option<Ballot<'_>> {
        let Self { head, sent, generated } = self;
        let said = said(head.status)?;
        Some(Ballot { region: head.region, said, versions: &head.versions, sent: *sent, generated: *generated })
    }
}

/// The regions to ask last: those already heard, and those that have not announced the newest
/// change (R4).
fn heard_or_behind(heard: RegionSet, records: impl Iterator<Item = Snapshot>) -> RegionSet {
    let announcers = records
        .filter_map(|record| record.marker)
        .map(|marker| marker.regions)
        .reduce(|one, other| RegionSet(one.0 & other.0));
    match announcers.filter(|announcers| is_on(Rule::R4) && !heard.covers(*announcers)) {
        Some(announcers) => RegionSet(heard.0 | !announcers.0),
        None => heard,
    }
}

/// What a status says about the records; `None` if it says nothing.
fn said(status: StatusCode) -> Option<Presence> {
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => Some(Presence::Absent),
        StatusCode::NOT_MODIFIED | StatusCode::PRECONDITION_FAILED | StatusCode::RANGE_NOT_SATISFIABLE => {
            Some(Presence::Present)
        }
        status => status.is_success().then_some(Presence::Present),
    }
}

/// What a streamed reply is worth, judged by its head (R1, R4, R6, R8). One that says nothing about
/// the records is passed on.
fn rank(heard: &Heard, records: &[Snapshot]) -> Rank {
    let Some(ballot) = heard.ballot() else { return Rank::Now };
    let rank = vote::rank(&ballot, records);
    // The reply states no version and nobody has announced the record: asking more regions would
    // tell no more.
    let unannounced = ballot.said == Presence::Present
        && records.iter().all(|record| record.marker.is_none_or(|it| it.is_surpassed()));
    if rank == Rank::Waits && unannounced { Rank::Now } else { rank }
}

/// RFC 9111, 4.4: invalidates the target, and what Location and Content-Location name on the same
/// origin; nothing after a safe request.
fn invalidate(
    core: &Arc<Core>,
    (method, admitted): (&Method, &Admitted),
    region: RegionId,
    outcome: Option<StatusCode>,
    reply: &HeaderMap,
) {
    let host = admitted.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let regions = &core.config.service.regions;
    let others =
        regions.iter().enumerate().filter(|(place, _)| *place != region.index()).map(|(_, other)| &other.url);
    let bases: Vec<_> = [&regions[region.index()].url].into_iter().chain(others).collect();
    let target = &admitted.path_and_query;
    let mut buffer = KeyBuffer::new(core.seed);
    for target in rfc9111::invalidates(method, outcome, target, host, &bases, reply) {
        core.store.invalidate(&mut buffer, &target, core.clock.now());
        if target != admitted.path_and_query {
            write::touched(core, &target, region, outcome);
        }
    }
}
