//! Problem documents (RFC 9457) of the admin side, and the status of each.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Map;

use super::access::Denied;
use super::refused::CommandRefused;
use crate::access::denial::{Denial, Whose};
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

    /// Refusal of a cross-site request, as on the applications' port.
    pub(crate) fn cross_site() -> Self {
        let refusal = Refusal::CrossSite;
        Self::new(StatusCode::FORBIDDEN, refusal.reason().into_str(), refusal.to_string())
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        let (status, word) = match denied {
            Denied::Closed => (StatusCode::FORBIDDEN, "commands-closed"),
            Denied::OnlyOnTheSocket => (StatusCode::FORBIDDEN, "commands-closed"),
            Denied::Uid(_) => (StatusCode::FORBIDDEN, "uid"),
            Denied::Browser => (StatusCode::FORBIDDEN, "browser"),
            Denied::Token => (StatusCode::UNAUTHORIZED, "token"),
        };
        Self::new(status, word, denied.to_string())
    }
}

impl From<Denial> for Problem {
    fn from(denial: Denial) -> Self {
        let status = match denial.whose() {
            Whose::Credential => StatusCode::UNAUTHORIZED,
            Whose::Grants => StatusCode::FORBIDDEN,
            Whose::Service => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, denial.word(), denial.to_string())
    }
}

impl From<CommandRefused> for Problem {
    fn from(refused: CommandRefused) -> Self {
        let (status, word) = match refused {
            CommandRefused::Closed(_) => (StatusCode::FORBIDDEN, "commands-closed"),
            CommandRefused::UnknownCommand { .. } => (StatusCode::NOT_FOUND, "unknown-command"),
            CommandRefused::LargeBody => (StatusCode::PAYLOAD_TOO_LARGE, "large-body"),
            CommandRefused::SlowBody => (StatusCode::REQUEST_TIMEOUT, "slow-body"),
            CommandRefused::Malformed(_) => (StatusCode::BAD_REQUEST, "bad-arguments"),
            CommandRefused::LastRegion(_) => (StatusCode::CONFLICT, "last-region"),
            CommandRefused::NoTopic(_) => (StatusCode::CONFLICT, "no-topic"),
            CommandRefused::Filter(_) => (StatusCode::BAD_REQUEST, "bad-filter"),
            CommandRefused::NotReloaded(_) => (StatusCode::CONFLICT, "not-reloaded"),
            CommandRefused::Busy(_) => (StatusCode::CONFLICT, "busy"),
            CommandRefused::Failed(_) => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
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
    fn problems_page_lists_command_problems() {
        let denied = every!(Denied: [Closed, OnlyOnTheSocket, Browser, Token], Denied::Uid(_) => [Denied::Uid(None)]);
        let refused = every!(
            CommandRefused: [LargeBody, SlowBody],
            CommandRefused::Closed(_) => [CommandRefused::Closed("why")],
            CommandRefused::UnknownCommand { .. } => [CommandRefused::UnknownCommand { name: String::new(), known: String::new() }],
            CommandRefused::Malformed(_) => [CommandRefused::Malformed(String::new())],
            CommandRefused::LastRegion(_) => [CommandRefused::LastRegion(String::new())],
            CommandRefused::NoTopic(_) => [CommandRefused::NoTopic(String::new())],
            CommandRefused::Filter(_) => [CommandRefused::Filter(LogError::NotOurs)],
            CommandRefused::NotReloaded(_) => [CommandRefused::NotReloaded(String::new())],
            CommandRefused::Busy(_) => [CommandRefused::Busy(String::new())],
            CommandRefused::Failed(_) => [CommandRefused::Failed(String::new())],
        );
        let problems = denied.into_iter().map(Problem::from).chain(refused.into_iter().map(Problem::from));
        let problems = problems.chain(Denial::every().into_iter().map(Problem::from));
        let said = problems.chain([Problem::cross_site()]).map(|it| (it.word.to_owned(), it.status.as_u16()));
        assert_eq!(chapter("Commands of operators"), said.collect());
    }
}
