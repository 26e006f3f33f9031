//! Parts of a request: conditions, an idempotency key, a body, the parts of a batch.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, header};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::fields::X_REQUEST_ID;
use super::refused::RequestRefused;
use crate::catalogue::author::{Reason, RequestId, Writer};
use crate::catalogue::error::CatalogueError;
use crate::catalogue::limits::{PAGE_MOST_RECORDS, PAGE_RECORDS};
use crate::catalogue::preconditions::{Preconditions, Tags};
use crate::catalogue::record::RecordWrite;
use crate::catalogue::remembered::IdempotencyKey;
use crate::http::bodies::{self, ByteBudget};
use crate::http::limits::REQUEST_BODY_WAIT;

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const X_CHANGE_REASON: HeaderName = HeaderName::from_static("x-change-reason");

/// `If-Match` and `If-None-Match`. Tags that are no versions are those of nothing here.
///
/// # Errors
/// [`RequestRefused::Header`].
pub(super) fn preconditions(headers: &HeaderMap) -> Result<Preconditions, RequestRefused> {
    Ok(Preconditions {
        // Weak tags never match here (RFC 9110, 13.1.1), and always there (13.1.2).
        matches: tags(headers, header::IF_MATCH, "If-Match", false)?,
        none_match: tags(headers, header::IF_NONE_MATCH, "If-None-Match", true)?,
    })
}

fn tags(
    headers: &HeaderMap,
    name: HeaderName,
    called: &'static str,
    weak: bool,
) -> Result<Option<Tags>, RequestRefused> {
    let (mut any, mut versions) = (false, Vec::new());
    let mut tags = 0_usize;
    for value in headers.get_all(&name) {
        let mut rest = value.as_bytes();
        loop {
            // Members may be empty (RFC 9110, 5.6.1).
            rest = rest.trim_ascii_start();
            match rest {
                [] => break,
                [b',', after @ ..] => {
                    rest = after;
                    continue;
                }
                [b'*', after @ ..] => (any, rest) = (true, after),
                _ => {
                    let (tag, after) = EntityTag::read(rest).ok_or(RequestRefused::Header(called))?;
                    versions.extend(tag.version().filter(|_| weak || !tag.is_weak));
                    rest = after;
                }
            }
            tags += 1;
            rest = rest.trim_ascii_start();
            if !rest.is_empty() && !rest.starts_with(b",") {
                return Err(RequestRefused::Header(called));
            }
        }
    }
    match (any, tags) {
        // An empty list would be one that holds for nothing, or for everything: more likely a
        // fault.
        (_, 0) if headers.contains_key(name) => Err(RequestRefused::Header(called)),
        (_, 0) => Ok(None),
        (true, 1) => Ok(Some(Tags::Any)),
        (true, _) => Err(RequestRefused::Header(called)),
        (false, _) => Ok(Some(Tags::These(versions))),
    }
}

/// An entity tag (RFC 9110, 8.8.3): what is between its quotes may be anything, commas too.
struct EntityTag<'a> {
    is_weak: bool,
    opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// The tag that `text` begins with, and what follows it.
    fn read(text: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (is_weak, quoted) = text.strip_prefix(b"W/").map_or((false, text), |quoted| (true, quoted));
        let quoted = quoted.strip_prefix(b"\"")?;
        let end = quoted.iter().position(|byte| *byte == b'"')?;
        let (opaque, after) = (&quoted[..end], &quoted[end + 1..]);
        opaque.iter().all(|byte| !matches!(byte, 0..=0x20 | 0x7f)).then_some((Self { is_weak, opaque }, after))
    }

    /// The version that it states, if it is one of ours.
    fn version(&self) -> Option<u64> {
        let text = std::str::from_utf8(self.opaque).ok()?;
        text.parse::<u64>().ok().filter(|version| version.to_string() == text)
    }
}

/// `Idempotency-Key`, of this writer.
///
/// # Errors
/// [`RequestRefused::Header`], [`CatalogueError::BadIdempotencyKey`].
pub(super) fn idempotency_key(
    headers: &HeaderMap,
    writer: &Writer,
) -> Result<Option<IdempotencyKey>, RequestRefused> {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = keys.next() else { return Ok(None) };
    if keys.next().is_some() {
        return Err(RequestRefused::Header("Idempotency-Key"));
    }
    let key = key.to_str().map_err(|_| CatalogueError::BadIdempotencyKey)?;
    Ok(Some(IdempotencyKey::new(&writer.to_string(), key)?))
}

/// `X-Change-Reason`, as UTF-8.
///
/// # Errors
/// [`RequestRefused::Reason`].
pub(super) fn reason(headers: &HeaderMap) -> Result<Option<Reason>, RequestRefused> {
    let mut reasons = headers.get_all(X_CHANGE_REASON).iter();
    let Some(reason) = reasons.next() else { return Ok(None) };
    let reason = std::str::from_utf8(reason.as_bytes()).ok().and_then(Reason::of);
    reason.filter(|_| reasons.next().is_none()).map(Some).ok_or(RequestRefused::Reason)
}

/// `X-Request-Id`, or a name of our own where there is none that can be quoted.
pub(super) fn request_id(headers: &HeaderMap) -> RequestId {
    let mut ids = headers.get_all(X_REQUEST_ID).iter();
    let named = ids.next().and_then(|id| RequestId::of(id.to_str().ok()?));
    named.filter(|_| ids.next().is_none()).unwrap_or_else(RequestId::drawn)
}

/// A JSON body of at most `most` bytes. It takes its part of `held` until its last handle is gone.
///
/// # Errors
/// [`RequestRefused`].
pub(super) async fn json_body(
    headers: &HeaderMap,
    body: Body,
    most: usize,
    held: &Arc<ByteBudget>,
) -> Result<Bytes, RequestRefused> {
    let stated = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    // Without the line a page of another site could send it unasked.
    let is_json = stated.is_some_and(|stated| {
        stated.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
    });
    if !is_json || headers.contains_key(header::CONTENT_ENCODING) {
        return Err(RequestRefused::NotJson);
    }
    let read = tokio::time::timeout(REQUEST_BODY_WAIT, bodies::whole(body, most, held)).await;
    read.map_err(|_| RequestRefused::SlowBody)?.map_err(|why| RequestRefused::unread(why, most))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch<'a> {
    #[serde(borrow)]
    writes: Vec<BatchPart<'a>>,
}

/// One record of a batch: with `body` it is put, without it deleted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct BatchPart<'a> {
    method: Method,
    #[serde(rename = "type")]
    record_type: String,
    key: String,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    if_version: Option<u64>,
    #[serde(default)]
    if_absent: bool,
}

#[derive(Deserialize, PartialEq)]
enum Method {
    #[serde(rename = "PUT")]
    Put,
    #[serde(rename = "DELETE")]
    Delete,
}

/// # Errors
/// [`CatalogueError::BadBatch`] with the place, and no word of what is there.
pub(super) fn batch(body: &[u8]) -> Result<Vec<RecordWrite>, CatalogueError> {
    let batch: Batch<'_> = serde_json::from_slice(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let known = "GET /openapi.json describes a batch";
        CatalogueError::BadBatch(format!("line {line}, column {column}: not what a batch has there; {known}"))
    })?;
    batch.writes.into_iter().enumerate().map(|(at, part)| write_of(at, part)).collect()
}

/// The write that a batch's part asks for.
fn write_of(at: usize, part: BatchPart<'_>) -> Result<RecordWrite, CatalogueError> {
    let only_if = match (part.if_version, part.if_absent) {
        (Some(_), true) => return Err(bad_part(at, "`ifVersion` and `ifAbsent` cannot both hold")),
        (Some(version), false) => Preconditions::version_is(version),
        (None, true) => Preconditions::absent(),
        (None, false) => Preconditions::none(),
    };
    if (part.method == Method::Put) != part.body.is_some() {
        return Err(bad_part(at, "a PUT has a `body`, and a DELETE has none"));
    }
    let body = part.body.map(|body| Bytes::copy_from_slice(body.get().as_bytes()));
    Ok(RecordWrite { record_type: part.record_type, key: part.key, body, only_if })
}

fn bad_part(at: usize, why: &str) -> CatalogueError {
    CatalogueError::BadBatch(format!("part {at} (from 0): {why}"))
}

/// The query of a page.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    limit: Option<usize>,
    pub(super) after: Option<String>,
}

impl PageQuery {
    /// # Errors
    /// [`RequestRefused::Query`] for what no page has.
    pub(super) fn limit(&self) -> Result<usize, RequestRefused> {
        let limit = self.limit.unwrap_or(PAGE_RECORDS);
        if (1..=PAGE_MOST_RECORDS).contains(&limit) { Ok(limit) } else { Err(RequestRefused::Query) }
    }
}
