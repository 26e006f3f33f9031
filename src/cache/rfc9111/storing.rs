//! Conditions for storing a reply for everybody (RFC 9111, 3 and 3.5), and the nominations of its
//! `Vary` (4.1).

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use super::directives::{Delta, Extent, RequestDirectives, ResponseDirectives};
use super::freshness;
use super::stored_facts::StoredFacts;
use super::validators::has_validator;
use crate::cache::limits;
use crate::http::exchange::Reply;

/// Returns the facts to keep about `reply` to a request of `method` with `headers`; `None` if it
/// must not be stored or could never be used.
///
/// This is stricter than the RFC in two places. A request or reply with cookies is stored only if
/// the reply says `public` or keeps its cookie out itself, because entries here serve every caller.
/// And a reply that states no lifetime is stored only if it can be validated, because there is no
/// heuristic.
pub fn storable(method: &Method, headers: &HeaderMap, reply: &Reply) -> Option<StoredFacts> {
    if *method != Method::GET || headers.contains_key(header::RANGE) || RequestDirectives::of(headers).no_store {
        return None;
    }
    let said = ResponseDirectives::of(&reply.headers);
    let may_status = is_final(reply.status) && (!said.must_understand || is_understood(reply.status));
    let refused = said.no_store && !said.must_understand || said.private == Extent::Everything;
    if !may_status || refused || !may_be_shared(&said, headers, &reply.headers) {
        return None;
    }
    let received = reply.sent_wall + reply.received.since(reply.sent);
    let lifetime = freshness::lifetime(&said, &reply.headers, received);
    let usable = lifetime.is_some_and(|lifetime| !lifetime.is_zero()) || has_validator(&reply.headers);
    let allowed = lifetime.is_some() || said.public || is_cacheable_by_default(reply.status);
    (usable && allowed).then_some(())?;
    Some(StoredFacts {
        lifetime: lifetime.unwrap_or_default(),
        always_validate: said.no_cache == Extent::Everything,
        never_stale: said.must_revalidate || said.proxy_revalidate || said.s_maxage != Delta::Absent,
        stale_if_error: said.stale_if_error.duration(std::time::Duration::ZERO),
        vary: nominated(&reply.headers)?,
    })
}

/// Section 3.5, and cookies.
fn may_be_shared(said: &ResponseDirectives, request: &HeaderMap, reply: &HeaderMap) -> bool {
    let said_so = said.public || said.must_revalidate || matches!(said.s_maxage, Delta::Seconds(_));
    let kept_out = [&said.private, &said.no_cache].iter().any(|extent| extent.fields().contains(&header::SET_COOKIE));
    let cookie = reply.contains_key(header::SET_COOKIE) && !kept_out;
    let with_cookies = cookie || request.contains_key(header::COOKIE);
    (said_so || !request.contains_key(header::AUTHORIZATION)) && (said.public || !with_cookies)
}

/// The request headers that `Vary` nominates, sorted, without duplicates. `None` for `*`, and for a
/// list that cannot be parsed or is too long: such a reply would never match.
pub fn nominated(headers: &HeaderMap) -> Option<Box<[HeaderName]>> {
    nominated_by(headers.get_all(header::VARY).iter().map(HeaderValue::as_bytes))
}

/// Like [`nominated`], from the lines of `Vary`.
pub fn nominated_by<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Box<[HeaderName]>> {
    let mut names = Vec::new();
    for line in lines {
        for name in line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            match name {
                b"" => {}
                b"*" => return None,
                _ => names.push(HeaderName::from_bytes(name).ok()?),
            }
        }
    }
    names.sort_unstable_by(|left, right| left.as_str().cmp(right.as_str()));
    names.dedup();
    (names.len() <= limits::VARY_NAMES).then(|| names.into_boxed_slice())
}

/// True if a reply is complete in itself: not a part (206, 3.3) and not about another reply (304,
/// 4.3.4).
fn is_final(status: StatusCode) -> bool {
    status.as_u16() >= 200 && !matches!(status, StatusCode::PARTIAL_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Statuses that may be stored without an explicit lifetime (RFC 9110, 15.1), except 206.
fn is_cacheable_by_default(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// Statuses whose caching rules this cache implements (5.2.2.3).
fn is_understood(status: StatusCode) -> bool {
    is_cacheable_by_default(status) || matches!(status.as_u16(), 302 | 303 | 307)
}
