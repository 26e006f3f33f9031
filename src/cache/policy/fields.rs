//! Owns which header fields go along: those for the next hop only never do, and a stored reply keeps what it may.
//!
//! RFC 9110, 7.6.1; RFC 9111, 3.1 and 3.2. Used on requests and replies, routed and unrouted.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::directives::Said;
use crate::clock::Wall;

/// Fields for one connection only, whether `Connection` names them or not (RFC 9110, 7.6.1), and those between a proxy
/// and its neighbour (RFC 9111, 3.1).
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];
const PROXY_AUTHENTICATION_INFO: HeaderName = HeaderName::from_static("proxy-authentication-info");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// Fields that describe the stored bytes: a 304 does not change them (3.2).
const OF_THE_BODY: [HeaderName; 3] = [header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::CONTENT_RANGE];

/// `headers` without those for this hop only and those that `Connection` names.
pub fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    into_end_to_end(headers.clone())
}

/// The same of headers that nobody else needs.
pub fn into_end_to_end(mut headers: HeaderMap) -> HeaderMap {
    let lines = headers.get_all(header::CONNECTION).iter();
    let named = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii));
    let named: Vec<_> = named.filter_map(|name| HeaderName::from_bytes(name).ok()).collect();
    for name in named.iter().chain(&HOP_BY_HOP).chain([&PROXY_AUTHENTICATION_INFO, &HTTP2_SETTINGS]) {
        headers.remove(name);
    }
    headers
}

/// A reply's headers as an entry for one identity has them: end-to-end ones, without `Age` (the entry counts it), with
/// a `Date` (RFC 9110, 6.6.1).
pub fn whole(headers: &HeaderMap, received: Wall) -> HeaderMap {
    let mut whole = end_to_end(headers);
    whole.remove(header::AGE);
    dated(&mut whole, received);
    whole
}

/// The same for everybody: less the fields that the reply keeps to one caller or from unvalidated use (5.2.2.4 and
/// 5.2.2.7).
pub fn kept(headers: &HeaderMap, received: Wall) -> HeaderMap {
    let mut kept = whole(headers, received);
    withhold(&mut kept);
    kept
}

/// Whether [`kept`] leaves out a field that the caller who asked must still get. No entry holds a cookie: it goes another
/// way.
pub fn withholds(headers: &HeaderMap) -> bool {
    let said = Said::of(headers);
    let mut fields = said.private.fields().iter().chain(said.no_cache.fields());
    fields.any(|name| *name != header::SET_COOKIE && headers.contains_key(name))
}

fn withhold(headers: &mut HeaderMap) {
    let said = Said::of(headers);
    for name in said.private.fields().iter().chain(said.no_cache.fields()) {
        headers.remove(name);
    }
}

/// The headers of a stored reply after a 304, or a HEAD's reply, with `update` (3.2), for everybody.
pub fn updated(stored: &HeaderMap, update: &HeaderMap, received: Wall) -> HeaderMap {
    let mut merged = merged(stored, &kept(update, received));
    withhold(&mut merged);
    merged
}

/// The same for one identity.
pub fn updated_whole(stored: &HeaderMap, update: &HeaderMap, received: Wall) -> HeaderMap {
    merged(stored, &whole(update, received))
}

/// Every field of the update replaces all lines of its name, but for those that describe the stored bytes.
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

/// Whether a 304 made from a stored reply carries this field of it: validators and what caches need, nothing that
/// describes a body that is not there (RFC 9110, 15.4.5).
pub fn belongs_in_not_modified(name: &str) -> bool {
    let of_the_body = OF_THE_BODY.iter().chain(&[header::CONTENT_TYPE, header::CONTENT_LANGUAGE]);
    !of_the_body.into_iter().any(|left_out| left_out == name)
}
