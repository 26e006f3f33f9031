//! Which header fields of a reply are stored, and which of them a 304 or a HEAD's reply changes
//! (RFC 9111, 3.1, 3.2).

use http::{HeaderMap, HeaderValue, header};

use super::directives::ResponseDirectives;
use crate::http::fields::{OF_THE_BODY, end_to_end};
use crate::model::time::Wall;

/// A reply's headers as stored for one identity: end-to-end only, without `Age` (the entry counts
/// it), with a `Date` (RFC 9110, 6.6.1).
pub fn whole(headers: &HeaderMap, received: Wall) -> HeaderMap {
    let mut whole = end_to_end(headers);
    whole.remove(header::AGE);
    dated(&mut whole, received);
    whole
}

/// A reply's headers as stored for everybody: like [`whole`], without the fields that the reply
/// restricts to one caller or to validated use (5.2.2.4 and 5.2.2.7).
pub fn kept(headers: &HeaderMap, received: Wall) -> HeaderMap {
    let mut kept = whole(headers, received);
    withhold(&mut kept);
    kept
}

/// True if [`kept`] leaves out a field that the caller who asked must still get. Cookies do not
/// count: no entry holds them, and they reach the caller another way.
pub fn withholds(headers: &HeaderMap) -> bool {
    let said = ResponseDirectives::of(headers);
    let mut fields = said.private.fields().iter().chain(said.no_cache.fields());
    fields.any(|name| *name != header::SET_COOKIE && headers.contains_key(name))
}

fn withhold(headers: &mut HeaderMap) {
    let said = ResponseDirectives::of(headers);
    for name in said.private.fields().iter().chain(said.no_cache.fields()) {
        headers.remove(name);
    }
}

/// A stored reply's headers after a 304 or a HEAD's reply with the headers `update` (3.2), for
/// everybody.
pub fn updated(stored: &HeaderMap, update: &HeaderMap, received: Wall) -> HeaderMap {
    let mut merged = merged(stored, &kept(update, received));
    withhold(&mut merged);
    merged
}

/// Like [`updated`], for one identity.
pub fn updated_whole(stored: &HeaderMap, update: &HeaderMap, received: Wall) -> HeaderMap {
    merged(stored, &whole(update, received))
}

/// Each field of the update replaces all lines of its name, except the fields that describe the
/// stored bytes.
fn merged(stored: &HeaderMap, update: &HeaderMap) -> HeaderMap {
    let mut merged = stored.clone();
    for name in update.keys().filter(|name| !OF_THE_BODY.contains(name)) {
        merged.remove(name);
        for line in update.get_all(name) {
            merged.append(name.clone(), line.clone());
        }
    }
    merged
}

fn dated(headers: &mut HeaderMap, received: Wall) {
    if !headers.contains_key(header::DATE) {
        let text = httpdate::fmt_http_date(received.to_system_time());
        headers.insert(header::DATE, HeaderValue::from_str(&text).expect("an HTTP date is visible ASCII"));
    }
}
