//! The one lookup, for HTTP/1.1 and HTTP/2: which route, which key, what is stored there, and what
//! it is good for now. It waits for nothing and asks no region; [`super::serve`] asks for what is
//! missing.
//!
//! Nothing is served as fresh unless [`crate::protocol::standing::assess`] (routed) or
//! [`crate::cache::rfc9111`] (unrouted) calls it fresh now. Whatever is served anyway is labelled
//! with the reason.

use std::sync::Arc;

use http::Method;

use super::caller::Caller;
use super::claimant::Claimed;
use super::found::{Found, Plan, Unproven, on_route, routing};
use super::permitted::{asked_permit, labelled, permission, rechecked, refusal};
use super::sent;
use super::settings::Settings;
use super::stored::{found, is_in_grace, may_serve, shown_unrouted, stored_hit, suits};
use crate::cache::entry::Entry;
use crate::cache::key::{KeyBuffer, KeyRef};
use crate::config::overrides::overrides;
use crate::config::{Form, Unrouted};
use crate::fill::ask::{Ask, Of};
use crate::fill::background::Refresh;
use crate::fill::permits::Permission;
use crate::http::admission::Head;
use crate::http::exchange::Outgoing;
use crate::migration::candidate;
use crate::model::ids::{RouteId, Version};
use crate::model::time::Moment;
use crate::payload::accept::Choice;
use crate::protocol::label::Label;
use crate::protocol::standing::Use;
use crate::race::floors;
use crate::race::question::Purpose;
use crate::routing::headers::ALONG;
use crate::routing::router::Matched;
use crate::shape::cache_status::Fwd;
use crate::shape::form::insert_form;
use crate::shape::shapes::{Shape, Shapes, Shaping};
use crate::shape::show::Shaped;
use crate::shape::shown::Shown;
use crate::unrouted;

/// Looks up what `head` names for `caller`, which was made from its lines. A request with a body is
/// passed on.
pub fn lookup(settings: &Settings, caller: &mut Caller, head: Head<'_>, has_body: bool) -> Found {
    let now = settings.fill.shared.clock.now();
    if *head.method == Method::POST
        && let Some(index) = settings.fill.router.batch(head.path())
    {
        return Found::Many(index);
    }
    lookup_on(settings, caller, head, settings.fill.router.find(head.path()), has_body, now)
}

/// The route that `path` is on, with the upstream that answers for its record now.
pub(crate) fn route_of<'p>(settings: &'p Settings, path: &'p str) -> Option<Matched<'p>> {
    let mut matched = settings.fill.router.find(path)?;
    candidate::choose(&mut matched);
    Some(matched)
}

/// Looks up a path that is known to be on this route, or on none.
#[inline(always)]
pub(super) fn lookup_on(
    settings: &Settings,
    caller: &mut Caller,
    head: Head<'_>,
    mut matched: Option<Matched<'_>>,
    has_body: bool,
    now: Moment,
) -> Found {
    let is_read = matches!(*head.method, Method::GET | Method::HEAD);
    matched.iter_mut().for_each(candidate::choose);
    let is_cached = caller.is_cached || matched.is_some_and(|it| is_ranged_shape(settings, caller, head, &it));
    if !is_cached || has_body || !is_read {
        matched.iter().for_each(|matched| matched.counts.miss());
        return Found::Pass(matched.map(|matched| on_route(settings, &matched)));
    }
    let Some(matched) = &matched else { return on_no_route(settings, caller, head, now) };
    if caller.is_foreign(settings, head.headers, matched) {
        return foreign(settings, caller, matched);
    }
    if matched.route.identity.needs_permits() {
        let before = caller.claimant.on(matched.id);
        let claimed = caller.claimant.claimed(settings, head.headers, matched);
        if caller.claimant.on(matched.id) != before {
            caller.forget_permit();
        }
        match claimed {
            Claimed::Known => {}
            Claimed::Unproven(token) => return Found::Unproven(Box::new(Unproven { token, is_held: false })),
            // Regions verify it for themselves, and what they say is nobody else's.
            Claimed::Nothing => return unproven(foreign(settings, caller, matched)),
        }
    }
    routed(settings, caller, head, matched, now)
}

/// A read with headers that may change its answer: nothing that is stored is for it.
#[cold]
fn foreign(settings: &Settings, caller: &Caller, matched: &Matched<'_>) -> Found {
    if caller.wish.only_if_cached {
        return Found::NotStored;
    }
    matched.counts.miss();
    Found::Pass(Some(on_route(settings, matched)))
}

/// A read that is passed on because nothing tells whose it is.
fn unproven(mut found: Found) -> Found {
    if let Found::Pass(Some(on_route)) = &mut found {
        on_route.is_unproven = true;
    }
    found
}

/// Request of a fill to the upstream that `matched` names, whichever answers; `None` if the sidecar
/// itself refuses the request. `head` says `no-cache`.
pub(super) fn would_ask(settings: &Settings, head: Head<'_>, matched: &Matched<'_>) -> Option<Ask> {
    let (caller, now) = (&mut Caller::of(head.headers), settings.fill.shared.clock.now());
    if !matches!(caller.claimant.claimed(settings, head.headers, matched), Claimed::Known) {
        return None;
    }
    match routed(settings, caller, head, matched, now) {
        Found::Ask(plan) => Some(plan.ask),
        _ => None,
    }
}

/// A routed path: announcements keep it fresh.
#[inline(always)]
fn routed(settings: &Settings, caller: &mut Caller, head: Head<'_>, matched: &Matched<'_>, now: Moment) -> Found {
    match &settings.fill.shapes[matched.index.0] {
        None => routed_to(settings, caller, head, matched, &mut Wanted::default(), now),
        Some(shapes) => routed_in_shape(settings, caller, head, matched, shapes, now),
    }
}

/// A path of a route that declares what may be made of its bytes.
#[inline(never)]
fn routed_in_shape(
    settings: &Settings,
    caller: &mut Caller,
    head: Head<'_>,
    matched: &Matched<'_>,
    shapes: &Shapes,
    now: Moment,
) -> Found {
    let choice = caller.choice(head.headers, matched.id, shapes);
    if let Some(choice) = choice {
        settings.fill.shared.metrics.payload.form_asked(choice.form());
    }
    match shapes.shaping(head, choice) {
        Ok(Shaping { path_and_query, shape }) => {
            let head = Head { path_and_query: path_and_query.as_deref().unwrap_or(head.path_and_query), ..head };
            let form = form_by(settings, matched.id, shapes.asked_form(choice));
            routed_to(settings, caller, head, matched, &mut Wanted { choice, form, shape }, now)
        }
        Err(refused) => Found::Refused(refused),
    }
}

/// Demands on a routed path beyond its bytes; none where the route declares none.
#[derive(Default)]
struct Wanted {
    choice: Option<Choice>,
    /// Form that regions are asked for; `None` passes the caller's `Accept` on.
    form: Option<Form>,
    shape: Option<Shape>,
}

/// `wanted` is lent, so that a hit without it moves nothing; its shape is taken.
fn routed_to(
    settings: &Settings,
    caller: &mut Caller,
    head: Head<'_>,
    matched: &Matched<'_>,
    wanted: &mut Wanted,
    now: Moment,
) -> Found {
    let fills = &*settings.fill;
    let shared = &*fills.shared;
    let (choice, form) = (wanted.choice, wanted.form);
    let is_uncoded =
        matched.route.is_stored_plain() || wanted.shape.as_ref().is_some_and(|shape| shape.wants_uncoded(form));
    let mut buffer = KeyBuffer::new(shared.hash_key);
    let key = caller.key(settings, &mut buffer, head, matched, choice, is_uncoded);
    let stored = shared.store.get(key);
    let floor = fills.config.service.authoritative.then(|| floors::asked(head.headers, matched.route)).flatten();
    let suits = match &stored {
        Some(entry) => suits(settings, caller, floor.as_deref(), entry, now),
        None => false,
    };
    let permission = permission(settings, caller, head, matched, key, now);
    if let Permission::Refused(entry) = &permission
        && !caller.wish.no_cache
    {
        return refusal(caller, head, entry);
    }
    let is_unproven = matches!(permission, Permission::Unproven);
    if let Some(entry) = &stored
        && suits
        && let Permission::Granted { .. } | Permission::Unproven = permission
    {
        let region_views = shared.freshness.region_views();
        let found = found(settings, entry, &region_views, now);
        let shown = |label| stored_hit(settings, head, caller, entry, found.as_ref(), now, label);
        match may_serve(settings, key, entry, found.as_ref(), now) {
            Ok((label, refresh)) => {
                matched.counts.hit();
                let label = labelled(settings, is_unproven, label);
                let refresh = match permission {
                    Permission::Granted { recheck: true, .. } => {
                        let ask = routed_ask(settings, head, caller, key, stored.clone(), matched, None);
                        Some(rechecked(in_form(ask, form, is_uncoded)))
                    }
                    _ => refresh,
                };
                return in_shape(settings, &mut wanted.shape, head, key, || shown(label), refresh);
            }
            Err(Some(Use::Below)) if is_in_grace(settings, entry, now) => {
                matched.counts.stale();
                shared.metrics.requests.stale(Label::Grace);
                let ask =
                    in_form(routed_ask(settings, head, caller, key, stored.clone(), matched, None), form, is_uncoded);
                let refresh = Some(Box::new(Refresh::Fill(ask)));
                let label = labelled(settings, is_unproven, Some(Label::Grace));
                return in_shape(settings, &mut wanted.shape, head, key, || shown(label), refresh);
            }
            Err(_) => {}
        }
    }
    if caller.wish.only_if_cached {
        return Found::NotStored;
    }
    // Where callers share what is stored, regions may have said to this one why it gets nothing.
    let asks_for_itself = matched.route.identity.needs_permits();
    if suits && stored.is_some() && matches!(permission, Permission::Withheld) && !asks_for_itself {
        return Found::Withheld;
    }
    let would_do = suits && stored.is_some() && matches!(permission, Permission::Unknown | Permission::Withheld);
    let fwd = reason(caller, stored.is_some(), suits);
    let mut ask = routed_ask(settings, head, caller, key, stored, matched, floor);
    let shape = wanted.shape.take();
    let previous = ask.previous.as_ref().filter(|_| ask.no_cache);
    if previous.zip(shape.as_ref()).is_some_and(|(entry, shape)| shape.is_missed_by(entry)) {
        // A 304 would only repeat it.
        ask.previous = None;
    }
    let mut ask = in_form(ask, form, is_uncoded);
    ask.permit.iter_mut().for_each(|permit| permit.is_missing = would_do);
    Found::Ask(Box::new(Plan { ask, fwd, shape }))
}

/// Reason for asking regions (RFC 9211, 2.2).
fn reason(caller: &Caller, is_stored: bool, suits: bool) -> Fwd {
    match is_stored {
        _ if caller.wish.no_cache => Fwd::Request,
        true if !suits => Fwd::Request,
        true => Fwd::Stale,
        false => Fwd::UriMiss,
    }
}

/// A path that no route names: a plain shared HTTP cache by RFC 9111.
fn on_no_route(settings: &Settings, caller: &Caller, head: Head<'_>, now: Moment) -> Found {
    // What an override asks for is perhaps not what is at this path.
    if settings.fill.config.cache.unrouted == Unrouted::Cache && overrides(head.headers).next().is_none() {
        let mut buffer = KeyBuffer::new(settings.fill.shared.hash_key);
        let stored = settings.fill.shared.store.select(&mut buffer, head.path_and_query, head.headers);
        let hit = stored.as_ref().and_then(|entry| Some((entry, unrouted::serve::hit(&caller.wish, entry, now)?)));
        if let Some((entry, hit)) = hit {
            let shown = shown_unrouted(head, caller, entry, &hit);
            let metrics = &settings.fill.shared.metrics;
            metrics.requests.hit(settings.fill.shared.clock.now() - now);
            return Found::Answer(shown, None);
        }
        // If a region may read the path as a route's, differing by a slash for example, the reply
        // may belong to one caller only.
        if !settings.fill.router.is_near(head.path()) {
            if caller.wish.only_if_cached {
                return Found::NotStored;
            }
            let fwd = match (&stored, caller.wish.no_cache) {
                (None, _) => Fwd::UriMiss,
                (Some(_), true) => Fwd::Request,
                (Some(_), false) => Fwd::Stale,
            };
            let invalidated = settings.fill.shared.store.invalidated(&mut buffer, head.path_and_query);
            let request = unrouted::keep::request(head);
            // What the reply varies by is not known before it comes, so only requests with the same
            // headers ask for the same thing.
            let Outgoing { method, path_and_query, headers, .. } = &request;
            let ask = Ask {
                key: buffer.whole_request(method, path_and_query, headers, &ALONG).to_key(),
                request: Arc::new(request),
                of: Of::Path(invalidated),
                previous: stored,
                purpose: Purpose::Foreground,
                no_cache: caller.wish.no_cache,
                floor: None,
                alone: caller.wish.no_store,
                dropped: Arc::default(),
                permit: None,
                through: None,
            };
            return Found::Ask(Box::new(Plan { ask, fwd, shape: None }));
        }
    }
    if caller.wish.only_if_cached {
        return Found::NotStored;
    }
    settings.fill.router.resembled(head.path()).for_each(|route| settings.fill.shared.observed.note_resembled(route));
    Found::Pass(None)
}

/// Returns whether a range is asked for of what is made of the region's bytes for this request: a
/// range of those would mean nothing.
pub(super) fn is_ranged_shape(settings: &Settings, caller: &Caller, head: Head<'_>, matched: &Matched<'_>) -> bool {
    let Some(shapes) = settings.fill.shapes[matched.index.0].as_ref().filter(|_| caller.is_ranged) else {
        return false;
    };
    let choice = caller.choice(head.headers, matched.id, shapes);
    let form = form_by(settings, matched.id, shapes.asked_form(choice));
    shapes.shaping(head, choice).map_or(true, |shaping| shaping.shape.is_some_and(|shape| shape.wants_uncoded(form)))
}

/// A stored answer in the shape that its caller asked for, if that takes no long work.
#[inline]
fn in_shape(
    settings: &Settings,
    shape: &mut Option<Shape>,
    head: Head<'_>,
    key: KeyRef<'_>,
    shown: impl FnOnce() -> Shown,
    refresh: Option<Box<Refresh>>,
) -> Found {
    match shape.take() {
        None => Found::Answer(shown(), refresh),
        Some(shape) => shaped(settings, shape, head, key, shown(), refresh),
    }
}

#[cold]
fn shaped(
    settings: &Settings,
    shape: Shape,
    head: Head<'_>,
    key: KeyRef<'_>,
    shown: Shown,
    refresh: Option<Box<Refresh>>,
) -> Found {
    match shape.at_once(&settings.shared.deriver, key, head.headers, shown) {
        Ok(Shaped::Shown(shown)) => Found::Answer(shown, refresh),
        Ok(Shaped::Refused(refused)) => Found::Refused(refused),
        Err(unshaped) => Found::Shape(unshaped, refresh),
    }
}

/// Request for a routed representation.
fn routed_ask(
    settings: &Settings,
    head: Head<'_>,
    caller: &Caller,
    key: KeyRef<'_>,
    previous: Option<Arc<Entry>>,
    matched: &Matched<'_>,
    floor: Option<Box<[Version]>>,
) -> Ask {
    let request = sent::request_of_caller(head, matched.route);
    let stored_is_below =
        floor.as_ref().is_some_and(|floor| previous.as_ref().is_none_or(|entry| !floors::are_met(floor, entry)));
    Ask {
        key: key.to_key(),
        dropped: sent::dropped(head.headers, &request),
        request: Arc::new(request),
        of: Of::Route(routing(settings, matched.id, on_route(settings, matched).records.into_iter())),
        previous,
        purpose: Purpose::Foreground,
        // A limit on the age also applies to what comes from an intermediary.
        no_cache: caller.wish.no_cache || caller.wish.max_age.is_some() || stored_is_below,
        floor: floor.map(Arc::from),
        alone: caller.wish.no_store,
        permit: (!settings.fill.config.service.authoritative)
            .then(|| asked_permit(settings, caller, head, matched, key)),
        through: None,
    }
}

/// Asks regions for a form, whatever the caller's own lines, and for bytes as they are.
fn in_form(mut ask: Ask, form: Option<Form>, is_uncoded: bool) -> Ask {
    if form.is_some() || is_uncoded {
        insert_form(&mut Arc::make_mut(&mut ask.request).headers, form, is_uncoded);
    }
    ask
}

/// Form that the upstream with this id is asked for where the current one would be asked for
/// `current`.
pub(super) fn form_by(settings: &Settings, route: RouteId, current: Option<Form>) -> Option<Form> {
    current.and_then(|current| match settings.fill.upstream(route) {
        Some(upstream) => upstream.form_for(Some(current)),
        None => Some(current),
    })
}
