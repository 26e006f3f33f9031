//! Carries out what a lookup found: serves it, or asks the regions and serves the result.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, Ready, ready};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;

use super::answer::{self, ByAccept, Outcome};
use super::caller::{Caller, by_accept};
use super::found::{Found, OnRoute, Plan, Unproven};
use super::gated::{GateMemory, Gated, is_behind};
use super::lookup::lookup;
use super::permit_turn::{Permitted, turn};
use super::permitted;
use super::report::{count_asked, count_miss, passed_on, warn_of_churn};
use super::settings::Settings;
use super::shaping::{in_shape, outcome_of};
use super::stored::{bound, found, stated_age};
use super::under_permit::fill_under_permit;
use super::{batch, limits, pass};
use crate::access::credentials::Credentials;
use crate::access::denial::Denial;
use crate::access::gate::{Gate, Ruling, Turn};
use crate::cache::entry::{Entry, Validity};
use crate::cache::rfc9111::OriginTrouble;
use crate::fill::ask::{Ask, Of, Routing};
use crate::fill::background::Refresh;
use crate::fill::flight;
use crate::fill::outcome::{Failed, Filled, Got, Lack, Role};
use crate::http::admission::{Admitted, Entered, Refusal};
use crate::http::body::Body;
use crate::http::connection::Via;
use crate::http::server_tls::peer::PeerCertificate;
use crate::model::ids::Version;
use crate::model::time::Moment;
use crate::protocol::label::Label;
use crate::protocol::standing::Use;
use crate::routing::keyed_hashes::Identity;
use crate::shape::cache_status::{CacheLine, Detail, Fwd};
use crate::shape::shown::Shown;
use crate::switch::{Guard, Rule, is_on};
use crate::telemetry::metrics::operations::Budget;
use crate::unrouted;

/// Ready at once for a hit or a refusal, boxed when a region must be asked: only that case needs a
/// large future.
pub type AnswerFuture = Either<Ready<Response<Body>>, BoxFuture<'static, Response<Body>>>;

/// Handles one request that hyper read, from admission to the answer.
pub fn answer(settings: &Arc<Settings>, request: Request<Incoming>, via: Via) -> AnswerFuture {
    let by = by_accept(settings, request.headers());
    let is_head = *request.method() == Method::HEAD;
    let peer = request.extensions().get::<Arc<PeerCertificate>>().cloned();
    let entered = match settings.admission.enter(request, via) {
        Ok(entered) => entered,
        Err(refusal) => return Either::Left(ready(ended(refused(settings, refusal, by), is_head))),
    };
    // Before the body is read, and before anything is looked up.
    let mut stated = None;
    if let Some(gate) = &settings.shared.gate {
        let mut memory = GateMemory::default();
        let credentials = Credentials::of(entered.headers(), peer.as_deref());
        let Gated { ruling, newer } = memory.ask(gate, entered.method(), entered.path(), credentials, Turn::First);
        stated = memory.stated().cloned();
        match ruling {
            Ruling::Decided(Ok(())) if is_behind(gate, newer) => {
                return Either::Right(answer_after_a_look(settings.clone(), gate.clone(), entered, peer, by));
            }
            Ruling::Decided(Ok(())) => {}
            Ruling::Decided(Err(denial)) => {
                return Either::Left(ready(denied(settings, denial, stated, by, is_head)));
            }
            Ruling::Pending(pending) => {
                let (settings, gate) = (settings.clone(), gate.clone());
                let asked = async move {
                    match pending.await {
                        Ok(()) if is_behind(&gate, newer) => {
                            answer_after_a_look(settings, gate, entered, peer, by).await
                        }
                        Ok(()) => whole_answer(settings, entered, None, stated, by).await,
                        Err(denial) => denied(&settings, denial, stated, by, is_head),
                    }
                };
                return Either::Right(asked.boxed());
            }
        }
    }
    let found = entered.head().map(|head| lookup(settings, &mut Caller::of(head.headers), head, false));
    let found = match found.map(|found| at_once(settings, found)) {
        Some(Ok(shown)) => {
            let shown = answer::show(shown, entered.into_headers(), &settings.fill.shared.names);
            return Either::Left(ready(answer::state(shown, stated)));
        }
        Some(Err(found)) => Some(found),
        None => None,
    };
    Either::Right(whole_answer(settings.clone(), entered, found, stated, by).boxed())
}

/// The answer to a request whose body may still be on its way, by what was `found`, if anything was.
async fn whole_answer(
    settings: Arc<Settings>,
    mut entered: Entered,
    found: Option<Found>,
    stated: Option<HeaderValue>,
    by: Option<ByAccept>,
) -> Response<Body> {
    let is_head = *entered.method() == Method::HEAD;
    let _held = entered.held();
    let admitted = match entered.whole(&settings.fill.shared.tasks).await {
        Ok(admitted) => admitted,
        Err(refusal) => return ended(refused(&settings, refusal, by), is_head),
    };
    let outcome = match found {
        Some(found) => execute_plan(settings.clone(), found, admitted).await,
        None => serve(&settings, admitted).await,
    };
    ended(answer::respond(outcome.stating(stated), &settings.fill.shared.names), is_head)
}

fn denied(
    settings: &Settings,
    denial: Denial,
    stated: Option<HeaderValue>,
    by: Option<ByAccept>,
    is_head: bool,
) -> Response<Body> {
    let outcome = Outcome::Denied(denial).negotiated(by).stating(stated);
    ended(answer::respond(outcome, &settings.fill.shared.names), is_head)
}

/// Answers a caller who knows of newer grants than this node, once it has looked for them.
fn answer_after_a_look(
    settings: Arc<Settings>,
    gate: Arc<Gate>,
    mut entered: Entered,
    peer: Option<Arc<PeerCertificate>>,
    by: Option<ByAccept>,
) -> BoxFuture<'static, Response<Body>> {
    async move {
        let is_head = *entered.method() == Method::HEAD;
        let _held = entered.held();
        let admitted = match entered.whole(&settings.fill.shared.tasks).await {
            Ok(admitted) => admitted,
            Err(refusal) => return ended(refused(&settings, refusal, by), is_head),
        };
        let outcome = after_a_look(settings.clone(), gate, admitted, peer).await;
        ended(answer::respond(outcome, &settings.fill.shared.names), is_head)
    }
    .boxed()
}

/// Looks for newer grants, and decides by what there is then.
pub(super) async fn after_a_look(
    settings: Arc<Settings>,
    gate: Arc<Gate>,
    admitted: Admitted,
    peer: Option<Arc<PeerCertificate>>,
) -> Outcome {
    gate.look().await;
    let mut memory = GateMemory::default();
    let credentials = Credentials::of(&admitted.headers, peer.as_deref());
    let gated = memory.ask(&gate, &admitted.method, admitted.head().path(), credentials, Turn::Again);
    let outcome = match gated.ruling.settled().await {
        Ok(()) => serve(&settings, admitted).await,
        Err(denial) => Outcome::Denied(denial),
    };
    outcome.stating(memory.stated().cloned())
}

#[inline]
fn ended(response: Response<Body>, is_head: bool) -> Response<Body> {
    if is_head { answer::without_body(response) } else { response }
}

fn refused(settings: &Settings, refusal: Refusal, by: Option<ByAccept>) -> Response<Body> {
    settings.fill.shared.metrics.requests.refused(refusal.reason());
    if refusal == Refusal::NoRoom {
        settings.fill.shared.metrics.operations.over_budget(Budget::RequestBodies);
    }
    answer::respond(Outcome::Refused(refusal).negotiated(by), &settings.fill.shared.names)
}

/// The answer, if there is one already; begins the refresh that it triggers.
pub(super) fn at_once(settings: &Arc<Settings>, found: Found) -> Result<Shown, Found> {
    match found {
        Found::Answer(shown, refresh) => {
            begin(settings, refresh);
            Ok(shown)
        }
        Found::Shape(unshaped, refresh) => {
            begin(settings, refresh);
            Err(Found::Shape(unshaped, None))
        }
        found => Err(found),
    }
}

#[inline]
fn begin(settings: &Settings, refresh: Option<Box<Refresh>>) {
    if let Some(refresh) = refresh {
        refresh.begin(&settings.fill);
    }
}

pub async fn serve(settings: &Arc<Settings>, admitted: Admitted) -> Outcome {
    let mut caller = Caller::of(&admitted.headers);
    let found = lookup(settings, &mut caller, admitted.head(), !admitted.body.is_empty());
    execute_plan(settings.clone(), found, admitted).await
}

/// Answers what was found, or asks for it. The future that passes a request on is boxed, because
/// most requests do not need it.
#[expect(clippy::manual_async_fn, reason = "an async fn's future has room for its arguments twice")]
pub fn execute_plan(
    settings: Arc<Settings>,
    found: Found,
    admitted: Admitted,
) -> impl Future<Output = Outcome> + Send {
    async move {
        let by = by_accept(&settings, &admitted.headers);
        let outcome = match at_once(&settings, found) {
            Ok(shown) => Outcome::Shown(shown),
            Err(Found::Ask(plan)) if plan.missing_permit().is_some() => {
                ask_for_permit(&settings, plan, admitted).await
            }
            Err(Found::Ask(plan)) => ask_planned(&settings, plan, &admitted).await,
            Err(Found::Pass(route)) => pass::pass(&settings, &admitted, route.as_ref(), false).boxed().await,
            Err(Found::Shape(unshaped, _)) => {
                outcome_of(unshaped.away(&settings.shared.deriver, &admitted.headers).boxed().await)
            }
            Err(Found::Refused(refused)) => Outcome::Unshaped(refused),
            Err(Found::Many(index)) => batch::answer(&settings, index, admitted, execute_one).boxed().await,
            Err(Found::Unproven(unproven)) => prove(settings.clone(), *unproven, admitted).await,
            Err(Found::Withheld) => Outcome::Denied(Denial::GrantsUnknown),
            Err(_) => Outcome::NotStored,
        };
        outcome.negotiated(by)
    }
}

async fn ask_planned(settings: &Arc<Settings>, plan: Box<Plan>, admitted: &Admitted) -> Outcome {
    if plan.shape.is_none() {
        return ask(settings, &plan.ask, plan.fwd, admitted).await;
    }
    ask_in_shape(settings, *plan, admitted).boxed().await
}

/// Verifies the caller's token and looks again; a caller who proves nothing is nobody known.
fn prove(settings: Arc<Settings>, unproven: Unproven, admitted: Admitted) -> BoxFuture<'static, Outcome> {
    async move {
        let mut caller = Caller::of(&admitted.headers);
        if let Some(verifier) = &settings.shared.verifier {
            caller.claimant.proven(verifier.prove(unproven.token).await);
        }
        let mut found = lookup(&settings, &mut caller, admitted.head(), !admitted.body.is_empty());
        if matches!(found, Found::Unproven(_)) {
            // A key has gone meanwhile.
            caller.claimant.proven(Err(Denial::KeysUnknown));
            found = lookup(&settings, &mut caller, admitted.head(), !admitted.body.is_empty());
        }
        if let Found::Pass(Some(on_route)) = &mut found {
            on_route.is_held = unproven.is_held;
        }
        execute_plan(settings, found, admitted).await
    }
    .boxed()
}

/// Asks for a permit, once for all who need the same (R22): what is stored would do for them. Boxed,
/// because what it finds afterwards is carried out as any plan.
fn ask_for_permit(settings: &Arc<Settings>, plan: Box<Plan>, admitted: Admitted) -> BoxFuture<'static, Outcome> {
    let settings = settings.clone();
    async move {
        let Some(key) = plan.missing_permit() else { return ask_planned(&settings, plan, &admitted).await };
        match turn(&settings, plan, key, &admitted).await {
            Permitted::Ask(plan, held) => {
                let outcome = ask_planned(&settings, plan, &admitted).await;
                drop(held);
                outcome
            }
            Permitted::Served(found) => execute_plan(settings, found, admitted).await,
        }
    }
    .boxed()
}

/// One key of a batch.
fn execute_one(settings: Arc<Settings>, found: Found, admitted: Admitted) -> BoxFuture<'static, Outcome> {
    execute_plan(settings, found, admitted).boxed()
}

async fn ask_in_shape(settings: &Arc<Settings>, plan: Plan, admitted: &Admitted) -> Outcome {
    let key = plan.ask.key.clone();
    let outcome = ask(settings, &plan.ask, plan.fwd, admitted).await;
    match plan.shape {
        Some(shape) => in_shape(settings, shape, &key, &admitted.headers, outcome).await,
        None => outcome,
    }
}

async fn ask(settings: &Arc<Settings>, ask: &Ask, fwd: Fwd, admitted: &Admitted) -> Outcome {
    let started = settings.fill.shared.clock.now();
    // What a node has stored is no answer for somebody who asked for what is in its table.
    let insists = settings.fill.config.service.authoritative && ask.insists() && is_on(Guard::StoredIsNoAnswer);
    let index = match &ask.of {
        Of::Route(routing) => settings.fill.router.index_of(routing.route),
        Of::Path(_) => None,
    };
    if let (Of::Route(routing), Some(index)) = (&ask.of, index) {
        routing.note_read(started);
        let route = &settings.fill.config.service.routes[index.0];
        let identity = match ask.permit.filter(|_| route.identity.claims().is_some()) {
            Some(permit) => Identity(u128::from_be_bytes(permit.key.to_bytes())),
            None => settings.fill.shared.keyed_hashes.owner(&route.identity, &admitted.headers),
        };
        note_churn(settings, routing, identity, &route.path.text, started);
    }
    let (filled, share) = filled(settings, ask).await;
    let outcome = match (filled, &ask.of) {
        (Filled::Got(got), _) => shown(settings, admitted, &got, share, fwd),
        (Filled::Busy, _) => Outcome::Busy,
        (unheld @ (Filled::TooLarge | Filled::NoRoom), of) => {
            let on_route = match of {
                Of::Route(routing) => {
                    let records = routing.records().iter().map(|(id, _)| *id).collect();
                    index.map(|index| OnRoute {
                        index,
                        records,
                        id: routing.route,
                        is_held: false,
                        is_unproven: false,
                    })
                }
                Of::Path(_) => None,
            };
            if let Some(index) = index {
                settings.fill.router.counts(index).miss();
            }
            // It counts what it answers itself.
            let lacked_memory = matches!(unheld, Filled::NoRoom);
            return pass::pass(settings, admitted, on_route.as_ref(), lacked_memory).boxed().await;
        }
        (Filled::Failed(failed), Of::Route(_)) => {
            // Another fill may have stored something in the meantime.
            let stored = settings
                .fill
                .shared
                .store
                .get(ask.key.as_ref())
                .or_else(|| ask.previous.clone())
                .filter(|_| !insists);
            failed_with(settings, admitted, ask, stored, &failed, share, fwd)
        }
        (Filled::Failed(failed), Of::Path(_)) => {
            let trouble = failed
                .best_error
                .as_ref()
                .map_or(OriginTrouble::Disconnected, |error| OriginTrouble::Status(error.entry.status));
            stale_if_error(settings, admitted, ask.previous.clone(), trouble)
                .unwrap_or_else(|| passed_on(admitted, &failed, share, fwd))
        }
    };
    if let Some(index) = index {
        count_asked(settings.fill.router.counts(index), &outcome);
    }
    count_miss(settings, &outcome, started);
    outcome
}

/// Fills. A reply that an announcement overtook on its way to the reader is asked for again, a
/// few times. After that it is served labelled, or not at all in strict mode (R1).
async fn filled(settings: &Arc<Settings>, ask: &Ask) -> (Filled, Role) {
    let mut tries = 0;
    loop {
        let (filled, share) = filled_once(settings, ask).await;
        let Filled::Got(got) = &filled else { return (filled, share) };
        // Where the table said less than the floor, either that was overruled, or an
        // announcement overtook the read.
        let overruled = settings.fill.config.service.authoritative && got.label == Some(Label::BelowFloor);
        if !overruled && (got.label.is_some() || !is_below(&got.entry)) {
            return (filled, share);
        }
        if tries == limits::REFILLS {
            let below_floor = Failed { best_error: None, asked: Vec::new(), lack: Lack::NewerContent };
            return if settings.fill.config.freshness.strict {
                (Filled::Failed(Arc::new(below_floor)), share)
            } else {
                (Filled::Got(Got { label: Some(Label::BelowFloor), ..got.clone() }), share)
            };
        }
        tries += 1;
    }
}

/// Fills, and again alone when the shared reply turns out to be for its first reader only.
async fn filled_once(settings: &Arc<Settings>, ask: &Ask) -> (Filled, Role) {
    if ask.alone {
        return flight::fill_alone(&settings.fill, ask).await;
    }
    if let Some(permit) = ask.permit.filter(|permit| permit.is_needed) {
        return fill_under_permit(settings, ask, permit).boxed().await;
    }
    let (filled, share) = flight::fill(&settings.fill, ask).await;
    if share == Role::Follower {
        settings.fill.shared.metrics.requests.fill_shared();
        if matches!(&filled, Filled::Got(got) if !got.shareable) {
            return flight::fill_alone(&settings.fill, ask).await;
        }
    }
    (filled, share)
}

fn note_churn(settings: &Settings, routing: &Routing, identity: Identity, path: &str, now: Moment) {
    for (id, _) in routing.records() {
        if settings.shared.churn.note(*id, identity, now) {
            warn_of_churn(settings, path);
        }
    }
}

fn shown(settings: &Settings, admitted: &Admitted, got: &Got, share: Role, fwd: Fwd) -> Outcome {
    let now = settings.fill.shared.clock.now();
    let age = got.entry.age(now);
    let region_views = settings.fill.shared.freshness.region_views();
    let bound = got.entry.assess(&region_views, now).map(|found| bound(settings, &found, age));
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
        settings.fill.shared.metrics.requests.stale(label);
    }
    let age = Some(stated_age(settings, age, bound)).filter(|age| *age > 0);
    let shown = Shown::of(admitted.head(), &got.entry, age, line);
    Outcome::Shown(Shown { cookies: share.cookies(&got.cookies), ..shown })
}

/// Every region failed: serves the stored reply, labelled, while that is allowed; else the best
/// real error; else an error of our own.
fn failed_with(
    settings: &Settings,
    admitted: &Admitted,
    ask: &Ask,
    stored: Option<Arc<Entry>>,
    failed: &Failed,
    share: Role,
    fwd: Fwd,
) -> Outcome {
    let now = settings.fill.shared.clock.now();
    // Judged now: an announcement may have come while regions were asked.
    let region_views = settings.fill.shared.freshness.region_views();
    let found = stored.as_ref().and_then(|entry| found(settings, entry, &region_views, now));
    let below = found.is_some_and(|found| found.good_for(settings.fill.config.cache.soft_ttl) == Use::Below);
    let strict = settings.fill.config.freshness.strict && below;
    let is_own = ask.permit.is_some_and(|permit| permit.is_needed);
    if let (Some(entry), Some(found)) = (&stored, found)
        && let Validity::Routed(routed) = &entry.validity
        && !strict
        && now.since(entry.sent) <= routed.ttl.get() + settings.fill.config.cache.stale_if_error
    {
        let label = match permitted::stored_if(settings, admitted.head(), ask.permit, now) {
            Ok(label) => label.unwrap_or(Label::StaleIfError),
            // What a region answered to this caller says more than that it has no permit.
            Err(outcome) if matches!(*outcome, Outcome::Denied(_)) && failed.best_error.is_some() && is_own => {
                return passed_on(admitted, failed, share, fwd);
            }
            Err(outcome) => return *outcome,
        };
        settings.fill.shared.metrics.requests.stale(label);
        let bound = Some(bound(settings, &found, entry.age(now)));
        let line = CacheLine {
            hit: true,
            ttl: Some(found.seconds_left(settings.fill.config.cache.soft_ttl)),
            bound,
            detail: Some(Detail::Label(label)),
            ..CacheLine::default()
        };
        let age = stated_age(settings, entry.age(now), bound);
        return Outcome::Shown(Shown::of(admitted.head(), entry, Some(age), line));
    }
    if failed.lack == Lack::Grants {
        return Outcome::Denied(Denial::GrantsUnknown);
    }
    if failed.lack == Lack::NewerContent || strict {
        return Outcome::BelowFloor(failed.asked.clone());
    }
    passed_on(admitted, failed, share, fwd)
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

/// The stored reply of an unrouted path where regions gave none, labelled, if that is allowed now.
fn stale_if_error(
    settings: &Settings,
    admitted: &Admitted,
    stored: Option<Arc<Entry>>,
    trouble: OriginTrouble,
) -> Option<Outcome> {
    let (entry, shared) = (stored?, &settings.fill.shared);
    let unless_said = settings.fill.config.cache.stale_if_error;
    let hit = unrouted::serve::stale_hit(&admitted.headers, &entry, trouble, unless_said, shared.clock.now())?;
    shared.metrics.requests.stale(Label::StaleIfError);
    let detail = hit.label.map(Detail::Label);
    let line = CacheLine { hit: true, ttl: Some(hit.ttl_s), detail, ..CacheLine::default() };
    Some(Outcome::Shown(Shown::of(admitted.head(), &entry, Some(hit.age_s), line)))
}
