//! The catalogue as its callers reach it: over HTTP, each with a token of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use nearside::access::editing;

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use url::Url;

use super::access::{ADMIN, Audience, DevIssuer, WRITER};

/// Why the catalogue did not do it.
#[derive(Debug, thiserror::Error)]
pub enum NotWritten {
    #[error("the catalogue does not answer: {0}")]
    Unreachable(#[from] reqwest::Error),
    /// It was to be written only if it was not there.
    #[error("it is there already")]
    Present,
    /// Refusal in its own words, which say what to do next.
    #[error("the catalogue refused: {0}")]
    Refused(String),
}

#[derive(Clone)]
pub struct CatalogueClient {
    http: reqwest::Client,
    base: Url,
    /// Signs its callers' tokens; `None` where nobody asks for one.
    issuer: Option<Arc<DevIssuer>>,
}

impl CatalogueClient {
    pub(crate) fn new(http: reqwest::Client, catalogue: SocketAddr, issuer: Option<Arc<DevIssuer>>) -> Self {
        let base = Url::parse(&format!("http://{catalogue}")).expect("an address makes a URL");
        Self { http, base, issuer }
    }

    /// Such as `http://127.0.0.1:8740`.
    pub fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Returns the new version.
    pub async fn put(&self, record_type: &str, key: &str, body: impl Into<String>) -> Result<u64, NotWritten> {
        let url = self.at(&["v1", "records", record_type, key]);
        version(said(self.json(Method::PUT, url, WRITER).body(body.into()).send().await?).await?)
    }

    /// Returns the tombstone's version.
    pub async fn delete(&self, record_type: &str, key: &str) -> Result<u64, NotWritten> {
        let url = self.at(&["v1", "records", record_type, key]);
        version(said(self.request(Method::DELETE, url, WRITER).send().await?).await?)
    }

    /// True once its grants let the world's records be written. It says 503 until it has read its own.
    pub(super) async fn is_writable(&self) -> Result<bool, NotWritten> {
        let answer = self.request(Method::GET, self.at(&["v1", "types"]), WRITER).send().await?;
        if answer.status() == StatusCode::SERVICE_UNAVAILABLE {
            return Ok(false);
        }
        let types = said(answer).await?;
        Ok(types["types"].as_array().is_some_and(|types| !types.is_empty()))
    }

    /// The document of grants; `None` before the first.
    pub async fn grants(&self) -> Result<Option<Value>, NotWritten> {
        let answer = self.request(Method::GET, self.grants_url(), ADMIN).send().await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        said(answer).await.map(Some)
    }

    /// Replaces the document of grants; returns its version.
    pub async fn put_grants(&self, document: &Value) -> Result<u64, NotWritten> {
        let put = self.json(Method::PUT, self.grants_url(), ADMIN).body(document.to_string());
        version(said(put.send().await?).await?)
    }

    /// Takes all rights from a consumer, or gives them back; returns the document's version.
    pub async fn stop_consumer(&self, consumer: &str, is_stopped: bool) -> Result<u64, NotWritten> {
        let document = self.grants().await?.unwrap_or_default().to_string();
        let changed = editing::with_stopped(document.as_bytes(), consumer, is_stopped);
        let changed = changed.map_err(|error| NotWritten::Refused(error.to_string()))?;
        self.put_grants(&serde_json::from_slice(&changed).unwrap_or_default()).await
    }

    /// Writes those of the records (type, key, body) that are not there.
    pub(super) async fn create_missing(&self, records: &[(&str, String, String)]) -> Result<(), NotWritten> {
        match self.create(records).await {
            // All or nothing: one of them is there already.
            Err(NotWritten::Present) => {
                for record in records {
                    match self.create(std::slice::from_ref(record)).await {
                        Ok(()) | Err(NotWritten::Present) => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            }
            done => done,
        }
    }

    /// Writes records together, none of which may be there.
    async fn create(&self, records: &[(&str, String, String)]) -> Result<(), NotWritten> {
        let parts: Vec<Value> = records
            .iter()
            .map(|(record_type, key, body)| {
                let body: Value = serde_json::from_str(body).unwrap_or_default();
                json!({ "method": "PUT", "type": record_type, "key": key, "body": body, "ifAbsent": true })
            })
            .collect();
        let batch = json!({ "writes": parts }).to_string();
        let post = self.json(Method::POST, self.at(&["v1", "batch"]), WRITER).body(batch);
        said(post.send().await?).await.map(drop)
    }

    /// A request by this subject.
    fn request(&self, method: Method, url: Url, sub: &str) -> RequestBuilder {
        let request = self.http.request(method, url);
        match &self.issuer {
            Some(issuer) => request.bearer_auth(issuer.token(sub, Audience::Catalogue)),
            None => request,
        }
    }

    fn json(&self, method: Method, url: Url, sub: &str) -> RequestBuilder {
        self.request(method, url, sub).header("content-type", "application/json")
    }

    fn grants_url(&self) -> Url {
        self.at(&["v1", "grants"])
    }

    fn at(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        // Only URLs without a host have no segments.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(path);
        }
        url
    }
}

async fn said(response: Response) -> Result<Value, NotWritten> {
    let ok = response.status().is_success();
    if response.status() == StatusCode::PRECONDITION_FAILED {
        return Err(NotWritten::Present);
    }
    let said: Value = serde_json::from_slice(&response.bytes().await?).unwrap_or_default();
    if ok {
        return Ok(said);
    }
    let why = ["detail", "title"].into_iter().find_map(|member| said[member].as_str());
    Err(NotWritten::Refused(why.unwrap_or("it did not say why").to_owned()))
}

fn version(said: Value) -> Result<u64, NotWritten> {
    said["version"].as_u64().ok_or_else(|| NotWritten::Refused("its answer states no version".to_owned()))
}
