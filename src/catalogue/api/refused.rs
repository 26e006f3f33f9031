//! Why a request was refused, as a problem document; every status is chosen here.

use axum::response::{IntoResponse, Response};
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::{Map, json};

use super::fields::state_version;
use crate::access::denial::Denial;
use crate::catalogue::error::CatalogueError;
use crate::catalogue::limits::RETRY_AFTER_SECONDS;
use crate::catalogue::problem_kind::ProblemKind;
use crate::engine::EngineError;
use crate::http::bodies::NotRead;
use crate::http::problem;
use crate::model::time::Clock;
use crate::telemetry::rate_limiter::RateLimiter;

/// A refusal of the catalogue, or of its HTTP side before it was asked.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum RequestRefused {
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    #[error(transparent)]
    Denied(Denial),
    #[error("there is nothing at this path; GET /openapi.json describes what there is")]
    UnknownPath,
    #[error("this method does nothing here; the Allow header lists those that do")]
    Method,
    #[error(
        "the path is not UTF-8 in percent-encoding: an escape is `%` and two hexadecimal digits, and `%` itself is %25"
    )]
    Path,
    #[error("the query is not understood: `limit` (1 to {most}) and `after` may be in that of a page", most =
        crate::catalogue::limits::PAGE_MOST_RECORDS)]
    Query,
    #[error("{0} is malformed, or there twice")]
    Header(&'static str),
    #[error("X-Change-Reason has 1 to {most} bytes of UTF-8 on one line, and is there once", most =
        crate::catalogue::limits::REASON_BYTES)]
    Reason,
    #[error("a batch has its conditions in its parts (`ifVersion`, `ifAbsent`), not in If-Match or If-None-Match")]
    BatchCondition,
    #[error("the body must be application/json, without a Content-Encoding")]
    NotJson,
    #[error("the body is larger than {0} bytes")]
    LargeBody(usize),
    #[error("the body took too long to arrive")]
    SlowBody,
    #[error("the body ended early or is malformed")]
    BrokenBody,
    #[error("too many bytes of requests are held; nothing was done, send it again")]
    Busy,
}

impl RequestRefused {
    pub(super) fn kind(&self) -> ProblemKind {
        match self {
            Self::Catalogue(error) => kind_of(error),
            Self::Denied(denial) => of_denial(*denial),
            Self::UnknownPath => ProblemKind::UnknownPath,
            Self::Method => ProblemKind::Method,
            Self::Path => ProblemKind::BadKey,
            Self::Query => ProblemKind::BadQuery,
            Self::Header(_) | Self::Reason | Self::BatchCondition => ProblemKind::BadHeader,
            Self::NotJson => ProblemKind::NotJson,
            Self::LargeBody(_) => ProblemKind::LargeBody,
            Self::SlowBody => ProblemKind::SlowBody,
            Self::BrokenBody => ProblemKind::BadJson,
            Self::Busy => ProblemKind::Busy,
        }
    }

    pub(super) const fn unread(why: NotRead, most: usize) -> Self {
        match why {
            NotRead::TooLarge => Self::LargeBody(most),
            NotRead::NoRoom => Self::Busy,
            NotRead::Broken => Self::BrokenBody,
        }
    }
}

const fn of_denial(denial: Denial) -> ProblemKind {
    match denial {
        Denial::NoCredential => ProblemKind::NoCredential,
        Denial::BadCredential(_) => ProblemKind::BadCredential,
        Denial::NotGranted => ProblemKind::NotGranted,
        Denial::KeysUnknown => ProblemKind::KeysUnknown,
        Denial::Busy => ProblemKind::VerificationBusy,
        Denial::GrantsUnknown => ProblemKind::GrantsUnknown,
    }
}

fn kind_of(error: &CatalogueError) -> ProblemKind {
    match error {
        CatalogueError::UnknownType { .. } => ProblemKind::UnknownType,
        CatalogueError::BadKey(_) => ProblemKind::BadKey,
        CatalogueError::LargeBody => ProblemKind::LargeBody,
        CatalogueError::BadJson(_) => ProblemKind::BadJson,
        CatalogueError::Schema(_) => ProblemKind::Schema,
        CatalogueError::SchemaCost => ProblemKind::SchemaCost,
        CatalogueError::Grants(_) => ProblemKind::BadGrants,
        CatalogueError::ChecksBusy => ProblemKind::Busy,
        CatalogueError::BadBatch(_) => ProblemKind::BadBatch,
        CatalogueError::BadCursor => ProblemKind::BadCursor,
        CatalogueError::NotFound { .. } => ProblemKind::NotFound,
        CatalogueError::PreconditionFailed { .. } => ProblemKind::PreconditionFailed,
        CatalogueError::BadIdempotencyKey => ProblemKind::BadHeader,
        CatalogueError::KeyReused => ProblemKind::IdempotencyKeyReused,
        CatalogueError::Contended => ProblemKind::Contended,
        CatalogueError::OutcomeUnknown => ProblemKind::OutcomeUnknown,
        CatalogueError::Store(EngineError::Full { .. }) => ProblemKind::StoreFull,
        CatalogueError::Store(error) | CatalogueError::Unread(error) => {
            if error.is_transient() {
                ProblemKind::StoreUnavailable
            } else {
                ProblemKind::StoreFailed
            }
        }
        CatalogueError::Damaged { .. } => ProblemKind::Damaged,
        CatalogueError::Part { why, .. } => kind_of(why),
    }
}

/// A store that is down fails each request, of any sender.
static FAILURE_LINES: RateLimiter = RateLimiter::new();

impl IntoResponse for RequestRefused {
    fn into_response(self) -> Response {
        let kind = self.kind();
        let (mut more, mut version) = (Map::new(), None);
        if let Self::Catalogue(error) = &self {
            if let CatalogueError::Part { at, .. } = error {
                more.insert("part".to_owned(), json!(at));
            }
            match error.root() {
                CatalogueError::Schema(violations) => {
                    more.insert("violations".to_owned(), json!(violations));
                }
                CatalogueError::Grants(problems) => {
                    more.insert("problems".to_owned(), json!(problems));
                }
                CatalogueError::NotFound { version: found }
                | CatalogueError::PreconditionFailed { version: found } => {
                    version = *found;
                }
                CatalogueError::Store(error) | CatalogueError::Unread(error) => {
                    if let Some(suppressed) = FAILURE_LINES.admit(Clock::System.now()) {
                        tracing::warn!(%error, suppressed, "the catalogue's store failed");
                    }
                }
                _ => {}
            }
        }
        if let Some(version) = version {
            more.insert("version".to_owned(), json!(version));
        }
        let mut response = problem::document(kind.status(), kind.into_str(), &self.to_string(), more);
        // Counted where all answers pass.
        response.extensions_mut().insert(kind);
        if let Self::Denied(denial) = &self
            && let Some(mark) = denial.mark()
        {
            response.extensions_mut().insert(mark);
        }
        let headers = response.headers_mut();
        if let Self::Denied(denial) = &self
            && let Some(challenge) = denial.challenge()
        {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        // One record's version, not that of a part of a batch.
        if let (Some(version), false) = (version, matches!(self, Self::Catalogue(CatalogueError::Part { .. }))) {
            state_version(headers, version);
        }
        if kind.status() == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineError;
    use crate::telemetry::limits::RATIONED_LINES;
    use crate::telemetry::scripted::CountedLines;

    #[test]
    fn store_outage_floods_no_log() {
        let lines = CountedLines::start();
        for _ in 0..1_000 {
            let error = EngineError::Unavailable { what: "p-records".to_owned(), why: "down".to_owned() };
            let response = RequestRefused::Catalogue(CatalogueError::Store(error)).into_response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        }
        assert!(lines.with("the catalogue's store failed") <= RATIONED_LINES.0 as usize);
    }
}
