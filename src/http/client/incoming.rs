//! Takes in what a region sends: a body under its limits, the versions that it states, what an
//! error means. Never more than the limit is held, and a body shorter than announced is no body.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use crate::config::limits::RECORDS_PER_ROUTE;
use crate::http::bodies::{ByteBudget, Gathering, NotRead};
use crate::http::client::http1_pool::{self, Http1Connection};
use crate::http::exchange::Failure;
use crate::http::limits::{REPLY_HEAD_BYTES, STREAM_CHUNK_WAIT};
use crate::model::ids::Version;

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
/// Digits of a length that any program can hold.
const MOST_DIGITS: usize = 18;
/// The name under which a region's own node of Nearside stands in `Cache-Status`.
pub(crate) const UPSTREAM_NAME: &str = "upstream-nearside";

/// Reads a reply's head as RFC 9110 and 9112 have it, for any recipient: one `Content-Length` of
/// digits or none, and no coding of the transfer that would be left on the body.
///
/// # Errors
/// [`Failure::Garbage`] for a 1xx that nobody asked for, for a status that no class of RFC 9110 (15)
/// has, and for a transfer coding other than one `chunked`: the bytes behind it are not the content.
pub(crate) fn read_head(status: StatusCode, headers: &mut HeaderMap) -> Result<(), Failure> {
    let is_framed = headers.contains_key(header::TRANSFER_ENCODING);
    let codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let mut codings = codings.flat_map(|line| line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii));
    let mut is_chunked = false;
    // Chunks in chunks would leave the inner ones on the body (RFC 9112, 6.1).
    let is_coded = codings.any(|coding| {
        if coding.eq_ignore_ascii_case(b"chunked") {
            std::mem::replace(&mut is_chunked, true)
        } else {
            !coding.eq_ignore_ascii_case(b"identity")
        }
    });
    if status.is_informational() || status.as_u16() > 599 || is_coded {
        return Err(Failure::Garbage);
    }
    if headers.contains_key(CACHE_STATUS) {
        rename_own_status(headers);
    }
    let Some(stated) = headers.get(header::CONTENT_LENGTH) else { return Ok(()) };
    let is_plain = (1..=MOST_DIGITS).contains(&stated.len())
        && stated.as_bytes().iter().all(u8::is_ascii_digit)
        && headers.get_all(header::CONTENT_LENGTH).iter().count() == 1;
    if is_plain && !is_framed && status != StatusCode::NO_CONTENT {
        return Ok(());
    }
    let length = one_length(headers).filter(|_| !is_framed && status != StatusCode::NO_CONTENT);
    headers.remove(header::CONTENT_LENGTH);
    headers.extend(length.map(|length| (header::CONTENT_LENGTH, HeaderValue::from(length))));
    Ok(())
}

/// Gives another name to what a region says in `Cache-Status` under this sidecar's own: a caller who
/// reads the first line would take it for ours.
fn rename_own_status(headers: &mut HeaderMap) {
    let lines: Vec<HeaderValue> = headers.get_all(CACHE_STATUS).iter().cloned().collect();
    if !lines.iter().any(|line| members(line.as_bytes()).into_iter().any(names_us)) {
        return;
    }
    headers.remove(CACHE_STATUS);
    for line in lines {
        let renamed: Vec<_> = members(line.as_bytes()).into_iter().map(renamed).collect();
        headers.extend(HeaderValue::from_bytes(&renamed.join(&b", "[..])).ok().map(|line| (CACHE_STATUS, line)));
    }
}

fn renamed(member: &[u8]) -> Vec<u8> {
    let member = member.trim_ascii();
    if !names_us(member) {
        return member.to_vec();
    }
    let name = member.split(|byte| *byte == b';').next().unwrap_or_default().len();
    [UPSTREAM_NAME.as_bytes(), &member[name..]].concat()
}

/// The members of a list, whose commas may stand in strings too (RFC 9651, 3.1).
fn members(line: &[u8]) -> Vec<&[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    let split = line.split(move |byte| {
        let was_escaped = std::mem::take(&mut escaped);
        match byte {
            b'\\' if quoted && !was_escaped => escaped = true,
            b'"' if !was_escaped => quoted = !quoted,
            _ => {}
        }
        *byte == b',' && !quoted
    });
    split.collect()
}

/// True if a member of `Cache-Status` is by a cache of our name, which may be a token or a string.
fn names_us(member: &[u8]) -> bool {
    let name = member.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let name = name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or(name);
    name.eq_ignore_ascii_case(b"nearside")
}

/// The length that every member of every `Content-Length` line states (RFC 9110, 8.6).
fn one_length(headers: &HeaderMap) -> Option<u64> {
    let lines = headers.get_all(header::CONTENT_LENGTH).iter();
    let mut lengths = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).map(|length| {
        let digits = std::str::from_utf8(length.trim_ascii()).ok()?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok())?
    });
    let first = lengths.next()??;
    lengths.all(|length| length == Some(first)).then_some(first)
}

/// Reads the whole body. A `Content-Length` beyond the limit is refused before anything is read. A
/// body that comes in one read is not copied; one that is put together is reserved from `budget`
/// meanwhile.
pub(crate) async fn whole(mut body: Incoming, limit: usize, budget: &Arc<ByteBudget>) -> Result<Bytes, Failure> {
    if body.size_hint().lower() > limit as u64 {
        return Err(Failure::Oversized { limit: limit as u64, announced: true });
    }
    let length = body.size_hint().exact();
    let mut first = Bytes::new();
    let mut joined: Option<Gathering> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| failure_in(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        if joined.is_none() && first.is_empty() {
            if data.len() > limit {
                return Err(not_read(NotRead::TooLarge, limit));
            }
            first = data;
            continue;
        }
        if joined.is_none() {
            // Not above the limit, as checked above.
            let mut gathering = Gathering::new(length.map_or(limit, |length| length as usize), budget);
            if length.is_some() {
                gathering.make_room().map_err(|why| not_read(why, limit))?;
            }
            gathering.push(std::mem::take(&mut first)).map_err(|why| not_read(why, limit))?;
            joined = Some(gathering);
        }
        if let Some(gathering) = &mut joined {
            gathering.push(data).map_err(|why| not_read(why, limit))?;
        }
    }
    Ok(joined.map_or(first, Gathering::release))
}

fn not_read(why: NotRead, limit: usize) -> Failure {
    match why {
        NotRead::NoRoom => Failure::NoRoom,
        NotRead::TooLarge | NotRead::Broken => Failure::Oversized { limit: limit as u64, announced: false },
    }
}

/// A body's chunks as they come, each within [`STREAM_CHUNK_WAIT`]. At its end, the connection that
/// it came over is `freed`. If the length is known that is with the last chunk: a reader that has
/// all of it does not come back for the end.
pub(crate) fn chunks(
    body: Incoming,
    mut line: Option<Http1Connection>,
    freed: impl Fn(Http1Connection) + Send + 'static,
) -> impl futures_util::Stream<Item = Result<Bytes, Failure>> + Send + 'static {
    if body.is_end_stream() {
        line.take().into_iter().for_each(&freed);
    }
    stream::unfold(Some((body, line, freed)), |source| async move {
        let (mut body, mut line, freed) = source?;
        loop {
            let frame = http1_pool::driven(&mut line, body.frame());
            let frame = match tokio::time::timeout(STREAM_CHUNK_WAIT, frame).await {
                Err(_) => return Some((Err(Failure::Deadline { within: STREAM_CHUNK_WAIT, head: true }), None)),
                Ok(None) => {
                    line.into_iter().for_each(freed);
                    return None;
                }
                Ok(Some(Err(error))) => return Some((Err(failure_in(&error)), None)),
                Ok(Some(Ok(frame))) => frame,
            };
            if let Ok(data) = frame.into_data() {
                if body.is_end_stream() {
                    line.take().into_iter().for_each(&freed);
                }
                return Some((Ok(data), Some((body, line, freed))));
            }
        }
    })
}

/// Failure of the region by a client's error.
pub(crate) fn failure_in(error: &hyper::Error) -> Failure {
    if error.is_parse_too_large() {
        Failure::Oversized { limit: REPLY_HEAD_BYTES as u64, announced: false }
    } else if error.is_parse() {
        Failure::Garbage
    } else {
        Failure::Truncated
    }
}

/// An error with its causes, for the log.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// The versions that a reply states: one number, or several separated by commas in the order of the
/// route's records. None if any of it is not a number.
pub(crate) fn versions(headers: &HeaderMap, name: &HeaderName) -> Vec<Version> {
    let mut versions = Vec::new();
    for value in headers.get_all(name) {
        for number in value.to_str().unwrap_or_default().split(',') {
            match number.trim().parse() {
                Ok(number) if versions.len() < RECORDS_PER_ROUTE => versions.push(Version(number)),
                _ => return Vec::new(),
            }
        }
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths that remain of those which a head of this status states.
    fn lengths_left(status: u16, stated: &[(&'static str, &'static str)]) -> Vec<String> {
        let lines = stated.iter();
        let mut headers: HeaderMap =
            lines.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect();
        read_head(StatusCode::from_u16(status).unwrap(), &mut headers).unwrap();
        let lines = headers.get_all(header::CONTENT_LENGTH).iter();
        lines.map(|line| line.to_str().unwrap().to_owned()).collect()
    }

    fn length(value: &'static str) -> (&'static str, &'static str) {
        ("content-length", value)
    }

    #[test]
    fn content_length_is_collapsed_to_one() {
        for same in [&[length("2")][..], &[length("2, 2")], &[length("2"), length("2")], &[length("2 ,02")]] {
            assert_eq!(lengths_left(200, same), ["2"], "{same:?}");
        }
        for none in [
            &[length("2, 3")][..],
            &[length("+2")],
            &[length("-2")],
            &[length("2,")],
            &[length("")],
            &[length("99999999999999999999")],
        ] {
            assert!(lengths_left(304, none).is_empty(), "{none:?}");
        }
        assert!(lengths_left(200, &[length("2"), ("transfer-encoding", "chunked")]).is_empty());
        assert!(lengths_left(204, &[length("2")]).is_empty());
    }

    #[test]
    fn unexpected_101_or_coding_is_garbage() {
        for (status, coding) in [
            (101, "chunked"),
            (200, "gzip, chunked"),
            (200, "gzip"),
            (200, "chunked, deflate"),
            (200, "chunked, chunked"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static(coding));
            let read = read_head(StatusCode::from_u16(status).unwrap(), &mut headers);
            assert!(matches!(read, Err(Failure::Garbage)), "{status} {coding}");
        }
    }

    #[test]
    fn own_cache_status_name_is_renamed() {
        for (stated, renamed) in [
            (&["nearside; hit; ttl=9"][..], &["upstream-nearside; hit; ttl=9"][..]),
            (&["Origin; hit, nearside;hit"], &["Origin; hit, upstream-nearside;hit"]),
            (&["\"nearside\"; hit", "NearSide"], &["upstream-nearside; hit", "upstream-nearside"]),
            (&["cdn; detail=\"a, nearside; hit\""], &["cdn; detail=\"a, nearside; hit\""]),
            (&["cdn; detail=\"\\\", nearside\", nearside"], &["cdn; detail=\"\\\", nearside\", upstream-nearside"]),
            (&["nearside-eu; hit", "cdn,  x"], &["nearside-eu; hit", "cdn,  x"]),
        ] {
            let lines = stated.iter().map(|line| (CACHE_STATUS, HeaderValue::from_static(line)));
            let mut headers: HeaderMap = lines.collect();
            read_head(StatusCode::OK, &mut headers).unwrap();
            let got: Vec<_> = headers.get_all(CACHE_STATUS).iter().map(|line| line.to_str().unwrap()).collect();
            assert_eq!(got, renamed);
        }
    }

    fn versions_of(values: &[&str]) -> Vec<u64> {
        let name = HeaderName::from_static("x-record-version");
        let headers = values.iter().map(|value| (name.clone(), value.parse().unwrap())).collect();
        versions(&headers, &name).iter().map(|version| version.0).collect()
    }

    #[test]
    fn versions_match_record_order_or_none() {
        assert_eq!(versions_of(&["7"]), [7]);
        assert_eq!(versions_of(&["7, 8,9"]), [7, 8, 9]);
        assert_eq!(versions_of(&["7", "8"]), [7, 8]);
        for nonsense in ["", "seven", "7,", "-1", "1.5", "99999999999999999999", "1,1,1,1,1,1,1,1,1"] {
            assert!(versions_of(&[nonsense]).is_empty(), "{nonsense}");
        }
    }
}
