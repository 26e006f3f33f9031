//! What a request's header lines ask for, whatever the path. A caller repeats its header lines, so
//! a connection keeps a [`Caller`] from one request to the next and makes a new one when the lines
//! change ([`crate::core::fast_path::plain`]). It depends only on the lines and the configuration,
//! and neither changes while it is kept.

use std::sync::Arc;

use http::{HeaderMap, Method, header};

use super::Core;
use crate::cache::entry::Entry;
use crate::cache::key::{KeyBuffer, KeyRef, Representation};
use crate::cache::rfc9111::{self, Handling, RequestDirectives};
use crate::config::Route;
use crate::core::answer::{ByAccept, CacheLine, Cookies, Shown};
use crate::core::router::Matched;
use crate::core::shape::Shapes;
use crate::engine::guard::{Guard, is_on};
use crate::http::admission::Head;
use crate::payload::accept::Choice;

#[derive(Clone)]
pub struct Caller {
    /// Whether a GET or HEAD with these lines may be answered from the store.
    pub(crate) is_cached: bool,
    /// What the caller asks of caches.
    pub(crate) wish: RequestDirectives,
    /// The caller already has a copy and names it.
    pub(crate) is_conditional: bool,
    /// Only a range keeps a GET or HEAD with these lines from the store.
    pub(crate) is_ranged: bool,
    /// What these lines add to the keys of the last route's representations.
    tail: Option<Tail>,
}

/// What a caller's lines mean on one route.
#[derive(Clone)]
struct Tail {
    /// The route's id.
    route: u16,
    /// On a route with a message: which form they ask for.
    choice: Option<Choice>,
    is_identity: bool,
    bytes: Box<[u8]>,
}

impl Caller {
    pub fn of(headers: &HeaderMap) -> Self {
        let is_cached = rfc9111::way(&Method::GET, headers) == Handling::Cached;
        Self {
            is_cached,
            is_ranged: !is_cached && rfc9111::is_only_ranged(headers),
            wish: RequestDirectives::of(headers),
            is_conditional: headers.contains_key(header::IF_NONE_MATCH)
                || headers.contains_key(header::IF_MODIFIED_SINCE),
            tail: None,
        }
    }

    /// Which form these lines ask for on this route, whose callers may ask for `shapes`.
    pub(crate) fn choice(&self, headers: &HeaderMap, route: u16, shapes: &Shapes) -> Option<Choice> {
        match &self.tail {
            Some(tail) if tail.route == route => tail.choice,
            _ => shapes.choice(headers),
        }
    }

    /// Whether a read on this route is passed on whole ([`super::foreign`]).
    #[inline]
    pub(crate) fn is_foreign(&self, core: &Core, headers: &HeaderMap, matched: &Matched<'_>) -> bool {
        // Lines with a foreign header never get as far as to a key.
        let has_key = self.tail.as_ref().is_some_and(|tail| tail.route == matched.id);
        !has_key && core.has_foreign(matched.route, headers)
    }

    /// The key of what `head` names, for this caller.
    #[inline]
    pub(crate) fn key<'b>(
        &mut self,
        core: &Core,
        buffer: &'b mut KeyBuffer,
        head: Head<'_>,
        matched: &Matched<'_>,
        (choice, is_identity): (Option<Choice>, bool),
    ) -> KeyRef<'b> {
        #[cfg(test)]
        CALLED.set(CALLED.get() + 1);
        let Head { path_and_query, headers, .. } = head;
        let is_this = |tail: &Tail| tail.route == matched.id && tail.is_identity == is_identity;
        if !self.tail.as_ref().is_some_and(is_this) {
            let Route { forward, identity, .. } = matched.route;
            let identity = match is_identity && !is_on(Guard::ShapeOfItsIdentity) {
                true => 0,
                false => core.keyring.identity(identity, headers).0,
            };
            let is_form_known = !matches!(choice, None | Some(Choice::AsNamed));
            let route = matched.id;
            let parts =
                Representation { route, path_and_query, headers, forward, is_form_known, is_identity, identity };
            self.tail = Some(Tail { route, choice, is_identity, bytes: buffer.tail(parts).into() });
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

impl Core {
    /// Where some route has a message, callers of Protobuf get what the sidecar itself says in that
    /// form too.
    pub(super) fn told_by(&self, headers: &HeaderMap) -> Option<ByAccept> {
        let protobuf = || match Choice::of(headers) {
            Choice::Protobuf { media_type, .. } => Some(media_type),
            Choice::Json | Choice::AsNamed => None,
        };
        self.has_messages.then(|| ByAccept { protobuf: protobuf() })
    }
}

#[cfg(test)]
thread_local! {
    /// How often this thread called [`Caller::key`].
    pub(crate) static CALLED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
