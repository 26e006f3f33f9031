//! `[[access.issuer]]`, of the services or of a sidecar: who signs the tokens that are believed.

use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::settings::SettingKind;
use super::table::settings;
use super::tree::Raw;
use super::value::{Read, read_by, text, url};
use crate::config::error::ConfigProblem;

settings! {
    /// `[[access.issuer]]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct IssuerConfig in Issuer {
        /// The `iss` of its tokens, compared byte for byte.
        iss: String = ISSUER_ISS(Text, Required("https://issuer-{N}.invalid")) Restart;
        /// Its public keys, a JWK Set (RFC 7517): in a file, at a URL, or by OpenID Connect discovery.
        keys: KeysSource = ISSUER_KEYS(KeysSource, Required("keys-{N}.json")) Restart;
        /// A file with the CAs of the host that keys are fetched from; without one, the machine's.
        ca_file: Option<PathBuf> = ISSUER_CA_FILE(File, Is("")) Restart;
        /// The claim that says who the caller is.
        subject: String = ISSUER_SUBJECT(Text, Is("sub")) Restart;
    }
}

/// Issuers whose tokens are believed at one port, and demands on these tokens.
#[derive(Clone, Debug)]
pub struct TrustedIssuers {
    pub issuers: Vec<IssuerConfig>,
    /// Audience that a token must name.
    pub audience: String,
    /// Audiences of ours: a token for two of them could be used by one at the other.
    pub own_audiences: Vec<String>,
    pub max_lifetime: Duration,
    pub max_key_age: Duration,
}

/// Place of an issuer's public keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeysSource {
    /// A JWK Set in a file, which is read again when it changes.
    File(PathBuf),
    /// A JWK Set at an `https` URL, which is fetched again every few minutes.
    Url(Url),
    /// The `jwks_uri` of the issuer's metadata (OpenID Connect Discovery 1.0, section 4).
    Discovery,
}

read_by! {
    KeysSource => keys_source;
}

fn keys_source(raw: &Raw, kind: SettingKind) -> Read<KeysSource> {
    let written = text(raw, kind)?;
    if written == "discovery" {
        return Ok(KeysSource::Discovery);
    }
    if !written.contains("://") {
        return Ok(KeysSource::File(PathBuf::from(written)));
    }
    if !written.starts_with("https://") {
        let what = "keys at a URL that is not https, where anybody on the way could put others";
        return Err(ConfigProblem::new(what, "write https://, or the path of a file"));
    }
    url(raw, kind).map(KeysSource::Url)
}
