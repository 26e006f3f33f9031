//! Problem documents (RFC 9457) of the admin side, and the status of each.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Map;

use crate::admin::acts::ActRefused;
use crate::admin::acts::access::Denied;
use crate::http::admission::Refusal;
use crate::http::problem::document;

/// Why nothing was done, and what to do about it.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    word: &'static str,
    detail: String,
}

impl Problem {
    const fn new(status: StatusCode, word: &'static str, detail: String) -> Self {
        Self { status, word, detail }
    }

    /// The same refusal as on the applications' port.
    pub(crate) fn cross_site() -> Self {
        let refusal = Refusal::CrossSite;
        Self::new(StatusCode::FORBIDDEN, refusal.word(), refusal.to_string())
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        let (status, word) = match denied {
            Denied::Closed => (StatusCode::FORBIDDEN, "acts-closed"),
            Denied::OnlyOnTheSocket => (StatusCode::FORBIDDEN, "acts-closed"),
            Denied::Uid(_) => (StatusCode::FORBIDDEN, "uid"),
            Denied::Browser => (StatusCode::FORBIDDEN, "browser"),
            Denied::Token => (StatusCode::UNAUTHORIZED, "token"),
        };
        Self::new(status, word, denied.to_string())
    }
}

impl From<ActRefused> for Problem {
    fn from(refused: ActRefused) -> Self {
        let (status, word) = match refused {
            ActRefused::UnknownAct(_) => (StatusCode::NOT_FOUND, "unknown-act"),
            ActRefused::LargeBody => (StatusCode::PAYLOAD_TOO_LARGE, "large-body"),
            ActRefused::SlowBody => (StatusCode::REQUEST_TIMEOUT, "slow-body"),
            ActRefused::Malformed(_) => (StatusCode::BAD_REQUEST, "bad-arguments"),
            ActRefused::LastRegion(_) => (StatusCode::CONFLICT, "last-region"),
            ActRefused::NoTopic(_) => (StatusCode::CONFLICT, "no-topic"),
            ActRefused::Filter(_) => (StatusCode::BAD_REQUEST, "bad-filter"),
            ActRefused::NotReloaded(_) => (StatusCode::CONFLICT, "not-reloaded"),
            ActRefused::Busy(_) => (StatusCode::CONFLICT, "busy"),
            ActRefused::Failed(_) => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        };
        Self::new(status, word, refused.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = document(self.status, self.word, &self.detail, Map::new());
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::problem::page::{chapter, every};
    use crate::telemetry::log::LogError;

    #[test]
    fn problems_page_shows_those_of_acts() {
        let denied = every!(Denied: [Closed, OnlyOnTheSocket, Browser, Token], Denied::Uid(_) => [Denied::Uid(None)]);
        let refused = every!(
            ActRefused: [LargeBody, SlowBody],
            ActRefused::UnknownAct(_) => [ActRefused::UnknownAct("rest".to_owned())],
            ActRefused::Malformed(_) => [ActRefused::Malformed(String::new())],
            ActRefused::LastRegion(_) => [ActRefused::LastRegion(String::new())],
            ActRefused::NoTopic(_) => [ActRefused::NoTopic(String::new())],
            ActRefused::Filter(_) => [ActRefused::Filter(LogError::NotOurs)],
            ActRefused::NotReloaded(_) => [ActRefused::NotReloaded(String::new())],
            ActRefused::Busy(_) => [ActRefused::Busy(String::new())],
            ActRefused::Failed(_) => [ActRefused::Failed(String::new())],
        );
        let problems = denied.into_iter().map(Problem::from).chain(refused.into_iter().map(Problem::from));
        let said = problems.chain([Problem::cross_site()]).map(|it| (it.word.to_owned(), it.status.as_u16()));
        assert_eq!(chapter("Acts of operators"), said.collect());
    }
}
