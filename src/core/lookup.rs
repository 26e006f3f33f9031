//! The one lookup, for HTTP/1.1 and HTTP/2: which route, which key, what is stored there, and what
//! it is good for now. It waits for nothing and asks no region; [`super::serve`] asks for what is
//! missing.
//!
//! Nothing is served as fresh unless [`crate::protocol::standing::assess`] (routed) or
//! [`crate::cache::rfc9111`] (unrouted) calls it fresh now. Whatever is served anyway is labelled
//! with the reason.

use std::sync::Arc;
use std::time::Duration;

use http::Method;

use super::answer::{Bound, CacheLine, Detail, Fwd, Shown};
use super::caller::Caller;
use super::fill::background::Refresh;
use super::fill::{self, Ask, Of, Routing};
use super::race::region::Purpose;
use super::router::Matched;
use super::shape::{self, Shape, ShapeRefused, Shaped, Shapes, Shaping, Unshaped};
use super::{Core, floors, limits, way};
use crate::cache::entry::Entry;
use crate::cache::key::{KeyBuffer, KeyRef};
use crate::cache::rfc9111::{self, Decision};
use crate::config::overrides::overrides;
use crate::config::{Form, Unrouted};
use crate::engine::guard::{Guard, is_on};
use crate::http::admission::Head;
use crate::http::exchange::Outgoing;
use crate::model::ids::{RecordId, Version};
use crate::model::time::Moment;
use crate::payload::accept::Choice;
use crate::protocol::holding;
use crate::protocol::horizon::Horizon;
use crate::protocol::label::Label;
use crate::protocol::standing::{self, Assessment, Use};

pub enum Found {
    /// An answer that may be served now, and the refresh that it triggers.
    Answer(Shown, Option<Box<Refresh>>),
    /// Regions must be asked, in a fill that others may share.
    Ask(Box<Plan>),
    /// One region must be asked, for this caller alone; with the route that the path is on, if any.
    Pass(Option<OnRoute>),
    /// An answer that is not yet in the shape its caller asked for, and the refresh that it
    /// triggers.
    Shape(Box<Unshaped>, Option<Box<Refresh>>),
    /// The caller asked for a shape that cannot be had.
    Refused(ShapeRefused),
    /// It asks for many of the paths of the route at this index.
    Many(usize),
    /// Nothing usable is stored, and the caller accepts nothing else (`only-if-cached`).
    NotStored,
}

/// What to ask for, and what was stored at the time of the lookup. Of a routed path it holds no
/// floor, generation or epoch: the fill takes its own fence (R3).
pub struct Plan {
    /// Says whether it is routed or unrouted ([`Ask::of`]).
    pub(super) ask: Ask,
    pub(super) fwd: Fwd,
    pub(super) shape: Option<Shape>,
}

/// The route that a path is on, and the records that the path shows.
pub struct OnRoute {
    /// Its index in the configuration.
    pub(super) place: usize,
    pub(super) records: Vec<RecordId>,
    /// The id of the way that answers for them.
    pub(super) id: u16,
    /// Its reply is needed whole: it becomes part of another answer.
    pub(super) is_held: bool,
}

/// Looks up what `head` names for `caller`, which was made from its lines. A request with a body is
/// passed on.
pub fn lookup(core: &Arc<Core>, caller: &mut Caller, head: Head<'_>, has_body: bool) -> Found {
    let now = core.clock.now();
    if *head.method == Method::POST
        && let Some(place) = core.router.batch(head.path())
    {
        return Found::Many(place);
    }
    lookup_on(core, caller, head, core.router.find(head.path()), has_body, now)
}

/// The same of a path that is known to be on this route, or on none.
#[inline(always)]
pub(super) fn lookup_on(
    core: &Arc<Core>,
    caller: &mut Caller,
    head: Head<'_>,
    mut matched: Option<Matched<'_>>,
    has_body: bool,
    now: Moment,
) -> Found {
    let is_read = matches!(*head.method, Method::GET | Method::HEAD);
    matched.iter_mut().for_each(way::choose);
    let is_cached = caller.is_cached || matched.is_some_and(|it| core.is_ranged_shape(caller, head, &it));
    if !is_cached || has_body || !is_read {
        matched.iter().for_each(|matched| matched.counts.miss());
        return Found::Pass(matched.map(|matched| core.on_route(&matched)));
    }
    let Some(matched) = &matched else { return unrouted(core, caller, head, now) };
    if caller.is_foreign(core, head.headers, matched) {
        return foreign(core, caller, matched);
    }
    routed(core, caller, head, matched, now)
}

/// A read with headers that may change its answer: nothing that is stored is for it.
#[cold]
fn foreign(core: &Core, caller: &Caller, matched: &Matched<'_>) -> Found {
    if caller.wish.only_if_cached {
        return Found::NotStored;
    }
    matched.counts.miss();
    Found::Pass(Some(core.on_route(matched)))
}

/// What a fill of the way that `matched` names would ask for, whichever way answers; `None` if the
/// sidecar itself refuses the request. `head` says `no-cache`.
pub(super) fn would_ask(core: &Arc<Core>, head: Head<'_>, matched: &Matched<'_>) -> Option<Ask> {
    match routed(core, &mut Caller::of(head.headers), head, matched, core.clock.now()) {
        Found::Ask(plan) => Some(plan.ask),
        _ => None,
    }
}

/// A routed path: announcements keep it fresh.
#[inline(always)]
fn routed(core: &Arc<Core>, caller: &mut Caller, head: Head<'_>, matched: &Matched<'_>, now: Moment) -> Found {
    match &core.shapes[matched.place] {
        None => routed_to(core, caller, head, matched, &mut Wanted::default(), now),
        Some(shapes) => routed_in_shape(core, caller, head, matched, shapes, now),
    }
}

/// A path of a route that declares what may be made of its bytes.
#[inline(never)]
fn routed_in_shape(
    core: &Arc<Core>,
    caller: &mut Caller,
    head: Head<'_>,
    matched: &Matched<'_>,
    shapes: &Shapes,
    now: Moment,
) -> Found {
    let choice = caller.choice(head.headers, matched.id, shapes);
    if let Some(choice) = choice {
        core.metrics.form_asked(choice.word());
    }
    match shapes.shaping(head, choice) {
        Ok(Shaping { path_and_query, shape }) => {
            let head = Head { path_and_query: path_and_query.as_deref().unwrap_or(head.path_and_query), ..head };
            let form = core.form_by(matched.id, shapes.asked_form(choice));
            routed_to(core, caller, head, matched, &mut Wanted { choice, form, shape }, now)
        }
        Err(refused) => Found::Refused(refused),
    }
}

/// With which label a stored entry is served, and the refresh that it triggers.
type Serving = (Option<Label>, Option<Box<Refresh>>);

/// What is wanted of a routed path beyond its bytes; nothing where the route declares nothing.
#[derive(Default)]
struct Wanted {
    choice: Option<Choice>,
    /// What regions are asked for; `None` passes the caller's `Accept` on.
    form: Option<Form>,
    shape: Option<Shape>,
}

/// `wanted` is lent, so that a hit without it moves nothing; its shape is taken.
fn routed_to(
    core: &Arc<Core>,
    caller: &mut Caller,
    head: Head<'_>,
    matched: &Matched<'_>,
    wanted: &mut Wanted,
    now: Moment,
) -> Found {
    let (choice, form) = (wanted.choice, wanted.form);
    let is_identity =
        matched.route.is_stored_plain() || wanted.shape.as_ref().is_some_and(|shape| shape.wants_identity(form));
    let mut buffer = KeyBuffer::new(core.seed);
    let key = caller.key(core, &mut buffer, head, matched, (choice, is_identity));
    let dressed = |ask: Ask| shape::dressed(ask, form, is_identity);
    let stored = core.store.get(key);
    let floor = core.config.service.authoritative.then(|| floors::asked(head.headers, matched.route)).flatten();
    let suits = match &stored {
        Some(entry) => core.suits(caller, floor.as_deref(), entry, now),
        None => false,
    };
    if let Some(entry) = &stored
        && suits
    {
        let horizon = core.freshness.horizon();
        let found = core.found(entry, &horizon, now);
        let shown = |label| core.stored_hit(head, caller, entry, found.as_ref(), now, label);
        match core.may_serve(key, entry, found.as_ref(), now) {
            Ok((label, refresh)) => {
                matched.counts.hit();
                return core.in_shape(&mut wanted.shape, head, key, || shown(label), refresh);
            }
            Err(Some(Use::Below)) if core.is_in_grace(entry, now) => {
                matched.counts.stale();
                core.metrics.stale(Label::Grace);
                let ask = dressed(core.routed_ask(head, caller, key, stored.clone(), matched, None));
                let refresh = Some(Box::new(Refresh::Fill(ask)));
                return core.in_shape(&mut wanted.shape, head, key, || shown(Some(Label::Grace)), refresh);
            }
            Err(_) => {}
        }
    }
    if caller.wish.only_if_cached {
        return Found::NotStored;
    }
    let fwd = match &stored {
        _ if caller.wish.no_cache => Fwd::Request,
        Some(_) if !suits => Fwd::Request,
        Some(_) => Fwd::Stale,
        None => Fwd::UriMiss,
    };
    let mut ask = core.routed_ask(head, caller, key, stored, matched, floor);
    let shape = wanted.shape.take();
    let is_missed = |entry: &Arc<Entry>| shape.as_ref().is_some_and(|shape| shape.is_missed_by(entry));
    if ask.no_cache && ask.previous.as_ref().is_some_and(is_missed) {
        // A 304 would only repeat it.
        ask.previous = None;
    }
    let ask = dressed(ask);
    Found::Ask(Box::new(Plan { ask, fwd, shape }))
}

/// A path that no route names: a plain shared HTTP cache by RFC 9111.
fn unrouted(core: &Arc<Core>, caller: &Caller, head: Head<'_>, now: Moment) -> Found {
    // What an override asks for is perhaps not what is at this path.
    if core.config.cache.unrouted == Unrouted::Cache && overrides(head.headers).next().is_none() {
        let mut buffer = KeyBuffer::new(core.seed);
        let stored = core.store.select(&mut buffer, head.path_and_query, head.headers);
        if let Some(shown) = stored.as_ref().and_then(|entry| unrouted_hit(core, head, caller, entry, now)) {
            return Found::Answer(shown, None);
        }
        // If a region may read the path as a route's, differing by a slash for example, the reply
        // may belong to one caller only.
        if !core.router.is_near(head.path()) {
            if caller.wish.only_if_cached {
                return Found::NotStored;
            }
            let fwd = match (&stored, caller.wish.no_cache) {
                (None, _) => Fwd::UriMiss,
                (Some(_), true) => Fwd::Request,
                (Some(_), false) => Fwd::Stale,
            };
            let invalidated = core.store.invalidated(&mut buffer, head.path_and_query);
            let request = fill::ask::unrouted_request(head);
            // What the reply varies by is not known before it comes, so only requests with the same
            // headers ask for the same thing.
            let Outgoing { method, path_and_query, headers, .. } = &request;
            let ask = Ask {
                key: buffer.request(method, path_and_query, headers, &fill::ask::ALONG).to_key(),
                request: Arc::new(request),
                of: Of::Path(invalidated),
                previous: stored,
                purpose: Purpose::Foreground,
                no_cache: caller.wish.no_cache,
                floor: None,
                alone: caller.wish.no_store,
                dropped: Arc::default(),
                through: None,
            };
            return Found::Ask(Box::new(Plan { ask, fwd, shape: None }));
        }
    }
    if caller.wish.only_if_cached {
        return Found::NotStored;
    }
    core.router.resembled(head.path()).for_each(|route| core.observed.resembled(route));
    Found::Pass(None)
}

impl Core {
    pub(super) fn on_route(&self, matched: &Matched<'_>) -> OnRoute {
        let records = matched.records().filter_map(|(record_type, key)| self.keyring.record(record_type, &key));
        OnRoute { place: matched.place, records: records.collect(), id: matched.id, is_held: false }
    }

    /// Returns whether a range is asked for of what is made of the region's bytes for this request: a
    /// range of those would mean nothing.
    pub(super) fn is_ranged_shape(&self, caller: &Caller, head: Head<'_>, matched: &Matched<'_>) -> bool {
        let Some(shapes) = self.shapes[matched.place].as_ref().filter(|_| caller.is_ranged) else { return false };
        let choice = caller.choice(head.headers, matched.id, shapes);
        let form = self.form_by(matched.id, shapes.asked_form(choice));
        let of = |shaping: Shaping<'_>| shaping.shape.is_some_and(|shape| shape.wants_identity(form));
        shapes.shaping(head, choice).map_or(true, of)
    }

    /// A stored answer in the shape that its caller asked for, if that takes no long work.
    #[inline]
    fn in_shape(
        &self,
        shape: &mut Option<Shape>,
        head: Head<'_>,
        key: KeyRef<'_>,
        shown: impl FnOnce() -> Shown,
        refresh: Option<Box<Refresh>>,
    ) -> Found {
        match shape.take() {
            None => Found::Answer(shown(), refresh),
            Some(shape) => self.shaped(shape, head, key, shown(), refresh),
        }
    }

    #[cold]
    fn shaped(
        &self,
        shape: Shape,
        head: Head<'_>,
        key: KeyRef<'_>,
        shown: Shown,
        refresh: Option<Box<Refresh>>,
    ) -> Found {
        match shape.at_once(self, key, head.headers, shown) {
            Ok(Shaped::Shown(shown)) => Found::Answer(shown, refresh),
            Ok(Shaped::Refused(refused)) => Found::Refused(refused),
            Err(unshaped) => Found::Shape(unshaped, refresh),
        }
    }

    /// The live cells of these records, which a path of this route shows.
    pub(super) fn routing(&self, route: u16, records: impl Iterator<Item = RecordId>) -> Routing {
        Routing::new(&self.freshness, route, records.map(|id| (id, self.freshness.pin(id))).collect())
    }

    /// A stored entry as it stands, if it is routed. Notes the read.
    #[inline]
    pub(super) fn found<'a>(&self, entry: &'a Entry, horizon: &'a Horizon, now: Moment) -> Option<Assessment<'a>> {
        entry.shows().iter().for_each(|shown| self.freshness.read(&shown.record, now));
        entry.assess(horizon, now)
    }

    /// The use of a stored entry now, if it is routed.
    pub(super) fn good_for(&self, entry: &Entry) -> Option<Use> {
        let horizon = self.freshness.horizon();
        Some(entry.assess(&horizon, self.clock.now())?.good_for(self.config.cache.soft_ttl))
    }

    /// Whether a stored routed entry satisfies the request's `no-cache`, `max-age` and `min-fresh`
    /// (RFC 9111, 5.2.1). A `floor` that it states says what its `no-cache` is about.
    #[inline]
    fn suits(&self, caller: &Caller, floor: Option<&[Version]>, entry: &Entry, now: Moment) -> bool {
        let wish = &caller.wish;
        let left = || {
            let horizon = self.freshness.horizon();
            entry.assess(&horizon, now).map_or(0, |found| found.seconds_left(self.config.cache.soft_ttl))
        };
        floor.map_or(!wish.no_cache, |floor| floors::are_met(floor, entry) || !is_on(Guard::FloorBeforeStore))
            && wish.max_age.is_none_or(|most| entry.age(now) <= most)
            && wish.min_fresh.is_none_or(|least| left() >= least.as_secs() as i64)
    }

    /// How a stored routed entry may be served without asking; else what it is good for.
    fn may_serve(
        &self,
        key: KeyRef<'_>,
        entry: &Arc<Entry>,
        found: Option<&Assessment<'_>>,
        now: Moment,
    ) -> Result<Serving, Option<Use>> {
        match found.map(|found| found.good_for(self.config.cache.soft_ttl)) {
            Some(Use::Fresh) => Ok((None, None)),
            Some(Use::Unproven) => Ok((Some(Label::Unproven), None)),
            Some(Use::Unwired) => Ok((Some(Label::Unwired), None)),
            Some(Use::Provisional) => Ok((Some(Label::Provisional), self.recheck(key, entry, now))),
            Some(Use::Doubted) => {
                self.metrics.stale(Label::FloorEscaped);
                Ok((Some(Label::FloorEscaped), self.recheck(key, entry, now)))
            }
            other => Err(other),
        }
    }

    /// A reader found `entry` provisional, so its rechecks resume if they ended (nobody had read
    /// it, no region was LIVE) or never began for lack of room.
    fn recheck(&self, key: KeyRef<'_>, entry: &Arc<Entry>, now: Moment) -> Option<Box<Refresh>> {
        let young = now.since(entry.hold.routed()?.confirmed) <= limits::RECHECK_WAIT.0;
        let may_settle = !young && standing::recheck_may_settle(&self.freshness.horizon(), now);
        may_settle.then(|| Box::new(Refresh::Recheck(key.to_key(), entry.clone())))
    }

    /// What to ask for a routed representation.
    fn routed_ask(
        &self,
        head: Head<'_>,
        caller: &Caller,
        key: KeyRef<'_>,
        previous: Option<Arc<Entry>>,
        matched: &Matched<'_>,
        floor: Option<Box<[Version]>>,
    ) -> Ask {
        let request = fill::ask::routed_request(head, matched.route);
        let stored_is_below =
            floor.as_ref().is_some_and(|floor| previous.as_ref().is_none_or(|entry| !floors::are_met(floor, entry)));
        Ask {
            key: key.to_key(),
            dropped: fill::ask::dropped(head.headers, &request),
            request: Arc::new(request),
            of: Of::Route(self.routing(matched.id, self.on_route(matched).records.into_iter())),
            previous,
            purpose: Purpose::Foreground,
            // A limit on the age also applies to what comes from an intermediary.
            no_cache: caller.wish.no_cache || caller.wish.max_age.is_some() || stored_is_below,
            floor: floor.map(Arc::from),
            alone: caller.wish.no_store,
            through: None,
        }
    }

    /// For `freshness.grace` after an announcement the previous value may be served while its
    /// refetch runs, if it was within its TTL and every record of it that moved did so just now.
    /// Never in strict mode, because it is known to be old.
    fn is_in_grace(&self, entry: &Entry, now: Moment) -> bool {
        let config = &self.config.freshness;
        let grace = config.grace;
        let may_be = !grace.is_zero() && !config.strict;
        let Some(routed) = entry.hold.routed().filter(|_| may_be) else { return false };
        let moved_just_now = |shown: &holding::ShownRecord| {
            let state = shown.record.snapshot();
            let recent = state.marker.is_some_and(|marker| now.since(marker.at) <= grace);
            recent || state.upholds(shown.version, shown.generation)
        };
        now.since(entry.sent) < routed.ttl.get() && routed.shows.iter().all(moved_just_now)
    }

    /// The greatest age that the answer can have.
    pub(super) fn bound(&self, assessed: &Assessment<'_>, age: Duration) -> Bound {
        assessed.bound(age, self.config.freshness.worst_lag).map_or(Bound::None, Bound::Seconds)
    }

    /// Seconds for `Age`. A node's announcements say more than when it last read its table: nothing
    /// that its region had by then is missing.
    pub(super) fn stated_age(&self, age: Duration, bound: Option<Bound>) -> u64 {
        match bound {
            Some(Bound::Seconds(bound)) if self.config.service.authoritative => bound.min(age.as_secs()),
            _ => age.as_secs(),
        }
    }

    /// A stored routed entry, served without asking.
    fn stored_hit(
        &self,
        head: Head<'_>,
        caller: &Caller,
        entry: &Arc<Entry>,
        found: Option<&Assessment<'_>>,
        now: Moment,
        label: Option<Label>,
    ) -> Shown {
        let age = entry.age(now);
        let bound = found.map(|found| self.bound(found, age));
        let line = CacheLine {
            hit: true,
            ttl: found.map(|found| found.seconds_left(self.config.cache.soft_ttl)),
            bound,
            detail: label.map(Detail::Label),
            ..CacheLine::default()
        };
        let shown = caller.shown(head, entry, Some(self.stated_age(age, bound)), line);
        self.metrics.hit(self.clock.now() - now);
        shown
    }
}

/// A stored reply, if RFC 9111 lets it be served without asking.
fn unrouted_hit(core: &Core, head: Head<'_>, caller: &Caller, entry: &Arc<Entry>, now: Moment) -> Option<Shown> {
    let (age, ttl, detail) = match rfc9111::decide(&caller.wish, entry, entry.hold.unrouted()?, now) {
        Decision::Fresh { age, ttl } => (age, ttl.as_secs() as i64, None),
        Decision::Stale { age } => (age, left(entry, now), Some(Detail::Label(Label::MaxStale))),
        _ => return None,
    };
    let line = CacheLine { hit: true, ttl: Some(ttl), detail, ..CacheLine::default() };
    let shown = caller.shown(head, entry, Some(age.as_secs()), line);
    core.metrics.hit(core.clock.now() - now);
    Some(shown)
}

/// Whole seconds of freshness left; negative once it is over.
pub(super) fn left(entry: &Entry, now: Moment) -> i64 {
    let lifetime = entry.hold.unrouted().map_or(0, |stored| stored.lifetime.as_secs());
    lifetime as i64 - entry.age(now).as_secs() as i64
}
