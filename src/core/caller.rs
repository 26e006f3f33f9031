//! Owns what a request's header lines come to, whatever path they come with.
//!
//! Before it: a request was admitted. After it: [`crate::core::lookup::stored`] looks up by it. A caller repeats its header lines, so a
//! connection keeps this from one request to the next and works it out anew when the lines change
//! ([`crate::core::fast_path::plain`]). Invariant: it depends on the lines and the configuration alone, and neither of them changes
//! while it is kept.

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

/// What some header lines ask for.
#[derive(Clone)]
pub struct Caller {
    /// A GET or HEAD with these may be answered from the store.
    pub(crate) is_cached: bool,
    /// What is asked of caches.
    pub(crate) wish: RequestDirectives,
    /// The caller has a copy already, and says which.
    pub(crate) is_conditional: bool,
    /// The last route's id, and what these lines add to the keys of its representations.
    tail: Option<(u16, Box<[u8]>)>,
}

impl Caller {
    /// What `headers` ask for.
    pub fn of(headers: &HeaderMap) -> Self {
        Self {
            is_cached: rfc9111::way(&Method::GET, headers) == Handling::Cached,
            wish: RequestDirectives::of(headers),
            is_conditional: headers.contains_key(header::IF_NONE_MATCH)
                || headers.contains_key(header::IF_MODIFIED_SINCE),
            tail: None,
        }
    }

    /// The key of what `head` names, for its sender.
    pub(crate) fn key<'b>(
        &mut self,
        core: &Core,
        buffer: &'b mut KeyBuffer,
        head: Head<'_>,
        matched: &Matched<'_>,
    ) -> KeyRef<'b> {
        let Head { path_and_query, headers, .. } = head;
        if self.tail.as_ref().is_none_or(|(route, _)| *route != matched.id) {
            let Route { forward, identity, .. } = matched.route;
            let identity = core.keyring.identity(identity, headers).0;
            let parts = Representation { route: matched.id, path_and_query, headers, forward, identity };
            self.tail = Some((matched.id, buffer.tail(parts).into()));
        }
        buffer.routed_with(path_and_query, self.tail.as_ref().map_or(&[], |(_, tail)| tail))
    }

    /// `entry` for the sender of these lines, asked for with `head`.
    pub(crate) fn shown(&self, head: Head<'_>, entry: &Arc<Entry>, age: Option<u64>, line: CacheLine) -> Shown {
        let not_modified = self.is_conditional && rfc9111::not_modified(head.headers, entry);
        let head = *head.method == Method::HEAD;
        Shown { entry: entry.clone(), age, not_modified, head, cookies: Cookies::NONE, line }
    }
}
