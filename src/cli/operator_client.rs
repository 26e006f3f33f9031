//! Client of a service's admin port, as operators' commands ask one.

use http::Method;
use http::header::CONTENT_TYPE;
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::caller::{Caller, OperatorReach, unanswered};
use super::error::CommandError;

/// Client of one admin port.
pub(super) struct OperatorClient {
    base: Url,
    caller: Caller,
}

impl OperatorClient {
    /// # Errors
    /// A file that cannot be used.
    pub(super) fn of(reach: &OperatorReach) -> Result<Self, CommandError> {
        Ok(Self { base: reach.admin.clone(), caller: Caller::of_operator(reach)? })
    }

    /// The service's answer to a command.
    ///
    /// # Errors
    /// No answer, or a refusal, with what to do about it.
    pub(super) async fn command<T: DeserializeOwned>(
        &self,
        name: &str,
        arguments: &impl Serialize,
    ) -> Result<T, CommandError> {
        let url = self.base.join(&format!("/commands/{name}"));
        let url = url.map_err(|error| CommandError::Usage(format!("--admin: {error}")))?;
        let arguments = serde_json::to_vec(arguments).map_err(CommandError::failed)?;
        let request = self.caller.request(Method::POST, url)?.header(CONTENT_TYPE, "application/json");
        let sent = request.body(arguments).send().await;
        let answer = sent.map_err(|error| {
            let why = unanswered(&error);
            CommandError::Failed(format!("the admin port at {} does not answer: {why}; see --admin", self.base))
        })?;
        let (status, body) = (answer.status(), answer.bytes().await.map_err(CommandError::failed)?);
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(CommandError::failed);
        }
        let document: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let detail = document["detail"].as_str().unwrap_or("it says nothing more");
        let advice = match status.as_u16() {
            401 => "; send an operator's token (access.operate_audience) with --token-file",
            404 if document.is_null() => "; is --admin the catalogue's, and as new as this command?",
            _ => "",
        };
        Err(CommandError::Failed(format!("the service answers {status}: {detail}{advice}")))
    }
}
