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
use crate::core::answer::{CacheLine, Cookies, Shown};
use crate::core::router::Matched;
use crate::http::admission::Head;

#[derive(Clone)]
pub struct Caller {
    /// Whether a GET or HEAD with these lines may be answered from the store.
    pub(crate) is_cached: bool,
    /// What the caller asks of caches.
    pub(crate) wish: RequestDirectives,
    /// The caller already has a copy and names it.
    pub(crate) is_conditional: bool,
    /// The last route's id, and what these lines add to the keys of its representations.
    tail: Option<(u16, Box<[u8]>)>,
}

impl Caller {
    pub fn of(headers: &HeaderMap) -> Self {
        Self {
            is_cached: rfc9111::way(&Method::GET, headers) == Handling::Cached,
            wish: RequestDirectives::of(headers),
            is_conditional: headers.contains_key(header::IF_NONE_MATCH)
                || headers.contains_key(header::IF_MODIFIED_SINCE),
            tail: None,
        }
    }

    /// The key of what `head` names, for this caller.
    pub(crate) fn key<'b>(
        &mut self,
        core: &Core,
        buffer: &'b mut KeyBuffer,
        head: Head<'_>,
        matched: &Matched<'_>,
    ) -> KeyRef<'b> {
        #[cfg(test)]
        CALLED.set(CALLED.get() + 1);
        let Head { path_and_query, headers, .. } = head;
        if self.tail.as_ref().is_none_or(|(route, _)| *route != matched.id) {
            let Route { forward, identity, .. } = matched.route;
            let identity = core.keyring.identity(identity, headers).0;
            let parts = Representation { route: matched.id, path_and_query, headers, forward, identity };
            self.tail = Some((matched.id, buffer.tail(parts).into()));
        }
        buffer.routed_with(path_and_query, self.tail.as_ref().map_or(&[], |(_, tail)| tail))
    }

    /// `entry` as this caller gets it, asked for with `head`.
    pub(crate) fn shown(&self, head: Head<'_>, entry: &Arc<Entry>, age: Option<u64>, line: CacheLine) -> Shown {
        let not_modified = self.is_conditional && rfc9111::not_modified(head.headers, entry);
        let head = *head.method == Method::HEAD;
        Shown { entry: entry.clone(), age, not_modified, head, cookies: Cookies::NONE, line }
    }
}

#[cfg(test)]
thread_local! {
    /// How often this thread called [`Caller::key`].
    pub(crate) static CALLED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
