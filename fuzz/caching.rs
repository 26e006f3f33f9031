//! Targets of what is decided about caching: keys, RFC 9111's words, and what a body says once it
//! is decoded.

use std::io::Write;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use nearside::cache::key::{AcceptEncoding, HashKey, KeyBuffer, Representation};
use nearside::cache::rfc9111::directives::{RequestDirectives, ResponseDirectives};
use nearside::cache::rfc9111::fields::{kept, updated, whole};
use nearside::cache::rfc9111::freshness::{initial_age, lifetime};
use nearside::cache::rfc9111::storing::{nominated, storable};
use nearside::http::exchange::Reply;
use nearside::model::ids::RegionId;
use nearside::model::time::{Moment, Wall};
use nearside::payload::digest;

/// A line, and headers under it.
struct Head<'a> {
    line: &'a [u8],
    headers: HeaderMap,
}

/// Two heads with an empty line between them; lines that are no header are left out.
fn two_heads(data: &[u8]) -> (Head<'_>, Head<'_>) {
    let mut heads = [Vec::new(), Vec::new()];
    let mut at = 0;
    for line in data.split(|byte| *byte == b'\n') {
        match line {
            b"" if at == 0 => at = 1,
            _ => heads[at].push(line),
        }
    }
    let [one, two] = heads.map(|lines| {
        let mut headers = HeaderMap::new();
        for line in lines.iter().skip(1) {
            let mut halves = line.splitn(2, |byte| *byte == b':');
            let name = halves.next().and_then(|name| HeaderName::from_bytes(name).ok());
            let value = halves.next().and_then(|value| HeaderValue::from_bytes(value).ok());
            if let (Some(name), Some(value)) = (name, value) {
                headers.append(name, value);
            }
        }
        Head { line: lines.first().copied().unwrap_or_default(), headers }
    });
    (one, two)
}

/// The values of a header as they count: line by line, without the space around them.
fn lines<'h>(head: &'h Head<'_>, name: &HeaderName) -> Vec<&'h [u8]> {
    head.headers.get_all(name).iter().map(|value| value.as_bytes().trim_ascii()).collect()
}

/// Two requests have the same key exactly when every part of it is the same.
pub(crate) fn key(data: &[u8]) {
    let (one, two) = two_heads(data);
    let (Ok(path), Ok(other)) = (std::str::from_utf8(one.line), std::str::from_utf8(two.line)) else { return };
    let same_path = path == other;
    let names = [HeaderName::from_static("x-tenant"), header::ACCEPT_LANGUAGE];
    let same_names = names.iter().all(|name| lines(&one, name) == lines(&two, name));
    let all_names = names_but_cookie(&one);
    let same_everything =
        all_names == names_but_cookie(&two) && all_names.iter().all(|name| lines(&one, name) == lines(&two, name));
    let same_accept = lines(&one, &header::ACCEPT) == lines(&two, &header::ACCEPT)
        && AcceptEncoding::of(&one.headers) == AcceptEncoding::of(&two.headers);
    let mut buffer = KeyBuffer::new(HashKey::fixed(7));
    let [ours, theirs] = [(path, &one), (other, &two)].map(|(path, head)| {
        let headers = &head.headers;
        let parts = Representation {
            route: nearside::model::ids::RouteId(1),
            path_and_query: path,
            headers,
            forward: &names,
            is_form_known: false,
            is_uncoded: false,
            identity: 5,
        };
        [
            buffer.routed(parts).to_key(),
            buffer.primary(path).to_key(),
            buffer.variant(path, &names, headers).to_key(),
            buffer.whole_request(&Method::GET, path, headers, &[header::COOKIE]).to_key(),
        ]
    });
    let same = [same_names && same_accept, true, same_names, same_everything].map(|same| same && same_path);
    for (at, key) in ours.iter().enumerate() {
        for (place, other) in theirs.iter().enumerate() {
            assert_eq!(key == other, at == place && same[at], "key {at} of one and key {place} of the other");
        }
    }
    let accepted = AcceptEncoding::of(&one.headers);
    let stated = accepted.header().map(|value| HeaderMap::from_iter([(header::ACCEPT_ENCODING, value)]));
    assert_eq!(AcceptEncoding::of(&stated.unwrap_or_default()), accepted);
}

/// Names of all headers but `Cookie`, in order.
fn names_but_cookie(head: &Head<'_>) -> Vec<HeaderName> {
    let mut names: Vec<_> = head.headers.keys().filter(|name| **name != header::COOKIE).cloned().collect();
    names.sort_unstable_by(|left, right| left.as_str().cmp(right.as_str()));
    names
}

/// A request and a reply (its first line is the status): nothing is stored that says plainly that
/// it must not be, and what is kept of it is for everybody.
pub(crate) fn policy(data: &[u8]) {
    let (request, reply) = two_heads(data);
    let status = StatusCode::from_bytes(reply.line.get(..3).unwrap_or_default()).unwrap_or(StatusCode::OK);
    let (asked, said) = (RequestDirectives::of(&request.headers), ResponseDirectives::of(&reply.headers));
    let received = Wall::from_millis(1_795_237_200_000);
    let (sent_at, received_at) = (Moment::from_nanos(1 << 40), Moment::from_nanos(1 << 41));
    initial_age(&reply.headers, sent_at, received_at, received);
    assert!(lifetime(&said, &reply.headers, received).is_none_or(|span| span.as_secs() < u64::MAX / 1000));
    let all = whole(&reply.headers, received);
    let shared = kept(&reply.headers, received);
    assert!(
        all.contains_key(header::DATE) && !all.contains_key(header::AGE) && !all.contains_key(header::CONNECTION)
    );
    assert!(shared.iter().all(|(name, value)| all.get_all(name).iter().any(|known| known == value)));
    assert!(said.private.fields().iter().all(|name| !shared.contains_key(name)));
    let merged = updated(&shared, &reply.headers, received);
    assert!(merged.keys().all(|name| shared.contains_key(name)), "an update by itself adds nothing");
    let vary = nominated(&reply.headers);
    assert!(vary.as_ref().is_none_or(|names| names.is_sorted_by(|left, right| left.as_str() < right.as_str())));
    let plain = words(&reply.headers);
    let reply = Reply {
        region: RegionId(0),
        status,
        headers: reply.headers,
        body: Bytes::new(),
        versions: Vec::new(),
        sent: sent_at,
        sent_wall: received,
        received: received_at,
        grants: None,
    };
    let Some(stored) = storable(&Method::GET, &request.headers, &reply) else { return };
    assert!(!asked.no_store && Some(&stored.vary) == vary.as_ref());
    if let Some(words) = plain {
        assert!(
            !says(&words, "private") && (!says(&words, "no-store") || says(&words, "must-understand")),
            "{words:?}"
        );
        let opened = says(&words, "public")
            || says(&words, "must-revalidate")
            || words.iter().any(|word| word.starts_with("s-maxage"));
        assert!(opened || !request.headers.contains_key(header::AUTHORIZATION), "{words:?}");
        assert!(!says(&words, "no-cache") || stored.always_validate, "{words:?}");
    }
    assert!(storable(&Method::POST, &request.headers, &reply).is_none());
}

/// The words of `Cache-Control`, read in the simplest way; `None` where quotes make that wrong.
fn words(headers: &HeaderMap) -> Option<Vec<String>> {
    let mut words = Vec::new();
    for line in headers.get_all(header::CACHE_CONTROL) {
        let line = String::from_utf8_lossy(line.as_bytes()).to_ascii_lowercase();
        if line.contains(['"', '\\']) {
            return None;
        }
        words.extend(line.split(',').map(|word| word.trim_matches([' ', '\t']).to_owned()));
    }
    Some(words)
}

/// The first byte says the codings, the rest is the body: whatever it is, it has one digest, and
/// that of what it says is the same behind any coding.
pub(crate) fn digest(data: &[u8]) {
    const CODINGS: [&str; 8] =
        ["gzip", "deflate", "br", "zstd", "gzip, br", "zstd, zstd, zstd", "identity, x-gzip", "unknown"];
    let Some((first, body)) = data.split_first() else { return };
    let body = Bytes::copy_from_slice(body);
    let headers = coded(CODINGS[usize::from(*first) % CODINGS.len()]);
    assert_eq!(digest::digest(&body, &headers), digest::digest(&body, &headers));
    let plain = digest::digest(&body, &HeaderMap::new());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&body).expect("a vector takes everything");
    let gzip = Bytes::from(gzip.finish().expect("a vector takes everything"));
    assert_eq!(digest::digest(&gzip, &coded("gzip")), plain);
}

fn coded(codings: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(header::CONTENT_ENCODING, HeaderValue::from_static(codings))])
}

fn says(words: &[String], word: &str) -> bool {
    words.iter().any(|known| known == word)
}
