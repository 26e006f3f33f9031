//! Tokens of an OAuth server for a client of its own (RFC 6749, 4.4), which authenticates by
//! `client_secret_basic`. No redirect is followed: the secret goes to the endpoint that is written.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use tokio::sync::OnceCell;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::error::MintError;
use super::limits::{OAUTH_ANSWER_BYTES, OAUTH_WAIT};
use super::token::Token;
use crate::config::limits::TOKEN_BYTES;
use crate::config::{OauthMinting, read_regular};
use crate::http::client::outgoing;
use crate::tasks::on_disk;
use crate::tasks::supervision::pass_panic_on;

/// A client of OAuth servers, built when it is first needed.
#[derive(Default)]
pub(super) struct OauthClient(OnceCell<reqwest::Client>);

/// A server's answer (RFC 6749, 5.1).
#[derive(Deserialize)]
struct Granted {
    access_token: String,
    token_type: String,
    expires_in: Option<f64>,
}

/// A server's refusal (RFC 6749, 5.2). Its description may quote what was sent.
#[derive(Deserialize)]
struct Refusal {
    error: String,
}

/// The refusals that RFC 6749 names.
const CODES: [&str; 6] = [
    "invalid_client",
    "invalid_grant",
    "invalid_request",
    "invalid_scope",
    "unauthorized_client",
    "unsupported_grant_type",
];

/// The secret in this file, without the blanks around it.
pub(super) fn secret(file: &Path) -> Result<String, MintError> {
    let content =
        read_regular(file, TOKEN_BYTES).map_err(|error| MintError::SecretUnreadable(file.to_owned(), error))?;
    let text = (content.len() as u64 <= TOKEN_BYTES).then(|| String::from_utf8(content).ok()).flatten();
    let text = text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    text.filter(|text| !text.chars().any(char::is_control)).ok_or_else(|| MintError::Secret(file.to_owned()))
}

impl OauthClient {
    /// Reads the secret, and asks for a token with it.
    pub(super) async fn mint(&self, minting: &OauthMinting) -> Result<Token, MintError> {
        let file = minting.secret_file.clone();
        let secret = on_disk(move || secret(&file)).await.unwrap_or_else(|| pass_panic_on())?;
        let server = server(&minting.token_url);
        let unreachable = |error: reqwest::Error| {
            let why = if error.is_timeout() { "no answer in time" } else { "no connection, or it broke" };
            MintError::Unreachable(server.clone(), why)
        };
        let request = self.client(minting.ca_file.as_deref()).await?.post(minting.token_url.clone());
        let mut response = request
            .header(header::AUTHORIZATION, basic(&minting.client_id, &secret))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json")
            .body(form(minting))
            .send()
            .await
            .map_err(unreachable)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > OAUTH_ANSWER_BYTES {
                return Err(MintError::Answer(server, "it is larger than 64 KiB"));
            }
            body.extend_from_slice(&chunk);
        }
        if status == StatusCode::OK {
            granted(&body).map_err(|why| MintError::Answer(server, why))
        } else {
            Err(MintError::Refused { server, status: status.as_u16(), code: code(&body) })
        }
    }

    /// The one client, or one that trusts the CAs of a file as they are now.
    async fn client(&self, ca_file: Option<&Path>) -> Result<reqwest::Client, MintError> {
        if let Some(file) = ca_file {
            let trusting = outgoing::trusting(builder(), file).await;
            let trusting = trusting.map_err(|why| MintError::CaFile(file.to_owned(), why))?;
            return trusting.build().map_err(MintError::Client);
        }
        self.0.get_or_try_init(|| async { builder().build().map_err(MintError::Client) }).await.cloned()
    }
}

fn builder() -> reqwest::ClientBuilder {
    outgoing::builder().timeout(OAUTH_WAIT).pool_max_idle_per_host(0)
}

/// Its host and port, for people.
fn server(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// RFC 6749, 2.3.1: both are form-encoded first.
fn basic(client: &str, secret: &str) -> HeaderValue {
    let [client, secret] = [client, secret].map(|text| byte_serialize(text.as_bytes()).collect::<String>());
    let encoded = STANDARD.encode(format!("{client}:{secret}"));
    let mut value = HeaderValue::try_from(format!("Basic {encoded}")).expect("base64 fits a header");
    value.set_sensitive(true);
    value
}

fn form(minting: &OauthMinting) -> String {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    for (name, value) in [("scope", &minting.scope), ("audience", &minting.audience)] {
        if !value.is_empty() {
            form.append_pair(name, value);
        }
    }
    form.finish()
}

fn granted(body: &[u8]) -> Result<Token, &'static str> {
    let granted: Granted =
        serde_json::from_slice(body).map_err(|_| "it is no JSON object with an access_token and a token_type")?;
    if !granted.token_type.eq_ignore_ascii_case("bearer") {
        return Err("its token_type is not Bearer");
    }
    let stated = granted.expires_in.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
    Token::new(granted.access_token, stated).ok_or("its access_token fits no header")
}

/// The refusal's code, if it is one of those that are known: another could be anything.
fn code(body: &[u8]) -> Option<&'static str> {
    let refusal: Refusal = serde_json::from_slice(body).ok()?;
    CODES.into_iter().find(|code| *code == refusal.error)
}

#[cfg(test)]
mod tests;
