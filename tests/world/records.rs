//! Responses of a region: turns a request and the region's records into status, headers and body,
//! without I/O. Two regions that hold the same versions send the same bytes.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use nearside_lab::chaos_server::reply::{ScriptedReply, VERSION_HEADER, problem};

/// The current state of a record, in the catalogue or in one region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredRecord {
    /// The newest version known here.
    pub(crate) version: u64,
    /// The record's JSON; `None` is a tombstone.
    pub(crate) value: Option<Bytes>,
}

/// The record type of everything in the catalogue.
pub(crate) const RECORD_TYPE: &str = "context";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptedRequest<'a> {
    /// `/v1/contexts/{key}` and `/v1/contexts/{key}/{view}`
    Context(&'a str, Option<&'a str>),
    /// `/v1/pairs/{left}/{right}`: two records at one URL.
    Pair(&'a str, &'a str),
    /// `/v1/about`: names no record.
    About,
    /// A path that does not exist.
    Nothing,
}

impl<'a> ScriptedRequest<'a> {
    pub(crate) fn read(path: &'a str) -> Self {
        let mut parts = path.strip_prefix("/v1/").unwrap_or("").split('/');
        let all = (parts.next(), parts.next(), parts.next(), parts.next());
        match all {
            (Some("contexts"), Some(key), None, None) if !key.is_empty() => Self::Context(key, None),
            (Some("contexts"), Some(key), Some(view), None) if !key.is_empty() && !view.is_empty() => {
                Self::Context(key, Some(view))
            }
            (Some("pairs"), Some(left), Some(right), None) if !left.is_empty() && !right.is_empty() => {
                Self::Pair(left, right)
            }
            (Some("about"), None, None, None) => Self::About,
            _ => Self::Nothing,
        }
    }
}

/// Answers a GET or HEAD; `look` finds a record as this region has it.
pub(crate) fn read(
    asked: ScriptedRequest<'_>,
    look: impl Fn(&str) -> Option<StoredRecord>,
    headers: &HeaderMap,
) -> ScriptedReply {
    match asked {
        ScriptedRequest::Context(key, view) => match look(key) {
            Some(StoredRecord { version, value: Some(value) }) => {
                let view = view.map(|view| format!(r#""view":{},"#, quoted(view))).unwrap_or_default();
                let head = format!(r#"{{"key":{},"version":{version},{view}"value":"#, quoted(key));
                let body = [head.as_bytes(), &value, b"}"];
                shown(&[version], body.concat(), headers)
            }
            Some(StoredRecord { version, value: None }) => absent(Some(version)),
            None => absent(None),
        },
        ScriptedRequest::Pair(left, right) => match (look(left), look(right)) {
            (
                Some(StoredRecord { version: one, value: Some(left) }),
                Some(StoredRecord { version: two, value: Some(right) }),
            ) => {
                let body = [&b"{\"left\":"[..], &left, b",\"right\":", &right, b"}"];
                shown(&[one, two], body.concat(), headers)
            }
            _ => absent(None),
        },
        ScriptedRequest::About => about(headers),
        ScriptedRequest::Nothing => problem(StatusCode::NOT_FOUND, "there is nothing at this path"),
    }
}

fn about(headers: &HeaderMap) -> ScriptedReply {
    let etag = HeaderValue::from_static("\"about-1\"");
    let mut reply = ScriptedReply::json(StatusCode::OK, br#"{"service":"contexts","api":"v1"}"#.to_vec());
    reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=60"));
    unless_known(reply, etag, headers)
}

fn shown(versions: &[u64], body: Vec<u8>, headers: &HeaderMap) -> ScriptedReply {
    let text = versions.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let mut reply = ScriptedReply::json(StatusCode::OK, body);
    reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, max-age=5"));
    reply.version = versions.first().copied();
    reply.headers.insert(VERSION_HEADER, header(&text));
    unless_known(reply, header(&format!("\"v{}\"", text.replace(',', "-"))), headers)
}

fn absent(version: Option<u64>) -> ScriptedReply {
    let mut reply = ScriptedReply::json(StatusCode::NOT_FOUND, br#"{"title":"no such record"}"#.to_vec());
    reply.version = version;
    if let Some(version) = version {
        reply.headers.insert(VERSION_HEADER, HeaderValue::from(version));
    }
    reply
}

/// 304 if the caller already holds what `etag` stands for (RFC 9110 section 13.1.2).
fn unless_known(mut reply: ScriptedReply, etag: HeaderValue, headers: &HeaderMap) -> ScriptedReply {
    let known = headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|one| one == "*" || one.trim_start_matches("W/").as_bytes() == etag.as_bytes());
    reply.headers.insert(ETAG, etag);
    if known {
        reply.status = StatusCode::NOT_MODIFIED;
        reply.headers.remove(CONTENT_TYPE);
        reply.body = Bytes::new();
    }
    reply
}

fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("digits, commas and quotes are valid in a header")
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
