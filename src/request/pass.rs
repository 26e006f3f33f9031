//! Requests passed to one region as they are, because neither the race nor the store applies:
//! unsafe methods, ranges, bodies, and replies too large to hold. The reply streams to the caller.
//! An unsafe request is sent at most once, and if it succeeds it invalidates what RFC 9111, 4.4
//! names.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::FutureExt;
use http::{HeaderMap, Method, StatusCode, header};

use self::at_the_floor::{Subject, first_reply_at_floor, floor_additions};
use super::answer::Outcome;
use super::found::{OnRoute, routing};
use super::report::count_miss;
use super::sent;
use super::settings::Settings;
use super::write::{self, Write};
use crate::cache::key::KeyBuffer;
use crate::cache::rfc9111::{self, Handling};
use crate::config::Form;
use crate::http::admission::Admitted;
use crate::http::exchange::{Failure, Streamed};
use crate::model::ids::{RegionId, RegionSet, RouteIndex};
use crate::model::time::Moment;
use crate::protocol::label::Label;
use crate::race::attempted::{Attempted, Blame};
use crate::race::upstream::{Additions, prepare_request};
use crate::routing::foreign::{has_foreign, method_taken};
use crate::shape::cache_status::{CacheLine, Detail, Fwd};
use crate::shape::shapes::{Shape, ShapeRefused, Shaping, varied};
use crate::telemetry::metrics::requests::PassReason;

mod at_the_floor;
pub(crate) mod foreign;

/// Passes a request to one region; `on_route` is the route that its path is on, if any.
/// `lacked_memory`: the reply could have been held, had there been memory.
pub(super) async fn pass(
    settings: &Arc<Settings>,
    admitted: &Admitted,
    on_route: Option<&OnRoute>,
    lacked_memory: bool,
) -> Outcome {
    let started = settings.fill.shared.clock.now();
    let route = on_route.map(|it| &settings.fill.config.service.routes[it.index.0]);
    // A header may make a write of a read.
    let method = method_taken(&settings.fill.config.service, route, &admitted.method, &admitted.headers);
    let reason = reason(settings, &method, admitted, on_route, lacked_memory);
    settings.fill.shared.metrics.requests.passed(reason);
    if let (PassReason::Header, Some(on_route)) = (reason, on_route) {
        return foreign::read(settings, admitted, on_route, started).boxed().await;
    }
    let safe = rfc9111::is_safe(&method);
    // An unsafe request goes to the first of them alone.
    let candidates = settings.fill.regions.line_up(RegionSet::EMPTY);
    let sent_to = candidates.first().copied();
    let write = on_route.filter(|_| !safe).map(|it| Write::begin(&settings.fill, &method, &it.records, sent_to));
    let read = on_route.filter(|_| matches!(method, Method::GET | Method::HEAD));
    let whole = match read.map(|on_route| Whole::of(settings, admitted, on_route.index)).transpose() {
        Ok(whole) => whole.unwrap_or_default(),
        Err(refused) => return Outcome::Unshaped(refused),
    };
    let passed = match read {
        Some(on_route) => pass_read(settings, admitted, &whole, on_route, started).await,
        None => {
            let request = sent::passed_request(admitted, route);
            settings.fill.regions.pass_along(request, candidates.into()).await.map(|head| (head, None))
        }
    };
    let outcome = match passed {
        Ok((Streamed { region, .. }, Some(Label::BelowFloor))) if settings.fill.config.freshness.strict => {
            let region = settings.fill.shared.names[region.index()].clone();
            Outcome::BelowFloor(vec![Attempted { region, outcome: "too-old".into(), blame: Blame::Unusable }])
        }
        Ok((head, _)) if lacked_memory && whole.is_lost(&head) => Outcome::Unshaped(ShapeRefused::NoRoom),
        Ok((head, _)) if whole.is_refused(&head) => Outcome::Unshaped(ShapeRefused::Mismatch),
        Ok((head, label)) => {
            // Before the caller learns of it: its next request must not be answered from before the
            // write.
            if let (Some(write), Some(on_route)) = (write, on_route) {
                write.answered(&head, states_the_record(settings, on_route, &admitted.headers));
            }
            invalidate(settings, &method, admitted, Some(&head));
            let Streamed { region, status, mut headers, body, .. } = head;
            if let Some(label) = label {
                settings.fill.shared.metrics.requests.stale(label);
            }
            if let (Some(_), Some(route)) = (read, route) {
                headers = varied(headers, &route.payload);
            }
            if route.is_some_and(|route| route.identity.own().is_some()) {
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
                invalidate(settings, &method, admitted, None);
            }
            let region = if matches!(failure, Failure::Drained) { "all" } else { "one" };
            let (region, outcome) = (region.to_owned(), failure.outcome().into_str().to_owned());
            Outcome::NoneAnswered(vec![Attempted { region, outcome, blame: Blame::of(&failure) }])
        }
    };
    count_miss(settings, &outcome, started);
    outcome
}

/// Why a request that regions take as `method` is passed on, as a stable word.
fn reason(
    settings: &Settings,
    method: &Method,
    admitted: &Admitted,
    on_route: Option<&OnRoute>,
    lacked_memory: bool,
) -> PassReason {
    let headers = &admitted.headers;
    let Some(on_route) = on_route else { return PassReason::Unrouted };
    if !matches!(*method, Method::GET | Method::HEAD) {
        return PassReason::Method;
    }
    if on_route.is_unproven
        || has_foreign(&settings.fill.config.service, &settings.fill.config.service.routes[on_route.index.0], headers)
    {
        return PassReason::Header;
    }
    match rfc9111::handling_of(&admitted.method, headers) {
        _ if !admitted.body.is_empty() => PassReason::Body,
        Handling::Passed if rfc9111::is_only_ranged(headers) => PassReason::Range,
        Handling::Passed => PassReason::Condition,
        _ if lacked_memory => PassReason::Memory,
        _ => PassReason::Size,
    }
}

/// Way in which a passed reply is asked for: target, form, shape. The reply itself is passed on whole,
/// in the region's form, whatever shape the caller wants. Empty where the route declares nothing.
#[derive(Default)]
struct Whole {
    /// The target without the parameter that names fields, if it is there.
    path_and_query: Option<String>,
    form: Option<Form>,
    shape: Option<Shape>,
}

impl Whole {
    fn of(settings: &Settings, admitted: &Admitted, index: RouteIndex) -> Result<Self, ShapeRefused> {
        let Some(shapes) = &settings.fill.shapes[index.0] else { return Ok(Self::default()) };
        let choice = shapes.choice(&admitted.headers);
        let Shaping { path_and_query, shape } = shapes.shaping(admitted.head(), choice)?;
        let form = shapes
            .asked_form(choice)
            .map(|form| shapes.common_form().map_or(form, |common| common.asked(settings.fill.shared.clock.now())));
        Ok(Self { path_and_query: path_and_query.map(Cow::into_owned), form, shape })
    }

    /// True if the caller would have got less of it, or another form of it, had it been held.
    fn is_lost(&self, head: &Streamed) -> bool {
        let is_cut = self.shape.as_ref().is_some_and(|shape| shape.cuts(&head.headers));
        self.is_refused(head) || head.status == StatusCode::OK && is_cut
    }

    /// True if this is a record in a form that the caller does not take.
    fn is_refused(&self, head: &Streamed) -> bool {
        head.status.is_success() && self.shape.as_ref().is_some_and(|shape| shape.refuses(&head.headers))
    }
}

/// Passes a read to one region after another until one reaches the floor. Returns the best reply,
/// labelled if below the floor (R1) or doubtful (R15).
///
/// Only reads use the sidecar's credentials: writes keep the caller's own, so that a local caller
/// cannot write with ours.
async fn pass_read(
    settings: &Arc<Settings>,
    admitted: &Admitted,
    whole: &Whole,
    on_route: &OnRoute,
    started: Moment,
) -> Result<(Streamed, Option<Label>), Failure> {
    let OnRoute { index, records, .. } = on_route;
    let fill = &settings.fill;
    let routing = routing(settings, fill.router.id(*index), records.iter().copied());
    routing.note_read(started);
    let mut request = sent::passed_read(admitted, fill.route_at(*index));
    if let Some(path_and_query) = &whole.path_and_query {
        request.path_and_query.clone_from(path_and_query);
    }
    let upstream = &fill.upstreams[index.0].current;
    let additions = Additions { form: whole.form, ..floor_additions(fill, &admitted.headers, &routing, started) };
    let request = prepare_request(upstream, Arc::new(request), additions);
    // A GET with a body may select something other than the path's records.
    let subject = if admitted.body.is_empty() { Subject::Record } else { Subject::Other };
    first_reply_at_floor(fill, &upstream.direct, &request, routing.records(), subject, started).await
}

/// Returns whether a write's reply states versions of the records as entries show them. Who writes
/// matters to no version; any other header that may change an answer could.
fn states_the_record(settings: &Settings, on_route: &OnRoute, headers: &HeaderMap) -> bool {
    let route = &settings.fill.config.service.routes[on_route.index.0];
    let mut others = crate::routing::foreign::names(route, headers)
        .filter(|name| ![header::AUTHORIZATION, header::COOKIE].contains(*name));
    settings.fill.config.service.authoritative || others.next().is_none()
}

/// RFC 9111, 4.4: invalidates the target, and what Location and Content-Location of the reply name
/// on the same origin; nothing after a safe request.
fn invalidate(settings: &Arc<Settings>, method: &Method, admitted: &Admitted, reply: Option<&Streamed>) {
    let (region, outcome) = (reply.map_or(RegionId(0), |reply| reply.region), reply.map(|reply| reply.status));
    let none = HeaderMap::new();
    let headers = reply.map_or(&none, |reply| &reply.headers);
    let host = admitted.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let regions = &settings.fill.config.service.regions;
    let others =
        regions.iter().enumerate().filter(|(place, _)| *place != region.index()).map(|(_, other)| &other.url);
    let bases: Vec<_> = [&regions[region.index()].url].into_iter().chain(others).collect();
    let target = &admitted.path_and_query;
    let mut buffer = KeyBuffer::new(settings.fill.shared.hash_key);
    for target in rfc9111::invalidates(method, outcome, target, host, &bases, headers) {
        settings.fill.shared.store.invalidate(&mut buffer, &target, settings.fill.shared.clock.now());
        if target != admitted.path_and_query {
            write::touched(&settings.fill, &target, region, outcome);
        }
    }
}
