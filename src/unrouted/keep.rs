//! Effects of a region's reply to an unrouted path on the store, and for those who asked.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};

use crate::cache::content::Content;
use crate::cache::entry::{Entry, Validity};
use crate::cache::key::{HashKey, KeyBuffer};
use crate::cache::rfc9111::{self, HeadEffect, Renewal, StoredFacts, fields};
use crate::cache::store::{Put, Store};
use crate::http::admission::Head;
use crate::http::exchange::{Outgoing, Reply};
use crate::model::time::Clock;
use crate::routing::headers::{ALONG, passed_headers};

/// The request that regions get for an unrouted path: all end-to-end headers except the caller's
/// own conditions, which the sidecar answers from the whole reply.
pub(crate) fn request(head: Head<'_>) -> Outgoing {
    let mut headers = passed_headers(head.headers);
    rfc9111::validators::unconditional(&mut headers);
    let (method, path_and_query) = (head.method.clone(), head.path_and_query.to_owned());
    Outgoing { method, path_and_query, headers, body: Bytes::new() }
}

/// Adds validators of what is stored (RFC 9111, 4.3.1).
pub(crate) fn conditional(request: &Arc<Outgoing>, previous: Option<&Arc<Entry>>) -> Arc<Outgoing> {
    let Some(previous) = previous.filter(|_| request.method == Method::GET) else {
        return request.clone();
    };
    let mut request = Outgoing::clone(request);
    rfc9111::validators::validate(&mut request.headers, &previous.headers());
    Arc::new(request)
}

/// Store of replies, its hash key and the clock.
pub(crate) struct Keeping<'s> {
    pub(crate) store: &'s Store,
    pub(crate) hash_key: HashKey,
    pub(crate) clock: &'s Clock,
}

/// A reply as it is served.
pub(crate) struct Kept {
    pub(crate) entry: Arc<Entry>,
    pub(crate) stored: bool,
    /// True if readers who joined may have it too, not only the first.
    pub(crate) shareable: bool,
}

impl Kept {
    fn of(entry: Arc<Entry>, stored: bool) -> Self {
        let shareable = stored && !varies_by_caller(&entry);
        Self { entry, stored, shareable }
    }
}

impl Keeping<'_> {
    /// Stores what may be stored of the reply to `request`, and says how to serve it; `None` for a
    /// 304 that is about another reply.
    pub(crate) fn keep(&self, request: &Outgoing, previous: Option<&Arc<Entry>>, reply: &Arc<Reply>) -> Option<Kept> {
        let headers = &request.headers;
        if request.method == Method::HEAD {
            if let Some(previous) = previous {
                match rfc9111::after_head(previous, headers, reply) {
                    HeadEffect::Store(entry) => drop(self.put(request, entry)),
                    HeadEffect::Remove => self.invalidate(request),
                    HeadEffect::Nothing => {}
                }
            }
            return Some(Kept::of(Arc::new(Entry::passing(reply)), false));
        }
        if let (StatusCode::NOT_MODIFIED, Some(previous)) = (reply.status, previous) {
            return match rfc9111::refreshed(previous, headers, reply) {
                Renewal::Store(entry) => {
                    let stored = self.put(request, entry.clone());
                    Some(Kept::of(entry, stored))
                }
                Renewal::ServeOnly(entry) => {
                    self.invalidate(request);
                    Some(Kept::of(entry, false))
                }
                Renewal::Mismatch => None,
            };
        }
        let Some(facts) = rfc9111::storable(&request.method, headers, reply) else {
            return Some(Kept::of(Arc::new(Entry::passing(reply)), false));
        };
        let entry = Arc::new(entry(reply, facts));
        let stored = self.put(request, entry.clone());
        if fields::withholds(&reply.headers) {
            // What is stored lacks the fields that are for the first reader alone (5.2.2.7).
            return Some(Kept { entry: Arc::new(Entry::passing(reply)), stored, shareable: false });
        }
        Some(Kept::of(entry, stored))
    }

    fn put(&self, request: &Outgoing, entry: Arc<Entry>) -> bool {
        let mut buffer = KeyBuffer::new(self.hash_key);
        let put = self.store.put_unrouted(&mut buffer, &request.path_and_query, &request.headers, &entry);
        matches!(put, Put::Stored)
    }

    fn invalidate(&self, request: &Outgoing) {
        self.store.invalidate(&mut KeyBuffer::new(self.hash_key), &request.path_and_query, self.clock.now());
    }
}

/// True if the reply varies by a header in which the callers of one shared fill may differ.
fn varies_by_caller(entry: &Entry) -> bool {
    entry.validity.unrouted().is_some_and(|facts| facts.vary.iter().any(|name| ALONG.contains(name)))
}

fn entry(reply: &Reply, facts: StoredFacts) -> Entry {
    let received = reply.sent_wall + reply.received.since(reply.sent);
    let content = Content::new(&fields::kept(&reply.headers, received), &reply.body);
    Entry::of(reply, content, Validity::Unrouted(facts))
}
