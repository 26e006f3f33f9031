//! Client of a catalogue, as commands ask one.

use http::Method;
use url::Url;

use super::caller::{Caller, unanswered};
use super::error::CommandError;

/// Client of one catalogue.
pub(super) struct CatalogueClient {
    base: Url,
    caller: Caller,
    /// Owner of the credential that the catalogue wants to see, for the advice when it refuses.
    whose: &'static str,
}

impl CatalogueClient {
    pub(super) const fn new(base: Url, caller: Caller, whose: &'static str) -> Self {
        Self { base, caller, whose }
    }

    /// A request for a path of the catalogue.
    ///
    /// # Errors
    /// An address or a credential that nothing can be asked with.
    pub(super) fn request(
        &self,
        method: Method,
        path: &str,
        query: &str,
    ) -> Result<reqwest::RequestBuilder, CommandError> {
        let mut url = self.base.join(path).map_err(|error| CommandError::Usage(format!("--catalogue: {error}")))?;
        url.set_query(Some(query).filter(|query| !query.is_empty()));
        self.caller.request(method, url)
    }

    /// The answer, whatever it is.
    ///
    /// # Errors
    /// [`CommandError::Failed`] without one.
    pub(super) async fn sent(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, CommandError> {
        request.send().await.map_err(|error| {
            let why = unanswered(&error);
            CommandError::Failed(format!("the catalogue at {} does not answer: {why}; see --catalogue", self.base))
        })
    }

    /// The answer, if it is a success.
    ///
    /// # Errors
    /// [`CommandError::Failed`] with what it says, and what to do.
    pub(super) async fn accepted(&self, answer: reqwest::Response) -> Result<reqwest::Response, CommandError> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let text = answer.text().await.unwrap_or_default();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let detail = document["detail"].as_str().unwrap_or("it says nothing more");
        let advice = match status.as_u16() {
            401 if self.caller.has_certificate() => {
                "; --certificate does not count there: it has ended, no CA of catalogue.tls.client_ca vouches for it, or \
                 it has neither one SPIFFE ID nor one DNS name"
            }
            401 | 403 => {
                let whose = self.whose;
                let advice = format!("; send {whose} token with --token-file, or a certificate with --certificate");
                return Err(answered(status, detail, &advice));
            }
            412 => "; somebody else changed the grants: run the command again",
            _ => "",
        };
        Err(answered(status, detail, advice))
    }
}

fn answered(status: reqwest::StatusCode, detail: &str, advice: &str) -> CommandError {
    CommandError::Failed(format!("the catalogue answers {status}: {detail}{advice}"))
}
