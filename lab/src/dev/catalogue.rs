//! The catalogue as its callers reach it: over HTTP.

use std::net::SocketAddr;

use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use url::Url;

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

#[derive(Clone, Debug)]
pub struct CatalogueClient {
    http: reqwest::Client,
    base: Url,
}

impl CatalogueClient {
    pub(crate) fn new(http: reqwest::Client, catalogue: SocketAddr) -> Self {
        let base = Url::parse(&format!("http://{catalogue}")).expect("an address makes a URL");
        Self { http, base }
    }

    /// Such as `http://127.0.0.1:8740`.
    pub fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Returns the new version.
    pub async fn put(&self, record_type: &str, key: &str, body: impl Into<String>) -> Result<u64, NotWritten> {
        let url = self.at(&["v1", "records", record_type, key]);
        let put = self.http.put(url).header("content-type", "application/json").body(body.into());
        version(said(put.send().await?).await?)
    }

    /// Returns the tombstone's version.
    pub async fn delete(&self, record_type: &str, key: &str) -> Result<u64, NotWritten> {
        let url = self.at(&["v1", "records", record_type, key]);
        version(said(self.http.request(Method::DELETE, url).send().await?).await?)
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
        let post = self.http.post(self.at(&["v1", "batch"])).header("content-type", "application/json").body(batch);
        said(post.send().await?).await.map(drop)
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
