//! Asks the catalogue for the grants, and writes them there.

use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use url::Url;

use super::caller::{Caller, unanswered};
use crate::cli::error::CommandError;

/// The document at a version.
pub(super) struct Versioned {
    pub(super) version: u64,
    pub(super) document: Vec<u8>,
}

/// Client of one catalogue.
pub(super) struct CatalogueClient {
    base: Url,
    caller: Caller,
}

/// A page of the document's history, as the catalogue writes it.
#[derive(Deserialize)]
struct HistoryPage {
    versions: Vec<HistoryEntry>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct HistoryEntry {
    version: u64,
    body: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Written {
    version: u64,
}

impl CatalogueClient {
    pub(super) const fn new(base: Url, caller: Caller) -> Self {
        Self { base, caller }
    }

    fn request(&self, method: Method, path: &str, query: &str) -> Result<reqwest::RequestBuilder, CommandError> {
        let mut url = self.base.join(path).map_err(|error| CommandError::Usage(format!("--catalogue: {error}")))?;
        url.set_query(Some(query).filter(|query| !query.is_empty()));
        self.caller.request(method, url)
    }

    /// The document as it is; `None` before the first.
    pub(super) async fn current(&self) -> Result<Option<Versioned>, CommandError> {
        let answer = self.sent(self.request(Method::GET, "/v1/grants", "")?).await?;
        if answer.status() == reqwest::StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let answer = self.accepted(answer).await?;
        let version = answer.headers().get("x-record-version").and_then(|line| line.to_str().ok()?.parse().ok());
        let version = version.ok_or_else(|| CommandError::Failed("the answer states no version".to_owned()))?;
        let document = answer.bytes().await.map_err(CommandError::failed)?.to_vec();
        Ok(Some(Versioned { version, document }))
    }

    /// All versions, the oldest first.
    pub(super) async fn history(&self) -> Result<Vec<Versioned>, CommandError> {
        let (mut versions, mut query) = (Vec::new(), String::new());
        loop {
            let answer = self.sent(self.request(Method::GET, "/v1/grants/history", &query)?).await?;
            let answer = self.accepted(answer).await?;
            let body = answer.bytes().await.map_err(CommandError::failed)?;
            let page: HistoryPage = serde_json::from_slice(&body).map_err(CommandError::failed)?;
            versions.extend(page.versions.into_iter().map(|entry| Versioned {
                version: entry.version,
                document: entry.body.map_or_else(Vec::new, |body| body.get().as_bytes().to_vec()),
            }));
            match page.next {
                Some(next) => query = format!("after={next}"),
                None => return Ok(versions),
            }
        }
    }

    /// Writes the document if `replaces` is still its version, or if there is none yet.
    pub(super) async fn put(&self, document: Vec<u8>, replaces: Option<u64>) -> Result<u64, CommandError> {
        let request = self.request(Method::PUT, "/v1/grants", "")?.header("content-type", "application/json");
        let request = match replaces {
            Some(version) => request.header("if-match", format!("\"{version}\"")),
            None => request.header("if-none-match", "*"),
        };
        let answer = self.accepted(self.sent(request.body(document)).await?).await?;
        let body = answer.bytes().await.map_err(CommandError::failed)?;
        let written: Written = serde_json::from_slice(&body).map_err(CommandError::failed)?;
        Ok(written.version)
    }

    async fn sent(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, CommandError> {
        request.send().await.map_err(|error| {
            let why = unanswered(&error);
            CommandError::Failed(format!("the catalogue at {} does not answer: {why}; see --catalogue", self.base))
        })
    }

    /// The answer, if it is a success; else what it says.
    async fn accepted(&self, answer: reqwest::Response) -> Result<reqwest::Response, CommandError> {
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
            401 | 403 => "; send an admin's token with --token-file, or a certificate with --certificate",
            412 => "; somebody else changed the grants: run the command again",
            _ => "",
        };
        Err(CommandError::Failed(format!("the catalogue answers {status}: {detail}{advice}")))
    }
}
