//! Effects of a 304 (RFC 9111, 4.3.4) or of the reply to a HEAD (4.3.5) on a stored reply.

use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode, header};

use super::storing::storable;
use super::validators::speaks_of;
use super::{fields, freshness};
use crate::cache::content::Content;
use crate::cache::entry::{Entry, Validity};
use crate::http::exchange::Reply;

/// Effect of a 304 on a stored reply.
#[derive(Debug)]
pub enum Renewal {
    /// Still valid: store this in its place and serve it.
    Store(Arc<Entry>),
    /// Still valid for this caller, but its new headers forbid storing it: serve this and remove
    /// what is stored.
    ServeOnly(Arc<Entry>),
    /// The 304 is about another reply: ask again without conditions.
    Mismatch,
}

/// Updates `entry` with the 304 `reply`, for a request with `headers`.
pub fn refreshed(entry: &Entry, headers: &HeaderMap, reply: &Reply) -> Renewal {
    if !speaks_of(&reply.headers, &entry.headers()) {
        return Renewal::Mismatch;
    }
    renewed(entry, headers, reply)
}

fn renewed(entry: &Entry, headers: &HeaderMap, reply: &Reply) -> Renewal {
    let received = reply.sent_wall + reply.received.since(reply.sent);
    let merged = fields::updated(&entry.headers(), &reply.headers, received);
    // Builds a whole reply as the region would have sent it, so that it is judged by the same rules
    // as any other.
    let whole = Reply { status: entry.status, headers: merged, body: entry.body(), ..reply.clone() };
    let stored = storable(&Method::GET, headers, &whole);
    let keep = stored.is_some();
    let entry = Arc::new(Entry {
        status: whole.status,
        content: Content::new(&whole.headers, &whole.body),
        region: reply.region,
        sent: reply.sent,
        age_at_receipt: freshness::initial_age(&reply.headers, reply.sent, reply.received, received).into(),
        derived: crate::cache::derived::Derived::NONE,
        json: Default::default(),
        validity: Validity::Unrouted(stored.unwrap_or_default()),
    });
    if keep { Renewal::Store(entry) } else { Renewal::ServeOnly(entry) }
}

/// Effect of a HEAD on the stored reply to GET.
#[derive(Debug)]
pub enum HeadEffect {
    /// Store this in its place: the representation is the same, with new headers.
    Store(Arc<Entry>),
    /// The representation has changed: remove what is stored.
    Remove,
    /// The reply allows no conclusion.
    Nothing,
}

/// The effect of the reply to a HEAD on `entry` (4.3.5). A 200 whose validators and length, where
/// given, match the stored reply freshens it; any other 200 shows that it is out of date.
pub fn after_head(entry: &Entry, headers: &HeaderMap, reply: &Reply) -> HeadEffect {
    if reply.status != StatusCode::OK || entry.status != StatusCode::OK {
        return HeadEffect::Nothing;
    }
    let fields = [header::ETAG, header::LAST_MODIFIED, header::CONTENT_LENGTH];
    let other_field = fields.iter().any(|name| match (reply.headers.get(name), entry.header(name)) {
        (Some(new), Some(old)) => old != new,
        (Some(_), None) => *name != header::CONTENT_LENGTH,
        (None, _) => false,
    });
    let length = reply.headers.get(header::CONTENT_LENGTH).and_then(|line| line.to_str().ok()?.trim().parse().ok());
    let other_length = length.is_some_and(|length: u64| length != entry.content.body_len() as u64);
    if other_field || other_length {
        return HeadEffect::Remove;
    }
    match renewed(entry, headers, reply) {
        Renewal::Store(entry) => HeadEffect::Store(entry),
        Renewal::ServeOnly(_) | Renewal::Mismatch => HeadEffect::Remove,
    }
}
