//! Demands of a request's header lines, whatever the path. A caller repeats its header lines, so a
//! connection keeps a [`Caller`] from one request to the next and makes a new one when the lines
//! change ([`super::fast_path::plain`]). It depends only on the lines and the configuration, and
//! neither changes while it is kept; what else it remembers is compared at each request.

use std::sync::Arc;

use http::{HeaderMap, Method, header};

use super::answer::ByAccept;
use super::claimant::Claimant;
use super::gated::GateMemory;
use super::settings::Settings;
use crate::cache::entry::Entry;
use crate::cache::key::{KeyBuffer, KeyRef, Representation};
use crate::cache::rfc9111::{self, Handling, RequestDirectives};
use crate::config::Route;
use crate::fill::permits::PermitKey;
use crate::http::admission::Head;
use crate::model::ids::RouteId;
use crate::model::time::Moment;
use crate::payload::accept::Choice;
use crate::routing::foreign::has_foreign;
use crate::routing::keyed_hashes::Identity;
use crate::routing::router::Matched;
use crate::shape::cache_status::CacheLine;
use crate::shape::cookies::Cookies;
use crate::shape::shapes::Shapes;
use crate::shape::shown::Shown;
use crate::switch::{Guard, is_on};

#[derive(Clone)]
pub struct Caller {
    /// True if a GET or HEAD with these lines may be answered from the store.
    pub(crate) is_cached: bool,
    /// Caller's directives for caches.
    pub(crate) wish: RequestDirectives,
    /// The caller already has a copy and names it.
    pub(crate) is_conditional: bool,
    /// Only a range keeps a GET or HEAD with these lines from the store.
    pub(crate) is_ranged: bool,
    /// Memory that a node's gate has of it.
    pub(crate) gate: Option<Box<GateMemory>>,
    /// The caller by its verified token, on the last route that asked.
    pub(super) claimant: Claimant,
    /// Part of these lines in the keys of the last route's representations.
    tail: Option<Tail>,
    /// The permit of these lines for the last route's view (R22).
    permit: Option<RoutePermit>,
}

/// Meaning of a caller's lines on one route.
#[derive(Clone)]
struct Tail {
    /// The route's id.
    route: RouteId,
    /// On a route with a message: which form they ask for.
    choice: Option<Choice>,
    is_uncoded: bool,
    bytes: Box<[u8]>,
}

/// A permit on one route.
#[derive(Clone)]
struct RoutePermit {
    route: RouteId,
    key: PermitKey,
    /// It holds until then, as long as nothing else stands.
    until: Moment,
    standing: Standing,
}

/// State by which a permit was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// The grants' floor.
    pub(super) floor: u64,
    /// Refusals so far ([`crate::fill::permits::Permits::epoch`]).
    pub(super) epoch: u64,
}

impl Caller {
    pub fn of(headers: &HeaderMap) -> Self {
        let is_cached = rfc9111::handling_of(&Method::GET, headers) == Handling::Cached;
        Self {
            is_cached,
            is_ranged: !is_cached && rfc9111::is_only_ranged(headers),
            wish: RequestDirectives::of(headers),
            is_conditional: headers.contains_key(header::IF_NONE_MATCH)
                || headers.contains_key(header::IF_MODIFIED_SINCE),
            gate: None,
            claimant: Claimant::default(),
            tail: None,
            permit: None,
        }
    }

    /// End of the permit for what this route shows, if it was looked up as things stand now.
    #[inline]
    pub(super) fn permitted(&self, route: RouteId, standing: Standing) -> Option<Moment> {
        let permit = self.permit.as_ref().filter(|permit| permit.route == route && permit.standing == standing);
        permit.map(|permit| permit.until)
    }

    /// Notes the permit for what this route shows, as it was looked up.
    pub(super) fn note_permit(&mut self, route: RouteId, key: PermitKey, standing: Standing, until: Moment) {
        self.permit = Some(RoutePermit { route, key, until, standing });
    }

    /// Key of this caller's permit: for the view that the route shows, or for the one reply at `key` where
    /// no grants of views are known to decide.
    pub(crate) fn permit_key(
        &self,
        settings: &Settings,
        headers: &HeaderMap,
        matched: &Matched<'_>,
        key: KeyRef<'_>,
    ) -> PermitKey {
        if matched.route.identity.claims().is_some() {
            return settings.fill.shared.keyed_hashes.permit_of_reply(key).into();
        }
        if let Some(permit) = self.permit.as_ref().filter(|permit| permit.route == matched.id) {
            return permit.key;
        }
        match self.claimant.on(matched.id) {
            Some(claimed) => permit_of(settings, matched, claimed),
            None => self.own_permit_key(settings, headers, matched),
        }
    }

    /// Key that a permit would have which is this caller's header lines' alone.
    pub(super) fn own_permit_key(
        &self,
        settings: &Settings,
        headers: &HeaderMap,
        matched: &Matched<'_>,
    ) -> PermitKey {
        permit_of(settings, matched, settings.fill.shared.keyed_hashes.caller(&matched.route.identity, headers))
    }

    /// Forgets the permit of the last route: the caller is another one now, or another's.
    pub(super) fn forget_permit(&mut self) {
        self.permit = None;
    }

    /// Which form these lines ask for on this route, whose callers may ask for `shapes`.
    pub(crate) fn choice(&self, headers: &HeaderMap, route: RouteId, shapes: &Shapes) -> Option<Choice> {
        match &self.tail {
            Some(tail) if tail.route == route => tail.choice,
            _ => shapes.choice(headers),
        }
    }

    /// True if a read on this route is passed on whole ([`crate::routing::foreign`]).
    #[inline]
    pub(crate) fn is_foreign(&self, settings: &Settings, headers: &HeaderMap, matched: &Matched<'_>) -> bool {
        // Lines with a foreign header never get as far as to a key.
        let has_key = self.tail.as_ref().is_some_and(|tail| tail.route == matched.id);
        !has_key && has_foreign(&settings.fill.config.service, matched.route, headers)
    }

    /// The key of what `head` names, for this caller.
    #[inline]
    pub(crate) fn key<'b>(
        &mut self,
        settings: &Settings,
        buffer: &'b mut KeyBuffer,
        head: Head<'_>,
        matched: &Matched<'_>,
        choice: Option<Choice>,
        is_uncoded: bool,
    ) -> KeyRef<'b> {
        #[cfg(test)]
        CALLED.set(CALLED.get() + 1);
        let Head { path_and_query, headers, .. } = head;
        let has_tail =
            self.tail.as_ref().is_some_and(|tail| tail.route == matched.id && tail.is_uncoded == is_uncoded);
        if !has_tail {
            let Route { forward, identity, .. } = matched.route;
            let identity = if is_uncoded && !is_on(Guard::ShapeOfItsIdentity) {
                0
            } else {
                match self.claimant.on(matched.id).filter(|_| identity.claims().is_some()) {
                    Some(claimed) => claimed.0,
                    None => settings.fill.shared.keyed_hashes.owner(identity, headers).0,
                }
            };
            let is_form_known = !matches!(choice, None | Some(Choice::AsNamed));
            let route = matched.id;
            let parts =
                Representation { route, path_and_query, headers, forward, is_form_known, is_uncoded, identity };
            self.tail = Some(Tail { route, choice, is_uncoded, bytes: buffer.tail(parts).into() });
        }
        buffer.routed_with(path_and_query, self.tail.as_ref().map_or(&[], |tail| &tail.bytes))
    }

    /// `entry` as this caller gets it, asked for with `head`.
    pub(crate) fn shown(&self, head: Head<'_>, entry: &Arc<Entry>, age: Option<u64>, line: CacheLine) -> Shown {
        let not_modified = self.is_conditional && rfc9111::not_modified(head.headers, entry);
        let head = *head.method == Method::HEAD;
        Shown { entry: entry.clone(), instead: None, age, not_modified, head, cookies: Cookies::NONE, line }
    }
}

/// Key of a caller's permit for the view that the route shows.
fn permit_of(settings: &Settings, matched: &Matched<'_>, caller: Identity) -> PermitKey {
    settings.fill.shared.keyed_hashes.permit(matched.id, caller, matched.route.view()).into()
}

/// Form of the sidecar's own answers: where some route has a message, callers of Protobuf get that
/// form.
pub(super) fn by_accept(settings: &Settings, headers: &HeaderMap) -> Option<ByAccept> {
    settings.has_messages.then(|| ByAccept {
        protobuf: match Choice::of(headers) {
            Choice::Protobuf { media_type, .. } => Some(media_type),
            Choice::Json | Choice::AsNamed => None,
        },
    })
}

#[cfg(test)]
thread_local! {
    /// Number of this thread's calls of [`Caller::key`].
    pub(crate) static CALLED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
