//! Fetches an issuer's keys: over https alone, without redirects, within bounds of size and time.

use std::path::PathBuf;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::StatusCode;
use serde_json::Value;
use url::Url;

use super::keys::{KeySet, KeySetError};
use super::limits::{FETCH_WAIT, KEYS_BYTES, KEYS_DEPTH};
use super::strict_json;
use crate::config::services::KeysSource;
use crate::http::client::outgoing;

/// Path of an issuer's metadata (OpenID Connect Discovery 1.0, section 4).
const METADATA: &str = "/.well-known/openid-configuration";

/// An issuer's keys could not be fetched; those that are known stay. A later try may succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error("access.issuer.ca_file cannot be used: {0}; write the CA's certificates into it, in PEM")]
    CaFile(String),
    #[error(
        "this machine has no CA certificates to know the issuer by; install them, or write access.issuer.ca_file"
    )]
    NoRoots,
    #[error("the host {host} cannot be reached over https: {why}")]
    Unreachable { host: String, why: String },
    #[error("the host {host} answered {status}, and redirects are not followed; correct access.issuer.keys")]
    Status { host: String, status: u16 },
    #[error("the host {host} sent more than {KEYS_BYTES} bytes")]
    Large { host: String },
    #[error("no complete answer came within {FETCH_WAIT:?}")]
    Slow,
    #[error("the issuer's metadata is no JSON object with an https URL as `jwks_uri`")]
    Metadata,
    #[error("the metadata's `issuer` is not access.issuer.iss, byte for byte")]
    OtherIssuer,
    #[error("the set that it sent cannot be used: {0}")]
    Unusable(#[from] KeySetError),
}

/// Source of bytes: the network, or whatever a test supplies.
pub enum Fetcher {
    Network {
        /// CAs to trust instead of the machine's; read at each fetch, since it may be replaced.
        ca_file: Option<PathBuf>,
    },
    Given(Box<dyn Fn(Url) -> BoxFuture<'static, Result<Bytes, FetchError>> + Send + Sync>),
}

impl std::fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Self::Network { .. }) { "Network" } else { "Given" })
    }
}

impl Fetcher {
    /// The keys of this issuer as they are now.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn keys(&self, iss: &str, source: &KeysSource) -> Result<KeySet, FetchError> {
        let fetched = tokio::time::timeout(FETCH_WAIT, self.fetch(iss, source)).await;
        Ok(KeySet::read(&fetched.unwrap_or(Err(FetchError::Slow))?)?)
    }

    async fn fetch(&self, iss: &str, source: &KeysSource) -> Result<Bytes, FetchError> {
        let client = self.client().await?;
        let url = match source {
            KeysSource::Url(url) => url.clone(),
            _ => {
                let metadata = metadata_url(iss).ok_or(FetchError::Metadata)?;
                jwks_uri(&self.download(client.as_ref(), metadata).await?, iss)?
            }
        };
        self.download(client.as_ref(), url).await
    }

    async fn client(&self) -> Result<Option<reqwest::Client>, FetchError> {
        let Self::Network { ca_file } = self else { return Ok(None) };
        let mut builder = outgoing::builder().https_only(true).timeout(FETCH_WAIT).pool_max_idle_per_host(0);
        if let Some(file) = ca_file {
            builder = outgoing::trusting(builder, file).await.map_err(FetchError::CaFile)?;
        }
        builder.build().map(Some).map_err(|_| FetchError::NoRoots)
    }

    async fn download(&self, client: Option<&reqwest::Client>, url: Url) -> Result<Bytes, FetchError> {
        match (self, client) {
            (Self::Given(answer), _) => answer(url).await,
            (Self::Network { .. }, Some(client)) => download(client, url).await,
            (Self::Network { .. }, None) => Err(FetchError::NoRoots),
        }
    }
}

async fn download(client: &reqwest::Client, url: Url) -> Result<Bytes, FetchError> {
    let host = url.host_str().unwrap_or_default().to_owned();
    let unreachable = |error: reqwest::Error| {
        if error.is_timeout() {
            FetchError::Slow
        } else {
            FetchError::Unreachable { host: host.clone(), why: outgoing::cause(&error) }
        }
    };
    let mut response = client.get(url).send().await.map_err(unreachable)?;
    if response.status() != StatusCode::OK {
        return Err(FetchError::Status { host, status: response.status().as_u16() });
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if (body.len() + chunk.len()) as u64 > KEYS_BYTES {
            return Err(FetchError::Large { host });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.into())
}

/// URL of the metadata: behind the issuer's own, without its last slash.
fn metadata_url(iss: &str) -> Option<Url> {
    let url = Url::parse(&format!("{}{METADATA}", iss.strip_suffix('/').unwrap_or(iss))).ok()?;
    (url.scheme() == "https").then_some(url)
}

fn jwks_uri(metadata: &[u8], iss: &str) -> Result<Url, FetchError> {
    let read = strict_json::object(metadata, KEYS_DEPTH).map_err(|_| FetchError::Metadata)?;
    if read.get("issuer").and_then(Value::as_str) != Some(iss) {
        return Err(FetchError::OtherIssuer);
    }
    let url = read.get("jwks_uri").and_then(Value::as_str).and_then(|written| Url::parse(written).ok());
    url.filter(|url| url.scheme() == "https").ok_or(FetchError::Metadata)
}

#[cfg(test)]
pub(crate) mod tests;
