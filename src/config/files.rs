//! Looks at the files that a configuration names, to find out whether they can be read before
//! anyone depends on them. The program opens the same files later. Nothing of a file's content is
//! kept or reported.

use std::io::Read as _;
use std::path::Path;

use aws_lc_rs::digest;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use super::certificates::{self, UnusableFile};
use super::file::{content, open, open_regular};
use super::issuers::{IssuerConfig, KeysSource};
use super::schema;
use super::scope::Collector;
use super::settings::Setting;
use super::{Compression, Config, CredentialSource, Credentials, DictionaryFile, Minting, RegionConfig};
use crate::config::error::ConfigProblem;
use crate::config::limits;
use crate::model::time::Clock;

/// Notes every file that is missing, unreadable, empty or too large, and every directory that is
/// missing.
pub(super) fn check(collector: &mut Collector, config: &Config) {
    for (at, route) in config.service.routes.iter().enumerate() {
        if let Some(credentials) = route.identity.own() {
            own_credentials(collector, at, &credentials.source);
        }
        let candidate = route.candidate.as_ref().and_then(|candidate| candidate.credentials.as_ref());
        if let Some(file) = candidate.and_then(Credentials::file) {
            secret(collector, &schema::CANDIDATE_CREDENTIALS_FILE, Some(at), file);
        }
        if let Some(message) = &route.payload.message {
            descriptors(collector, at, &message.schema.file);
        }
        if let Some(Compression::Zstd(Some(named))) = &route.compression
            && let Err((setting, wrong)) = dictionary(named)
        {
            let place = collector.origins.place(setting, Some(at));
            collector.error(setting, Some(at), place, wrong);
        }
    }
    for (at, region) in config.service.regions.iter().enumerate() {
        pem_files(collector, at, region);
    }
    if let Some(file) = &config.listen.token_file {
        secret(collector, &schema::LISTEN_TOKEN_FILE, None, file);
    }
    if let Some(file) = &config.admin.token_file {
        secret(collector, &schema::ADMIN_TOKEN_FILE, None, file);
    }
    if let Some(unix) = &config.admin.unix {
        directory(collector, &schema::ADMIN_UNIX, &unix.path);
    }
    if let Some(unix) = &config.listen.unix {
        directory(collector, &schema::LISTEN_UNIX, &unix.path);
    }
    issuers(collector, &config.access.issuers);
    if let Some(file) = &config.freshness.state_file {
        directory(collector, &schema::FRESHNESS_STATE_FILE, file);
    }
}

/// Checks the file that credentials are in, or are minted with.
fn own_credentials(collector: &mut Collector, at: usize, source: &CredentialSource) {
    match source {
        CredentialSource::File(source) => secret(collector, &schema::CREDENTIALS_FILE, Some(at), &source.file),
        CredentialSource::Minted(Minting::Sts(_) | Minting::Sigv4(_)) => {}
        CredentialSource::Minted(Minting::Oauth(oauth)) => {
            secret(collector, &schema::CREDENTIALS_SECRET_FILE, Some(at), &oauth.secret_file);
            if let Some(file) = &oauth.ca_file {
                authorities(collector, &schema::CREDENTIALS_CA_FILE, at, file);
            }
        }
        CredentialSource::Minted(Minting::Jwt(jwt)) => signing_key(collector, at, &jwt.key_file),
    }
}

/// Checks the issuers' files: their keys, and the CAs of the hosts that have them.
pub(super) fn issuers(collector: &mut Collector, issuers: &[IssuerConfig]) {
    for (at, issuer) in issuers.iter().enumerate() {
        if let KeysSource::File(keys) = &issuer.keys
            && let Err(wrong) = public_keys(keys)
        {
            let place = collector.origins.place(&schema::ISSUER_KEYS, Some(at));
            collector.error(&schema::ISSUER_KEYS, Some(at), place, wrong);
        }
        if let Some(file) = &issuer.ca_file {
            authorities(collector, &schema::ISSUER_CA_FILE, at, file);
        }
    }
}

/// Checks that a file holds JSON. What it says of keys is read by those who verify tokens.
fn public_keys(file: &Path) -> Result<(), ConfigProblem> {
    let shown = file.display().to_string();
    let content = content(file, &shown, limits::SCHEMA_BYTES, "name the right file")?;
    serde_json::from_slice::<serde_json::Value>(&content).map(drop).map_err(|error| {
        ConfigProblem::new(format!("{shown} is not JSON: {error}"), "correct it, or name a file with a JWK Set")
    })
}

/// Checks the CAs of a server that is asked.
fn authorities(collector: &mut Collector, setting: &'static Setting, at: usize, file: &Path) {
    match certificates::read_authorities(setting, file, Clock::System.wall()) {
        Ok(warnings) => warnings.into_iter().for_each(|(_, text)| collector.warn_of(setting, Some(at), text)),
        Err(UnusableFile { setting, wrong }) => {
            let place = collector.origins.place(setting, Some(at));
            collector.error(setting, Some(at), place, wrong);
        }
    }
}

/// Checks a file with a private key. Whether it can sign is found out by those who sign.
fn signing_key(collector: &mut Collector, at: usize, file: &Path) {
    let setting = &schema::CREDENTIALS_KEY_FILE;
    let shown = format!("the key file {}", file.display());
    let suggestion = "name a PEM file with an RSA or P-256 private key";
    let wrong = match content(file, &shown, limits::SIGNING_KEY_BYTES, suggestion) {
        Err(wrong) => wrong,
        Ok(content) if PrivateKeyDer::from_pem_slice(&content).is_ok() => return,
        Ok(_) => ConfigProblem::new(format!("{shown} holds no private key in PEM form"), suggestion),
    };
    let place = collector.origins.place(setting, Some(at));
    collector.error(setting, Some(at), place, wrong);
}

/// Checks a file with descriptors. What it describes is read by those who know what a schema is.
fn descriptors(collector: &mut Collector, at: usize, file: &Path) {
    let length = open_regular(file).and_then(|file| file.metadata()).map(|about| about.len());
    let (what, suggestion) = match length {
        Ok(length) if length <= limits::DESCRIPTOR_BYTES => return,
        Ok(length) => (
            format!(
                "the schema {} has {length} bytes; at most {} are read",
                file.display(),
                limits::DESCRIPTOR_BYTES
            ),
            "name a FileDescriptorSet, and leave out what the message does not use",
        ),
        Err(error) => {
            let what = format!("the schema {} cannot be read: {error}", file.display());
            (what, "create it, or correct the path and its permissions")
        }
    };
    let place = collector.origins.place(&schema::ROUTE_SCHEMA, Some(at));
    collector.error(&schema::ROUTE_SCHEMA, Some(at), place, ConfigProblem::new(what, suggestion));
}

/// Checks a compression dictionary against its hash.
fn dictionary(named: &DictionaryFile) -> Result<(), (&'static Setting, ConfigProblem)> {
    let shown = named.file.display();
    let setting = &schema::DICTIONARY_FILE;
    let mut content = Vec::new();
    open(&named.file).and_then(|open| open.take(limits::DICTIONARY_BYTES + 1).read_to_end(&mut content)).map_err(
        |error| {
            let what = format!("the dictionary {shown} cannot be read: {error}");
            (setting, ConfigProblem::new(what, "create it, or correct the path and its permissions"))
        },
    )?;
    if content.is_empty() || content.len() as u64 > limits::DICTIONARY_BYTES {
        let what = format!("the dictionary {shown} is empty, or larger than {} bytes", limits::DICTIONARY_BYTES);
        return Err((setting, ConfigProblem::new(what, "name a dictionary, such as `zstd --train` writes")));
    }
    let hash = digest::digest(&digest::SHA256, &content);
    let found: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    if !found.eq_ignore_ascii_case(&named.hash) {
        let what = format!("the hash of {shown} is {found}");
        let suggestion = "name the file that the regions have, or write its hash";
        return Err((&schema::DICTIONARY_HASH, ConfigProblem::new(what, suggestion)));
    }
    Ok(())
}

/// Checks a file that holds a token.
fn secret(collector: &mut Collector, setting: &'static Setting, item: Option<usize>, file: &Path) {
    if let Err(wrong) = read_secret(file) {
        let place = collector.origins.place(setting, item);
        collector.error(setting, item, place, wrong);
    }
}

fn read_secret(file: &Path) -> Result<(), ConfigProblem> {
    let shown = format!("the token file {}", file.display());
    let content = content(file, &shown, limits::TOKEN_BYTES, "name a file with the token")?;
    let token = content.trim_ascii();
    if token.is_empty() {
        return Err(ConfigProblem::new(format!("{shown} is empty"), "write the token into it"));
    }
    if http::HeaderValue::from_bytes(token).is_err() {
        let what = format!("{shown} holds what no header can carry");
        return Err(ConfigProblem::new(what, "write the token on one line, without control characters"));
    }
    Ok(())
}

/// Checks the files of a region's `tls`.
fn pem_files(collector: &mut Collector, at: usize, region: &RegionConfig) {
    match certificates::read(&region.tls, Clock::System.wall()) {
        Ok(read) => {
            for (setting, text) in read.warnings {
                let place = collector.origins.place(setting, Some(at));
                collector.warn(place, format!("region {}: {text}", region.name));
            }
        }
        Err(UnusableFile { setting, wrong }) => {
            let place = collector.origins.place(setting, Some(at));
            collector.error(setting, Some(at), place, wrong);
        }
    }
}

/// Checks a file that is created when the program runs: its directory must exist.
pub(super) fn directory(collector: &mut Collector, setting: &'static Setting, file: &Path) {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !parent.is_dir() {
        let wrong = ConfigProblem::new(
            format!("the directory {} does not exist", parent.display()),
            "create it, or name a file in one that exists",
        );
        let place = collector.origins.place(setting, None);
        collector.error(setting, None, place, wrong);
    }
}
