//! Asks the catalogue for the grants, and writes them there.

use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::cli::catalogue_client::CatalogueClient;
use crate::cli::error::CommandError;

/// The document at a version.
pub(super) struct Versioned {
    pub(super) version: u64,
    pub(super) document: Vec<u8>,
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
    #[serde(default)]
    unreadable: bool,
    body: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Written {
    version: u64,
}

impl CatalogueClient {
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
            let readable = page.versions.into_iter().filter(|entry| !entry.unreadable);
            versions.extend(readable.map(|entry| Versioned {
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
}
