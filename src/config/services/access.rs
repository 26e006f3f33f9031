//! `[access]`: who may read and who may write, as the services' file says it. The rights themselves
//! are a record ([`crate::access::record`]).

use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::config::access::WhenUnknown;
use crate::config::error::ConfigProblem;
use crate::config::settings::SettingKind;
use crate::config::table::{list, settings};
use crate::config::tree::Raw;
use crate::config::value::{Read, read_by, text, url, words};

settings! {
    /// `[access]`
    #[derive(Clone, Debug)]
    pub struct AccessConfig in Access {
        /// `observe` counts what `enforce` would refuse, and refuses nothing.
        mode: AccessMode = ACCESS_MODE(words::<AccessMode>(), Is("off")) Restart;
        /// Audience (`aud`) of tokens for the catalogue.
        catalogue_audience: String = ACCESS_CATALOGUE_AUDIENCE(Text, Is("")) Restart;
        /// Audience (`aud`) of tokens for the regions' nodes; another one than the catalogue's.
        region_audience: String = ACCESS_REGION_AUDIENCE(Text, Is("")) Restart;
        /// Audience (`aud`) of tokens for the services' admin ports, where other machines reach these.
        operate_audience: String = ACCESS_OPERATE_AUDIENCE(Text, Is("")) Restart;
        /// Longest time from now to the `exp` of a token; a longer one is refused.
        max_lifetime: Duration = ACCESS_MAX_LIFETIME(seconds(MINUTE, 7 * DAY), Is("24h")) Restart;
        /// Age of a node's grants from which `when_unknown` decides.
        max_age: Duration = ACCESS_MAX_AGE(seconds(MINUTE, 7 * DAY), Is("1h")) Restart;
        /// With grants older than that: `serve` goes on by them, `refuse` answers 503.
        when_unknown: WhenUnknown = ACCESS_WHEN_UNKNOWN(words::<WhenUnknown>(), Is("serve")) Restart;
        /// Age from which keys that were fetched from an issuer are no longer used.
        max_key_age: Duration = ACCESS_MAX_KEY_AGE(seconds(10 * MINUTE, 7 * DAY), Is("24h")) Restart;
        /// A file with principals and consumers that may do nothing, whatever the grants say.
        deny_file: Option<PathBuf> = ACCESS_DENY_FILE(File, Is("")) Restart;
        /// Those who sign tokens.
        issuers: Vec<IssuerConfig> = list[];
        /// Those who may write the grants, whatever the grants say.
        admins: Vec<AdminConfig> = list[];
    }
}

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

settings! {
    /// `[[access.admin]]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AdminConfig in GrantsAdmin {
        /// The issuer of the admin's tokens.
        iss: String = ADMIN_ISS(Text, Required("https://issuer-{N}.invalid")) Restart;
        /// The subject of the admin's tokens, written out.
        sub: String = ADMIN_SUB(Text, Required("admin-{N}")) Restart;
    }
}

words! {
    /// Extent to which callers are checked.
    #[derive(Default)]
    pub enum AccessMode {
        #[default]
        Off,
        Observe,
        Enforce,
    }
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
