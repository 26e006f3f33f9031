//! Failures of the sidecar's own credentials. None shows a token, a secret or what an issuer wrote.

use std::path::PathBuf;

use crate::aws::failure::{CallFailure, CallFault};
use crate::config::limits::{SIGNING_KEY_BYTES, TOKEN_BYTES};

/// The files of the sidecar's own credentials could not be used. The operator has to fix it; a later
/// try may succeed.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error("the credentials file {0} cannot be read: {1}; create it or correct the route's credentials.file")]
    Unreadable(PathBuf, std::io::Error),
    #[error("the credentials file {0} does not hold one line of at most {1} bytes that a header may carry")]
    NotAValue(PathBuf, u64),
    #[error("a route's credentials cannot be minted: {0}")]
    Minting(#[from] MintError),
}

/// A token could not be minted. A later try may succeed.
#[derive(Debug, thiserror::Error)]
pub enum MintError {
    #[error("the key file {0} cannot be read: {1}; create it or correct the route's credentials.key_file")]
    KeyUnreadable(PathBuf, std::io::Error),
    #[error(
        "the key file {0} holds no private key that signs: at most {SIGNING_KEY_BYTES} bytes of PEM, an RSA key of 2048 \
         to 8192 bits (RS256) or one on P-256 (ES256)"
    )]
    Key(PathBuf),
    #[error("the secret file {0} cannot be read: {1}; create it or correct the route's credentials.secret_file")]
    SecretUnreadable(PathBuf, std::io::Error),
    #[error("the secret file {0} does not hold one line of at most {TOKEN_BYTES} bytes")]
    Secret(PathBuf),
    #[error("credentials.ca_file {0} cannot be used: {1}; write the CA's certificates into it, in PEM")]
    CaFile(PathBuf, String),
    #[error(
        "the HTTP client for the OAuth server could not be built: {0}; the image needs trusted CA certificates \
         (ca-certificates, or SSL_CERT_FILE)"
    )]
    Client(reqwest::Error),
    #[error(
        "the OAuth server {0} cannot be reached ({1}); let this process reach it, or correct credentials.token_url"
    )]
    Unreachable(String, &'static str),
    #[error("the OAuth server {server} answered {status}{}; {}", named(*.code), advice(*.code))]
    Refused { server: String, status: u16, code: Option<&'static str> },
    #[error("the OAuth server {0} answered with no token that can be used: {1}; it has to be mended there")]
    Answer(String, &'static str),
    #[error("AWS's STS gave no token in {region}: {failure}; {}", sts_advice(.failure))]
    Sts { region: String, failure: CallFailure },
    #[error("AWS's STS answered in {0} with no token that a header can carry")]
    StsAnswer(String),
    #[error(
        "there are no AWS keys to sign with: {0}; give the process a role (a task's, or a service account's), or keys"
    )]
    Keys(String),
    #[error("the token lives for {0} s, which is too short to use it; let its issuer give it minutes")]
    Life(u64),
    #[error("the token is too long for a header; shorten the iss, sub, audience or kid of the route's credentials")]
    Long,
    #[error("the issuer took too long")]
    Late,
}

fn named(code: Option<&'static str>) -> String {
    code.map_or(String::new(), |code| format!(" ({code})"))
}

const fn advice(code: Option<&'static str>) -> &'static str {
    match code {
        Some(code) if is_client(code) => "correct credentials.client_id or the secret in credentials.secret_file",
        Some(_) => "let the server grant this client credentials, with this scope and audience",
        None => "look at the server's own log",
    }
}

const fn is_client(code: &str) -> bool {
    matches!(code.as_bytes(), b"invalid_client")
}

const fn sts_advice(failure: &CallFailure) -> &'static str {
    match &failure.fault {
        CallFault::Denied(_) => {
            "let the role call sts:GetWebIdentityToken for this audience, and enable outbound web identity federation in \
             the account"
        }
        CallFault::Unreachable(_) => {
            "check the direct way to the region's STS endpoint (VPC endpoint, NAT, firewall; no proxy is used)"
        }
        CallFault::Credentials(_) => "give the process AWS credentials: a task's role, or a service account's",
        CallFault::Clock(_) => "set this machine's clock",
        _ => "nearside doctor tries again and shows the outcome",
    }
}
