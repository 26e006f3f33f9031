//! Carries out what a lookup found: serves it, or asks the regions and serves the result.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, Ready, ready};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;

use super::answer::{self, ByAccept, CacheLine, Detail, Fwd, Outcome, Shown};
use super::caller::Caller;
use super::fill::background::Refresh;
use super::fill::{Ask, Failed, Filled, Got, Of, Role, Routing};
use super::lookup::{Found, OnRoute, Plan, left, lookup};
use super::telling::{self, passed_on, shown};
use super::{Core, batch, limits, pass};
use crate::cache::entry::{Entry, Hold};
use crate::cache::rfc9111::{self, OriginTrouble, RequestDirectives};
use crate::core::keyed_hashes::Identity;
use crate::engine::guard::{self, Guard};
use crate::http::admission::{Admitted, Refusal};
use crate::http::body::Body;
use crate::http::connection::Via;
use crate::model::ids::Version;
use crate::model::time::Moment;
use crate::protocol::label::Label;
use crate::protocol::standing::Use;
use crate::protocol::switch::{Rule, is_on};

/// Ready at once for a hit or a refusal, boxed when a region must be asked: only that case needs a
/// large future.
pub type AnswerFuture = Either<Ready<Response<Body>>, BoxFuture<'static, Response<Body>>>;

/// Handles one request that hyper read, from admission to the answer.
pub fn answer(core: &Arc<Core>, request: Request<Incoming>, via: Via) -> AnswerFuture {
    let by = core.told_by(request.headers());
    let is_head = *request.method() == Method::HEAD;
    let ended = move |response| if is_head { answer::without_body(response) } else { response };
    let mut entered = match core.admission.enter(request, via) {
        Ok(entered) => entered,
        Err(refusal) => return Either::Left(ready(ended(refused(core, refusal, by)))),
    };
    let found = entered.head().map(|head| lookup(core, &mut Caller::of(head.headers), head, false));
    let found = match found.map(|found| at_once(core, found)) {
        Some(Ok(shown)) => return Either::Left(ready(answer::show(shown, entered.into_headers(), &core.names))),
        Some(Err(found)) => Some(found),
        None => None,
    };
    let core = core.clone();
    let asked = async move {
        let _held = entered.held();
        let admitted = match entered.whole(&core.tasks).await {
            Ok(admitted) => admitted,
            Err(refusal) => return ended(refused(&core, refusal, by)),
        };
        let outcome = match found {
            Some(found) => carry_out(core.clone(), found, admitted).await,
            None => serve(&core, admitted).await,
        };
        ended(answer::respond(outcome, &core.names))
    };
    Either::Right(asked.boxed())
}

fn refused(core: &Core, refusal: Refusal, by: Option<ByAccept>) -> Response<Body> {
    core.metrics.refused(refusal.word());
    if refusal == Refusal::NoRoom {
        core.metrics.over_budget("request-bodies");
    }
    answer::respond(Outcome::Refused(refusal).told(by), &core.names)
}

/// The answer, if there is one already; begins the refresh that it triggers.
pub(super) fn at_once(core: &Arc<Core>, found: Found) -> Result<Shown, Found> {
    let begin = |refresh: Option<Box<Refresh>>| {
        if let Some(refresh) = refresh {
            refresh.begin(core);
        }
    };
    match found {
        Found::Answer(shown, refresh) => {
            begin(refresh);
            Ok(shown)
        }
        Found::Shape(unshaped, refresh) => {
            begin(refresh);
            Err(Found::Shape(unshaped, None))
        }
        found => Err(found),
    }
}

pub async fn serve(core: &Arc<Core>, admitted: Admitted) -> Outcome {
    let mut caller = Caller::of(&admitted.headers);
    let found = lookup(core, &mut caller, admitted.head(), !admitted.body.is_empty());
    carry_out(core.clone(), found, admitted).await
}

/// Answers what was found, or asks for it. The future that passes a request on is boxed, because
/// most requests do not need it.
#[expect(clippy::manual_async_fn, reason = "an async fn's future has room for its arguments twice")]
pub fn carry_out(core: Arc<Core>, found: Found, admitted: Admitted) -> impl Future<Output = Outcome> + Send {
    async move {
        let by = core.told_by(&admitted.headers);
        let outcome = match at_once(&core, found) {
            Ok(shown) => Outcome::Shown(shown),
            Err(Found::Ask(plan)) if plan.shape.is_none() => ask(&core, &plan.ask, plan.fwd, &admitted).await,
            Err(Found::Ask(plan)) => ask_in_shape(&core, *plan, &admitted).boxed().await,
            Err(Found::Pass(route)) => pass::pass(&core, &admitted, route.as_ref(), false).boxed().await,
            Err(Found::Shape(unshaped, _)) => unshaped.away(&core, &admitted.headers).boxed().await.outcome(),
            Err(Found::Refused(refused)) => Outcome::Unshaped(refused),
            Err(Found::Many(place)) => batch::answer(&core, place, admitted, carry_out_one).boxed().await,
            Err(_) => Outcome::NotStored,
        };
        outcome.told(by)
    }
}

/// One key of a batch.
fn carry_out_one(core: Arc<Core>, found: Found, admitted: Admitted) -> BoxFuture<'static, Outcome> {
    carry_out(core, found, admitted).boxed()
}

async fn ask_in_shape(core: &Arc<Core>, plan: Plan, admitted: &Admitted) -> Outcome {
    let key = plan.ask.key.clone();
    let outcome = ask(core, &plan.ask, plan.fwd, admitted).await;
    match plan.shape {
        Some(shape) => shape.of(core, &key, &admitted.headers, outcome).await,
        None => outcome,
    }
}

async fn ask(core: &Arc<Core>, ask: &Ask, fwd: Fwd, admitted: &Admitted) -> Outcome {
    let started = core.clock.now();
    // What a node has stored is no answer for somebody who asked for what is in its table.
    let insists = core.config.service.authoritative && ask.insists() && guard::is_on(Guard::StoredIsNoAnswer);
    let place = match &ask.of {
        Of::Route(routing) => core.router.place(routing.route),
        Of::Path(_) => None,
    };
    if let (Of::Route(routing), Some(place)) = (&ask.of, place) {
        routing.note_read(started);
        let route = &core.config.service.routes[place];
        let identity = core.keyring.identity(&route.identity, &admitted.headers);
        core.note_churn(routing, identity, &route.path.text, started);
    }
    let (filled, share) = core.filled(ask).await;
    let outcome = match (filled, &ask.of) {
        (Filled::Got(got), _) => core.shown(admitted, &got, share, fwd),
        (Filled::Busy, _) => Outcome::Busy,
        (unheld @ (Filled::TooLarge | Filled::NoRoom), of) => {
            let ids = |routing: &Routing| routing.records().iter().map(|(id, _)| *id).collect();
            let on_route = match of {
                Of::Route(routing) => {
                    place.map(|place| OnRoute { place, records: ids(routing), id: routing.route, is_held: false })
                }
                Of::Path(_) => None,
            };
            if let Some(place) = place {
                core.router.counts(place).miss();
            }
            // It counts what it answers itself.
            let is_for_room = matches!(unheld, Filled::NoRoom);
            return pass::pass(core, admitted, on_route.as_ref(), is_for_room).boxed().await;
        }
        (Filled::Failed(failed), Of::Route(_)) => {
            // Another fill may have stored something in the meantime.
            let stored = core.store.get(ask.key.as_ref()).or_else(|| ask.previous.clone()).filter(|_| !insists);
            core.failed(admitted, stored, &failed, share, fwd)
        }
        (Filled::Failed(failed), Of::Path(_)) => {
            let trouble = failed
                .best_error
                .as_ref()
                .map_or(OriginTrouble::Disconnected, |error| OriginTrouble::Status(error.entry.status));
            stale_if_error(core, admitted, ask.previous.clone(), trouble)
                .unwrap_or_else(|| passed_on(admitted, &failed, share, fwd))
        }
    };
    if let Some(place) = place {
        telling::count_asked(core.router.counts(place), &outcome);
    }
    core.count_miss(&outcome, started);
    outcome
}

impl Core {
    /// Fills. A reply that an announcement overtook on its way to the reader is asked for again, a
    /// few times. After that it is served labelled, or not at all in strict mode (R1).
    async fn filled(self: &Arc<Self>, ask: &Ask) -> (Filled, Role) {
        let mut tries = 0;
        loop {
            let (filled, share) = self.filled_once(ask).await;
            let Filled::Got(got) = &filled else { return (filled, share) };
            // Where the table said less than the floor, either that was overruled, or an
            // announcement overtook the read.
            let overruled = self.config.service.authoritative && got.label == Some(Label::BelowFloor);
            if !overruled && (got.label.is_some() || !is_below(&got.entry)) {
                return (filled, share);
            }
            if tries == limits::REFILLS {
                let below_floor = Failed { best_error: None, asked: Vec::new(), below_floor: true };
                return match self.config.freshness.strict {
                    true => (Filled::Failed(Arc::new(below_floor)), share),
                    false => (Filled::Got(Got { label: Some(Label::BelowFloor), ..got.clone() }), share),
                };
            }
            tries += 1;
        }
    }

    /// Fills, and again alone when the shared reply turns out to be for its first reader only.
    async fn filled_once(self: &Arc<Self>, ask: &Ask) -> (Filled, Role) {
        if ask.alone {
            return self.fills.fill_alone(self, ask).await;
        }
        let (filled, share) = self.fills.fill(self, ask).await;
        if share == Role::Follower {
            self.metrics.fill_shared();
            if matches!(&filled, Filled::Got(got) if !got.shareable) {
                return self.fills.fill_alone(self, ask).await;
            }
        }
        (filled, share)
    }

    fn note_churn(&self, routing: &Routing, identity: Identity, path: &str, now: Moment) {
        for (id, _) in routing.records() {
            if self.churn.note(*id, identity, now) {
                self.warn_of_churn(path);
            }
        }
    }

    fn shown(&self, admitted: &Admitted, got: &Got, share: Role, fwd: Fwd) -> Outcome {
        let now = self.clock.now();
        let age = got.entry.age(now);
        let horizon = self.freshness.horizon();
        let bound = got.entry.assess(&horizon, now).map(|found| self.bound(&found, age));
        let line = CacheLine {
            fwd: Some(fwd),
            fwd_status: Some(got.fwd_status),
            bound,
            stored: got.stored,
            collapsed: share == Role::Follower,
            detail: Some(got.label.map_or(Detail::Region(got.entry.region), Detail::Label)),
            ..CacheLine::default()
        };
        if let Some(label) = got.label {
            self.metrics.stale(label);
        }
        let age = Some(self.stated_age(age, bound)).filter(|age| *age > 0);
        let shown = shown(admitted.head(), &got.entry, age, line);
        Outcome::Shown(Shown { cookies: share.cookies(&got.cookies), ..shown })
    }

    /// Every region failed: serves the stored reply, labelled, while that is allowed; else the best
    /// real error; else an error of our own.
    fn failed(
        &self,
        admitted: &Admitted,
        stored: Option<Arc<Entry>>,
        failed: &Failed,
        share: Role,
        fwd: Fwd,
    ) -> Outcome {
        let now = self.clock.now();
        // Judged now: an announcement may have come while regions were asked.
        let horizon = self.freshness.horizon();
        let found = stored.as_ref().and_then(|entry| self.found(entry, &horizon, now));
        let below = found.is_some_and(|found| found.good_for(self.config.cache.soft_ttl) == Use::Below);
        let strict = self.config.freshness.strict && below;
        if let (Some(entry), Some(found)) = (&stored, found)
            && let Hold::Routed(routed) = &entry.hold
            && !strict
            && now.since(entry.sent) <= routed.ttl.get() + self.config.cache.stale_if_error
        {
            self.metrics.stale(Label::StaleIfError);
            let bound = Some(self.bound(&found, entry.age(now)));
            let line = CacheLine {
                hit: true,
                ttl: Some(found.seconds_left(self.config.cache.soft_ttl)),
                bound,
                detail: Some(Detail::Label(Label::StaleIfError)),
                ..CacheLine::default()
            };
            let age = self.stated_age(entry.age(now), bound);
            return Outcome::Shown(shown(admitted.head(), entry, Some(age), line));
        }
        if failed.below_floor || strict {
            return Outcome::BelowFloor(failed.asked.clone());
        }
        passed_on(admitted, failed, share, fwd)
    }
}

/// R1, R6: whether something newer than what a routed reply shows was announced or served since it
/// was judged. Without a version only an absence can be outdated: its readers came before whatever
/// moved the generation (R3).
fn is_below(entry: &Entry) -> bool {
    let absent = matches!(entry.status, StatusCode::NOT_FOUND | StatusCode::GONE);
    entry.shows().iter().any(|shown| {
        let state = shown.record.snapshot();
        let stated = shown.version.is_credible();
        let passed = is_on(Rule::R1) && stated && shown.version < state.floor;
        passed || is_on(Rule::R6) && !stated && absent && state.changed && state.floor > Version::NONE
    })
}

/// RFC 9111, 4.2.4 and RFC 5861, 4: the stored reply, labelled, if it or the request allows that
/// now.
fn stale_if_error(
    core: &Core,
    admitted: &Admitted,
    stored: Option<Arc<Entry>>,
    trouble: OriginTrouble,
) -> Option<Outcome> {
    let entry = stored?;
    let now = core.clock.now();
    let unless_said = core.config.cache.stale_if_error;
    rfc9111::may_serve_on_error(
        &RequestDirectives::of(&admitted.headers),
        &entry,
        entry.hold.unrouted()?,
        trouble,
        unless_said,
        now,
    )
    .then_some(())?;
    core.metrics.stale(Label::StaleIfError);
    let detail = Some(Detail::Label(Label::StaleIfError));
    let line = CacheLine { hit: true, ttl: Some(left(&entry, now)), detail, ..CacheLine::default() };
    Some(Outcome::Shown(shown(admitted.head(), &entry, Some(entry.age(now).as_secs()), line)))
}
