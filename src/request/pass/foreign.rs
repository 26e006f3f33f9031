//! A read whose headers may change its answer ([`crate::routing::foreign`]): one region gets it with
//! all of them, and nothing of the reply is shared. It goes to the upstream that answers for its
//! record now, and a reply below the floor is worth what any that streams is worth.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use http::{HeaderMap, Method, header};

use super::at_the_floor::{Subject, first_reply_at_floor, floor_additions};
use crate::cache::entry::Entry;
use crate::cache::key::KeyBuffer;
use crate::cache::rfc9111::{self, validators};
use crate::config::{Form, Route};
use crate::fill::outcome::cookies_for;
use crate::http::admission::Admitted;
use crate::http::bodies::{Gathering, NotRead};
use crate::http::exchange::{Failure, Outgoing, Reply, Streamed};
use crate::http::limits::REPLY_BODY_BYTES;
use crate::model::time::Moment;
use crate::protocol::label::Label;
use crate::race::attempted::{Attempted, Blame};
use crate::race::region::Regions;
use crate::race::upstream::{Additions, Upstream, prepare_request};
use crate::request::answer::Outcome;
use crate::request::found::{OnRoute, on_route, routing};
use crate::request::lookup::form_by;
use crate::request::report::count_miss;
use crate::request::sent;
use crate::request::settings::Settings;
use crate::request::shaping::in_shape;
use crate::routing::foreign::note_foreign;
use crate::routing::router::Matched;
use crate::shape::cache_status::{CacheLine, Detail, Fwd};
use crate::shape::shapes::{Shape, ShapeRefused, varied};
use crate::shape::shown::Shown;
use crate::telemetry::metrics::operations::Budget;

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

pub(super) async fn read(
    settings: &Arc<Settings>,
    admitted: &Admitted,
    on_route: &OnRoute,
    started: Moment,
) -> Outcome {
    let route = &settings.fill.config.service.routes[on_route.index.0];
    note_foreign(
        &settings.fill.shared.observed,
        route,
        &admitted.headers,
        settings.fill.router.counts(on_route.index).total(),
        started,
    );
    let asked = match Asked::of(settings, admitted, on_route) {
        Ok(asked) => asked,
        Err(refused) => return Outcome::Unshaped(refused),
    };
    let routing = routing(settings, settings.fill.router.id(on_route.index), on_route.records.iter().copied());
    routing.note_read(started);
    let upstream = upstream(settings, on_route);
    let additions = floor_additions(&settings.fill, &admitted.headers, &routing, started);
    let request = request(upstream, admitted, route, on_route, &asked, additions);
    let outcome = match first_reply_at_floor(
        &settings.fill,
        &upstream.direct,
        &request,
        routing.records(),
        Subject::Other,
        started,
    )
    .await
    {
        Ok((head, Some(Label::BelowFloor))) if settings.fill.config.freshness.strict => {
            let region = settings.fill.shared.names[head.region.index()].clone();
            Outcome::BelowFloor(vec![Attempted { region, outcome: "too-old".into(), blame: Blame::Unusable }])
        }
        Ok((head, label)) => {
            label.into_iter().for_each(|label| settings.fill.shared.metrics.requests.stale(label));
            ForeignRead { settings, admitted, on_route, started }.answer(asked, head, label).await
        }
        Err(failure) => none_answered(&failure),
    };
    count_miss(settings, &outcome, started);
    outcome
}

impl Asked {
    fn of(settings: &Settings, admitted: &Admitted, on_route: &OnRoute) -> Result<Self, ShapeRefused> {
        let is_plain = admitted.body.is_empty() && rfc9111::is_only_ranged(&admitted.headers);
        let is_ranged = admitted.headers.contains_key(header::RANGE);
        let Some(shapes) = &settings.fill.shapes[on_route.index.0] else {
            return Ok(Self { is_held: on_route.is_held && is_plain, ..Self::default() });
        };
        let choice = shapes.choice(&admitted.headers);
        let shaping = shapes.shaping(admitted.head(), choice)?;
        let common = upstream(settings, on_route).common_form.as_ref();
        let form = form_by(settings, on_route.id, shapes.asked_form(choice))
            .map(|form| common.map_or(form, |common| common.asked(settings.fill.shared.clock.now())));
        // A range of what is made would mean nothing; one of the region's own bytes is the region's.
        let is_made = shaping.shape.as_ref().is_some_and(|shape| shape.wants_uncoded(form));
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
/// upstream that `matched` names.
///
/// # Errors
/// The sidecar itself refuses the request.
pub(crate) fn whole_read<'c>(
    settings: &'c Settings,
    admitted: &Admitted,
    matched: &Matched<'_>,
) -> Result<(&'c Arc<Regions>, Outgoing), ShapeRefused> {
    let on_route = OnRoute { is_held: true, ..on_route(settings, matched) };
    let asked = Asked::of(settings, admitted, &on_route)?;
    let upstream = upstream(settings, &on_route);
    let request = request(upstream, admitted, matched.route, &on_route, &asked, Additions::default());
    Ok((&upstream.direct, Arc::unwrap_or_clone(request)))
}

/// The upstream that answers.
fn upstream<'c>(settings: &'c Settings, on_route: &OnRoute) -> &'c Upstream {
    let current = &settings.fill.upstreams[on_route.index.0].current;
    settings.fill.upstream(on_route.id).unwrap_or(current)
}

/// The request as one region gets it.
fn request(
    upstream: &Upstream,
    admitted: &Admitted,
    route: &Route,
    on_route: &OnRoute,
    asked: &Asked,
    stated: Additions,
) -> Arc<Outgoing> {
    let mut request = sent::foreign_read(admitted, route);
    if let Some(path_and_query) = &asked.path_and_query {
        request.path_and_query.clone_from(path_and_query);
    }
    let mut is_uncoded = false;
    if asked.is_held {
        request.method = Method::GET;
        validators::unconditional(&mut request.headers);
        [header::RANGE, header::IF_RANGE].iter().for_each(|name| drop(request.headers.remove(name)));
        let is_made = asked.shape.as_ref().is_some_and(|shape| shape.wants_uncoded(asked.form));
        is_uncoded = is_made || on_route.is_held;
    }
    prepare_request(upstream, Arc::new(request), Additions { form: asked.form, is_uncoded, ..stated })
}

/// A read that is passed on.
struct ForeignRead<'r> {
    settings: &'r Arc<Settings>,
    admitted: &'r Admitted,
    on_route: &'r OnRoute,
    started: Moment,
}

impl ForeignRead<'_> {
    async fn answer(self, asked: Asked, head: Streamed, label: Option<Label>) -> Outcome {
        let Self { settings, admitted, on_route, started } = self;
        let route = &settings.fill.config.service.routes[on_route.index.0];
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
            let mut headers = varied(headers, &route.payload);
            if route.identity.own().is_some() {
                // It may be the session of the sidecar's own credentials.
                headers.remove(header::SET_COOKIE);
            }
            return Outcome::Streamed { status, headers, body, line };
        }
        let mut reply = match held(settings, head, started).await {
            Ok(reply) => reply,
            Err(Unheld::TooLarge) if on_route.is_held => return Outcome::LargePart,
            Err(unheld) => return unheld.outcome(settings),
        };
        let cookies = cookies_for(&reply, route);
        reply.headers = varied(reply.headers, &route.payload);
        let outcome = Outcome::Shown(Shown {
            cookies,
            ..Shown::of(admitted.head(), &Arc::new(Entry::passing(&reply)), None, line)
        });
        match asked.shape {
            // Nothing is stored under such a key, so nothing that is made is kept with anything.
            Some(shape) => {
                let mut buffer = KeyBuffer::new(settings.fill.shared.hash_key);
                let key =
                    buffer.whole_request(&admitted.method, &admitted.path_and_query, &admitted.headers, &[]).to_key();
                in_shape(settings, shape, &key, &admitted.headers, outcome).await
            }
            None => outcome,
        }
    }
}

/// The whole reply, within the bounds of one that is stored.
async fn held(settings: &Arc<Settings>, head: Streamed, sent: Moment) -> Result<Reply, Unheld> {
    let sent_wall = settings.fill.shared.clock.wall();
    let Streamed { region, status, headers, versions, body } = head;
    let body = match tokio::time::timeout(settings.fill.regions.deadline(), gathered(settings, &headers, body)).await
    {
        Ok(body) => body,
        Err(_) => Err(Unheld::Failed(Failure::Deadline { within: settings.fill.regions.deadline(), head: true })),
    };
    let received = settings.fill.shared.clock.now();
    body.map(|body| Reply { region, status, headers, body, versions, sent, sent_wall, received, grants: None })
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
    fn outcome(self, settings: &Settings) -> Outcome {
        match self {
            Self::NoRoom => {
                settings.fill.shared.metrics.operations.over_budget(Budget::ReplyBodies);
                Outcome::Unshaped(ShapeRefused::NoRoom)
            }
            Self::TooLarge => Outcome::Unshaped(ShapeRefused::Mismatch),
            Self::Failed(failure) => none_answered(&failure),
        }
    }
}

async fn gathered(
    settings: &Settings,
    headers: &HeaderMap,
    mut body: BoxStream<'static, Result<Bytes, Failure>>,
) -> Result<Bytes, Unheld> {
    let stated = stated_length(headers);
    if stated.is_some_and(|length| length > REPLY_BODY_BYTES) {
        return Err(Unheld::TooLarge);
    }
    let mut gathering = Gathering::new(stated.unwrap_or(REPLY_BODY_BYTES), &settings.shared.bodies);
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
    let (region, outcome) = (region.to_owned(), failure.outcome().into_str().to_owned());
    Outcome::NoneAnswered(vec![Attempted { region, outcome, blame: Blame::of(failure) }])
}
