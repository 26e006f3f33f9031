//! Turns an outcome into HTTP. This is the only place where a status is chosen.
//!
//! A region's own reply keeps its status, headers and bytes; the sidecar adds `Age` and
//! `Cache-Status` (RFC 9211). Where the sidecar has to answer for itself, it sends
//! `application/problem+json` (RFC 9457) with a stable `type`. That document names regions and
//! causes, never a body, a token or a record's key.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use super::gated::is_stated;
use crate::access::denial::{Denial, Whose};
use crate::cache::content::Content;
use crate::config::grants_version::GRANTS_VERSION;
use crate::http::admission::Refusal;
use crate::http::body::{Body, BodyUnread};
use crate::http::exchange::Failure;
use crate::http::fields::belongs_in_not_modified;
use crate::payload::rpc_status;
use crate::protocol::label::Label;
use crate::race::attempted::{Attempted, Blame};
use crate::race::gather::request::Refused;
use crate::shape::cache_status::{CACHE_STATUS, CacheLine};
use crate::shape::header_text::decimal;
use crate::shape::shapes::ShapeRefused;
use crate::shape::shown::Shown;
use crate::telemetry::metrics::races::AttemptOutcome;

pub enum Outcome {
    /// A representation, stored or just fetched.
    Shown(Shown),
    /// A region's reply that is passed on as it comes: too large to store, or not meant for
    /// storing.
    Streamed {
        status: StatusCode,
        /// End-to-end headers.
        headers: HeaderMap,
        body: Pin<Box<dyn Stream<Item = Result<Bytes, Failure>> + Send>>,
        line: CacheLine,
    },
    /// The answer to a batch, whole or part by part.
    Many {
        line: CacheLine,
        body: Body,
        /// The body is compressed with zstd.
        is_zstd: bool,
    },
    Refused(Refusal),
    /// Who asks may not read this, or did not prove who it is.
    Denied(Denial),
    /// The caller asked for a form or for fields that cannot be had.
    Unshaped(ShapeRefused),
    RefusedBatch(Refused),
    /// A part whose key makes no path of its batch's route.
    BadKey,
    /// A part that is too large to hold.
    LargePart,
    /// `only-if-cached`, and nothing usable is stored (RFC 9111, 5.2.1.7).
    NotStored,
    /// Strict mode: all that regions gave is below the floor.
    BelowFloor(Vec<Attempted>),
    /// No region gave anything that could be passed on.
    NoneAnswered(Vec<Attempted>),
    /// The bound on fills is reached.
    Busy,
    /// One of these at a node, which states the grants by which it decided (R22).
    Stated(Box<Outcome>, HeaderValue),
    /// One of these where some route has a message.
    ByAccept(Box<Outcome>, ByAccept),
}

/// Form of the sidecar's own answers where some route has a message: by `Accept` a
/// `google.rpc.Status`.
#[derive(Clone, Copy, Debug)]
pub struct ByAccept {
    /// Caller's name for Protobuf, if that is what it gets.
    pub protobuf: Option<&'static str>,
}

impl Outcome {
    /// Returns it with the line that states the grants, if there is one.
    pub fn stating(self, stated: Option<HeaderValue>) -> Self {
        match stated {
            Some(stated) => Self::Stated(Box::new(self), stated),
            None => self,
        }
    }

    /// Takes the line off again.
    pub(crate) fn unstated(self) -> (Self, Option<HeaderValue>) {
        match self {
            Self::Stated(outcome, stated) => (*outcome, Some(stated)),
            outcome => (outcome, None),
        }
    }

    /// Returns it in the form that its caller's `Accept` chooses, if it chooses.
    pub fn negotiated(self, by: Option<ByAccept>) -> Self {
        match (self, by) {
            (negotiated @ (Self::Shown(_) | Self::Streamed { .. } | Self::Many { .. } | Self::ByAccept(..)), _) => {
                negotiated
            }
            (own, Some(by)) => Self::ByAccept(Box::new(own), by),
            (own, None) => own,
        }
    }
}

fn many(body: Body, is_zstd: bool, line: HeaderValue) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if is_zstd {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("zstd"));
    }
    headers.append(CACHE_STATUS, line);
    response
}

pub fn respond(outcome: Outcome, names: &[String]) -> Response<Body> {
    match outcome {
        Outcome::Shown(shown) => show(shown, HeaderMap::new(), names),
        Outcome::Streamed { status, headers, body, line } => {
            let mut response = Response::new(Body::Streamed(body, None));
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            response.headers_mut().append(CACHE_STATUS, line.value(names));
            response
        }
        Outcome::Refused(refusal) => {
            let mut response =
                Problem::new(refused(refusal), refusal.reason().into_str(), &refusal.to_string()).respond();
            if refusal == Refusal::Token {
                let challenge = HeaderValue::from_static("Nearside");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            }
            if matches!(refusal, Refusal::NoRoom | Refusal::Crowded) {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
                response.extensions_mut().insert(BodyUnread);
            }
            response
        }
        Outcome::Denied(denial) => denied(denial),
        Outcome::Unshaped(refused) => {
            let (status, word) = unshaped(&refused);
            let retry_after = (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1);
            Problem { retry_after, ..Problem::new(status, word, &refused.to_string()) }.respond()
        }
        Outcome::Many { line, body, is_zstd } => many(body, is_zstd, line.value(names)),
        Outcome::RefusedBatch(refused) => {
            let (status, retry_after) = refused_batch(refused);
            let detail = refused.to_string();
            Problem { retry_after, ..Problem::new(status, refused.reason().into_str(), &detail) }.respond()
        }
        Outcome::BadKey => {
            let detail = "this key makes no path of the route: it is empty, too long, or has dot segments";
            Problem::new(StatusCode::BAD_REQUEST, "bad-key", detail).respond()
        }
        Outcome::LargePart => {
            let detail = "the reply is too large for a batch; ask for it by itself";
            Problem::new(StatusCode::BAD_GATEWAY, "large-part", detail).respond()
        }
        Outcome::NotStored => {
            let detail = "only-if-cached was asked and no stored reply may be used; ask without it";
            Problem::new(StatusCode::GATEWAY_TIMEOUT, "not-stored", detail).respond()
        }
        Outcome::BelowFloor(asked) => {
            let detail = "every region that answered is behind an announced change (freshness.strict); retry shortly";
            Problem::new(StatusCode::GATEWAY_TIMEOUT, Label::BelowFloor.into_str(), detail)
                .asked(asked)
                .retry_after(1)
                .respond()
        }
        Outcome::NoneAnswered(asked) => none_answered(asked),
        Outcome::ByAccept(outcome, by) => chosen(respond(*outcome, names), by),
        Outcome::Stated(outcome, stated) => state(respond(*outcome, names), Some(stated)),
        Outcome::Busy => {
            let detail = "too many lookups are under way in the sidecar; retry shortly";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).retry_after(1).respond()
        }
    }
}

/// Writes into a node's answer by which grants it was decided.
pub fn state(mut response: Response<Body>, stated: Option<HeaderValue>) -> Response<Body> {
    if let Some(stated) = stated.filter(|_| is_stated(response.status())) {
        response.headers_mut().insert(GRANTS_VERSION, stated);
    }
    response
}

/// Answers by RFC 6750, section 3. All that a 403 says holds whether or not there is what was asked for.
fn denied(denial: Denial) -> Response<Body> {
    let status = match denial.whose() {
        Whose::Credential => StatusCode::UNAUTHORIZED,
        Whose::Grants => StatusCode::FORBIDDEN,
        Whose::Service => StatusCode::SERVICE_UNAVAILABLE,
    };
    let retry_after = (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1);
    let detail = denial.to_string();
    let mut response = Problem { retry_after, ..Problem::new(status, denial.word(), &detail) }.respond();
    if let Some(mark) = denial.mark() {
        response.extensions_mut().insert(mark);
    }
    let headers = response.headers_mut();
    if let Some(challenge) = denial.challenge() {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    response
}

/// The status, and a stable word for why.
pub(crate) fn unshaped(refused: &ShapeRefused) -> (StatusCode, &'static str) {
    match refused {
        ShapeRefused::NoRoom => (StatusCode::SERVICE_UNAVAILABLE, "no-room"),
        ShapeRefused::Mask(_) => (StatusCode::BAD_REQUEST, "bad-fields"),
        ShapeRefused::Mismatch => (StatusCode::BAD_GATEWAY, "schema-mismatch"),
    }
}

fn refused(refusal: Refusal) -> StatusCode {
    match refusal {
        Refusal::Tunnel | Refusal::Coding => StatusCode::NOT_IMPLEMENTED,
        Refusal::BadHost(_) | Refusal::BadTarget | Refusal::BadBody => StatusCode::BAD_REQUEST,
        Refusal::ForeignHost => StatusCode::MISDIRECTED_REQUEST,
        Refusal::CrossSite => StatusCode::FORBIDDEN,
        Refusal::Token => StatusCode::UNAUTHORIZED,
        Refusal::LongTarget => StatusCode::URI_TOO_LONG,
        Refusal::LargeHead => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        Refusal::LargeBody => StatusCode::PAYLOAD_TOO_LARGE,
        Refusal::SlowBody => StatusCode::REQUEST_TIMEOUT,
        Refusal::NoRoom | Refusal::Crowded => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn refused_batch(refused: Refused) -> (StatusCode, Option<u32>) {
    match refused {
        Refused::NotJson => (StatusCode::UNSUPPORTED_MEDIA_TYPE, None),
        Refused::Malformed { .. } => (StatusCode::BAD_REQUEST, None),
        Refused::ManyKeys | Refused::Large => (StatusCode::PAYLOAD_TOO_LARGE, None),
        Refused::NoRoom => (StatusCode::SERVICE_UNAVAILABLE, Some(1)),
    }
}

fn is_unasked(asked: &[Attempted]) -> bool {
    asked.iter().all(|attempt| attempt.blame == Blame::NotAsked)
}

fn none_answered(asked: Vec<Attempted>) -> Response<Body> {
    let drained =
        !asked.is_empty() && asked.iter().all(|attempt| attempt.outcome == AttemptOutcome::Drained.into_str());
    let detail = if drained {
        "the sidecar's operator has taken every region out of use (nearside ctl region restore ends that)"
    } else {
        "no region gave an answer that could be passed on; retry shortly"
    };
    let lacks_credentials = AttemptOutcome::NoCredential.into_str();
    if asked.iter().any(|attempt| attempt.outcome == lacks_credentials) && is_unasked(&asked) {
        let detail = "the sidecar has no credentials of its own to ask with: its /readyz says why; retry shortly";
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, "credentials-unavailable", detail)
            .asked(asked)
            .retry_after(1)
            .respond();
    }
    if is_unasked(&asked) {
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, "no-region-asked", detail)
            .asked(asked)
            .retry_after(1)
            .respond();
    }
    let late = asked.iter().any(|attempt| attempt.blame == Blame::Late);
    let status = if late { StatusCode::GATEWAY_TIMEOUT } else { StatusCode::BAD_GATEWAY };
    Problem::new(status, "no-region-answered", detail).asked(asked).respond()
}

/// Content of a problem document, for code that renders it in another form.
#[derive(Clone)]
struct Said {
    word: String,
    detail: String,
}

/// A problem of the sidecar's own in the form that `Accept` chose; what regions say stays as it is.
fn chosen(mut response: Response<Body>, by: ByAccept) -> Response<Body> {
    let Some(Said { word, detail }) = response.extensions_mut().remove() else { return response };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    let Some(media_type) = by.protobuf else { return response };
    let body = rpc_status::encode(response.status(), &word, &detail);
    *response.body_mut() = Body::Whole(Some(body.into()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// The answer to HEAD, which ends with its head: hyper sees to that over HTTP/1.1 alone.
pub fn without_body(mut response: Response<Body>) -> Response<Body> {
    if let Body::Whole(whole) = response.body_mut()
        && let Some(body) = whole.take()
    {
        response.headers_mut().entry(header::CONTENT_LENGTH).or_insert(body.len().into());
    }
    response
}

/// Turns a representation into HTTP. `headers` are the request's, or empty ones: their memory is
/// reused, so that a hit allocates none.
pub fn show(shown: Shown, mut headers: HeaderMap, names: &[String]) -> Response<Body> {
    let Shown { entry, instead, age, not_modified, head, cookies, line } = shown;
    let content = instead.as_deref().unwrap_or(&entry.content);
    headers.clear();
    // Four more: `Age`, `Cache-Status`, and `Content-Length` or `Connection`, so that the table
    // does not grow while it is filled.
    headers.reserve(content.lines().count() + 4);
    let block = instead.as_ref().map_or_else(|| entry.share(), Content::share);
    content.put(&block, &mut headers, |name| !not_modified || belongs_in_not_modified(name));
    let empty = not_modified || head;
    if head && !not_modified && states_length(entry.status) && !headers.contains_key(header::CONTENT_LENGTH) {
        headers.insert(header::CONTENT_LENGTH, content.body_len().into());
    }
    for cookie in cookies.values() {
        headers.append(header::SET_COOKIE, cookie.clone());
    }
    if let Some(age) = age {
        headers.insert(header::AGE, decimal(age));
    }
    headers.append(CACHE_STATUS, line.value(names));
    let mut response = Response::new(if empty { Body::empty() } else { Body::Whole(Some(content.cut(&block))) });
    *response.status_mut() = if not_modified { StatusCode::NOT_MODIFIED } else { entry.status };
    *response.headers_mut() = headers;
    response
}

/// RFC 9110, 8.6: neither a 204 nor a 304 states a length.
pub(crate) fn states_length(status: StatusCode) -> bool {
    !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// An answer of the sidecar's own.
struct Problem<'a> {
    status: StatusCode,
    word: &'a str,
    detail: &'a str,
    asked: Vec<Attempted>,
    retry_after: Option<u32>,
}

impl<'a> Problem<'a> {
    const fn new(status: StatusCode, word: &'a str, detail: &'a str) -> Self {
        Self { status, word, detail, asked: Vec::new(), retry_after: None }
    }

    fn asked(self, asked: Vec<Attempted>) -> Self {
        Self { asked, ..self }
    }

    fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    fn respond(self) -> Response<Body> {
        let regions: Vec<_> = self
            .asked
            .iter()
            .map(|attempt| serde_json::json!({"region": attempt.region, "outcome": attempt.outcome}))
            .collect();
        let mut document = serde_json::json!({
            "type": format!("urn:nearside:problem:{}", self.word),
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let regions_asked = !regions.is_empty();
        if regions_asked {
            document["regions"] = regions.into();
        }
        let mut response = Response::new(Body::Whole(Some(document.to_string().into())));
        *response.status_mut() = self.status;
        response.extensions_mut().insert(Said { word: self.word.to_owned(), detail: self.detail.to_owned() });
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let line = if regions_asked { "nearside; fwd=miss" } else { "nearside" };
        headers.append(CACHE_STATUS, HeaderValue::from_static(line));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

#[cfg(test)]
mod tests;
