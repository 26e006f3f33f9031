//! A read whose headers may change its answer ([`crate::core::foreign`]): one region gets it with all of
//! them, and nothing of the reply is shared. It goes the way that answers for its record now, and a
//! reply below the floor is worth what any that streams is worth.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use http::{HeaderMap, HeaderValue, Method, header};

use super::{Subject, at_the_floor, state_floor};
use crate::cache::entry::Entry;
use crate::cache::key::KeyBuffer;
use crate::cache::rfc9111::{self, validators};
use crate::config::Form;
use crate::core::answer::{Attempted, Blame, CacheLine, Detail, Fwd, Outcome, Shown};
use crate::core::fill::ask;
use crate::core::lookup::OnRoute;
use crate::core::race::region::Regions;
use crate::core::router::Matched;
use crate::core::shape::{self, Shape, ShapeRefused};
use crate::core::telling::shown;
use crate::core::{Core, way};
use crate::http::admission::Admitted;
use crate::http::bodies::{Gathering, NotRead};
use crate::http::exchange::{Failure, Outgoing, Reply, Streamed};
use crate::http::limits::REPLY_BODY_BYTES;
use crate::model::time::Moment;
use crate::protocol::label::Label;

/// Request to a region on behalf of a caller.
#[derive(Default)]
struct Asked {
    path_and_query: Option<String>,
    /// Form that regions are asked for; `None` passes the caller's `Accept` on.
    form: Option<Form>,
    shape: Option<Shape>,
    /// Something is made of the reply, or it becomes part of another answer.
    is_held: bool,
    /// Something may be made of it, if it is in another form than was asked for.
    may_be_held: bool,
}

pub(super) async fn read(core: &Arc<Core>, admitted: &Admitted, on_route: &OnRoute, started: Moment) -> Outcome {
    let route = &core.config.service.routes[on_route.place];
    core.note_foreign(route, &admitted.headers, core.router.counts(on_route.place).total(), started);
    let asked = match Asked::of(core, admitted, on_route) {
        Ok(asked) => asked,
        Err(refused) => return Outcome::Unshaped(refused),
    };
    let routing = core.routing(core.router.id(on_route.place), on_route.records.iter().copied());
    routing.note_read(started);
    let regions = regions(core, on_route);
    let mut request = request(core, admitted, on_route, &asked);
    state_floor(&mut request, &admitted.headers, &routing, started);
    let outcome = match at_the_floor(core, regions, request, (routing.records(), Subject::Other), started).await {
        Ok((head, Some(Label::BelowFloor))) if core.config.freshness.strict => {
            let region = core.names[head.region.index()].clone();
            Outcome::BelowFloor(vec![Attempted { region, outcome: "too-old".into(), blame: Blame::Unusable }])
        }
        Ok((head, label)) => {
            label.into_iter().for_each(|label| core.metrics.stale(label));
            answer(core, admitted, on_route, asked, (head, label), started).await
        }
        Err(failure) => none_answered(&failure),
    };
    core.count_miss(&outcome, started);
    outcome
}

impl Asked {
    fn of(core: &Core, admitted: &Admitted, on_route: &OnRoute) -> Result<Self, ShapeRefused> {
        let is_plain = admitted.body.is_empty() && rfc9111::is_only_ranged(&admitted.headers);
        let is_ranged = admitted.headers.contains_key(header::RANGE);
        let Some(shapes) = &core.shapes[on_route.place] else {
            return Ok(Self { is_held: on_route.is_held && is_plain, ..Self::default() });
        };
        let choice = shapes.choice(&admitted.headers);
        let shaping = shapes.shaping(admitted.head(), choice)?;
        let common = || core.common_form(on_route.id).map(|common| common.asked(core.clock.now()));
        let form = core.form_by(on_route.id, shapes.asked_form(choice)).map(|form| common().unwrap_or(form));
        // A range of what is made would mean nothing; one of the region's own bytes is the region's.
        let is_made = shaping.shape.as_ref().is_some_and(|shape| shape.wants_identity(form));
        Ok(Self {
            path_and_query: shaping.path_and_query.map(Into::into),
            form,
            is_held: is_plain && (is_made || on_route.is_held),
            may_be_held: is_plain && !is_ranged && admitted.method == Method::GET,
            shape: shaping.shape,
        })
    }
}

/// A read with these headers as each region would get it if it were passed on, and the regions of the
/// way that `matched` names.
///
/// # Errors
/// The sidecar itself refuses the request.
pub(crate) fn whole_read<'c>(
    core: &'c Core,
    admitted: &Admitted,
    matched: &Matched<'_>,
) -> Result<(&'c Arc<Regions>, Outgoing), ShapeRefused> {
    let on_route = OnRoute { is_held: true, ..core.on_route(matched) };
    let asked = Asked::of(core, admitted, &on_route)?;
    Ok((regions(core, &on_route), request(core, admitted, &on_route, &asked)))
}

/// The regions of the way that answers.
fn regions<'c>(core: &'c Core, on_route: &OnRoute) -> &'c Arc<Regions> {
    core.second(on_route.id).map_or(&core.regions, |(.., second)| &second.regions)
}

/// The request as one region gets it.
fn request(core: &Core, admitted: &Admitted, on_route: &OnRoute, asked: &Asked) -> Outgoing {
    let route = &core.config.service.routes[on_route.place];
    let mut request = ask::foreign_read(admitted, route);
    if let Some(path_and_query) = &asked.path_and_query {
        request.path_and_query.clone_from(path_and_query);
    }
    if let Some(form) = asked.form {
        request.headers.insert(header::ACCEPT, shape::accept_of(form));
    }
    if asked.is_held {
        request.method = Method::GET;
        validators::unconditional(&mut request.headers);
        [header::RANGE, header::IF_RANGE].iter().for_each(|name| drop(request.headers.remove(name)));
        if asked.shape.as_ref().is_some_and(|shape| shape.wants_identity(asked.form)) || on_route.is_held {
            request.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
    }
    let credentials = match core.second(on_route.id) {
        Some((route, second, _)) => {
            request.path_and_query = way::target(route, second, &request.path_and_query).into_owned();
            core.second_credentials(on_route.place)
        }
        None => core.credentials[on_route.place].as_ref(),
    };
    if let Some(held) = credentials {
        request.headers.insert(held.header.clone(), held.value());
    }
    request
}

async fn answer(
    core: &Arc<Core>,
    admitted: &Admitted,
    on_route: &OnRoute,
    asked: Asked,
    (head, label): (Streamed, Option<Label>),
    started: Moment,
) -> Outcome {
    let route = &core.config.service.routes[on_route.place];
    let line = CacheLine {
        fwd: Some(Fwd::Bypass),
        fwd_status: Some(head.status.as_u16()),
        detail: Some(label.map_or(Detail::Region(head.region), Detail::Label)),
        ..CacheLine::default()
    };
    let is_large = stated_length(&head.headers).is_some_and(|length| length > REPLY_BODY_BYTES);
    let is_refused = head.status.is_success() && asked.shape.as_ref().is_some_and(|it| it.refuses(&head.headers));
    let is_held = asked.is_held || asked.may_be_held && is_refused;
    if !is_held || is_large && !on_route.is_held {
        if is_refused {
            return Outcome::Unshaped(ShapeRefused::Mismatch);
        }
        let Streamed { status, headers, body, .. } = head;
        let mut headers = shape::varied(headers, &route.payload);
        if core.credentials[on_route.place].is_some() {
            // It may be the session of the sidecar's own credentials.
            headers.remove(header::SET_COOKIE);
        }
        return Outcome::Streamed { status, headers, body, line };
    }
    let mut reply = match held(core, head, started).await {
        Ok(reply) => reply,
        Err(Unheld::TooLarge) if on_route.is_held => return Outcome::LargePart,
        Err(unheld) => return unheld.outcome(core),
    };
    let cookies = ask::cookies(&reply, route);
    reply.headers = shape::varied(reply.headers, &route.payload);
    let outcome =
        Outcome::Shown(Shown { cookies, ..shown(admitted.head(), &Arc::new(Entry::passing(&reply)), None, line) });
    match asked.shape {
        // Nothing is stored under such a key, so nothing that is made is kept with anything.
        Some(shape) => {
            let mut buffer = KeyBuffer::new(core.seed);
            let key = buffer.request(&admitted.method, &admitted.path_and_query, &admitted.headers, &[]).to_key();
            shape.of(core, &key, &admitted.headers, outcome).await
        }
        None => outcome,
    }
}

/// The whole reply, within the bounds of one that is stored.
async fn held(core: &Arc<Core>, head: Streamed, sent: Moment) -> Result<Reply, Unheld> {
    let sent_wall = core.clock.wall();
    let Streamed { region, status, headers, versions, body } = head;
    let body = match tokio::time::timeout(core.regions.deadline(), gathered(core, &headers, body)).await {
        Ok(body) => body,
        Err(_) => Err(Unheld::Failed(Failure::Deadline { within: core.regions.deadline(), head: true })),
    };
    let received = core.clock.now();
    body.map(|body| Reply { region, status, headers, body, versions, sent, sent_wall, received })
}

fn stated_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

enum Unheld {
    NoRoom,
    TooLarge,
    Failed(Failure),
}

impl Unheld {
    fn outcome(self, core: &Core) -> Outcome {
        match self {
            Self::NoRoom => {
                core.metrics.over_budget("reply-bodies");
                Outcome::Unshaped(ShapeRefused::NoRoom)
            }
            Self::TooLarge => Outcome::Unshaped(ShapeRefused::Mismatch),
            Self::Failed(failure) => none_answered(&failure),
        }
    }
}

async fn gathered(
    core: &Core,
    headers: &HeaderMap,
    mut body: BoxStream<'static, Result<Bytes, Failure>>,
) -> Result<Bytes, Unheld> {
    let stated = stated_length(headers);
    if stated.is_some_and(|length| length > REPLY_BODY_BYTES) {
        return Err(Unheld::TooLarge);
    }
    let mut gathering = Gathering::new(stated.unwrap_or(REPLY_BODY_BYTES), &core.bodies);
    while let Some(chunk) = body.next().await {
        gathering.push(chunk.map_err(Unheld::Failed)?).map_err(|not_read| match not_read {
            NotRead::NoRoom => Unheld::NoRoom,
            NotRead::TooLarge | NotRead::Broken => Unheld::TooLarge,
        })?;
    }
    Ok(gathering.into_bytes())
}

fn none_answered(failure: &Failure) -> Outcome {
    let region = if matches!(failure, Failure::Drained) { "all" } else { "one" };
    let (region, outcome) = (region.to_owned(), failure.word().to_owned());
    Outcome::NoneAnswered(vec![Attempted { region, outcome, blame: Blame::of(failure) }])
}
