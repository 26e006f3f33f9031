//! Looks at the files that a configuration names, to find out whether they can be read before
//! anyone depends on them. The program opens the same files later. Nothing of a file's content is
//! kept or reported.

use std::io::Read as _;
use std::path::Path;

use aws_lc_rs::digest;

use super::certificates::{self, UnusableFile};
use super::file::{open, open_regular};
use super::scope::Collector;
use super::settings::{self as schema, Setting};
use super::{Compression, Config, DictionaryFile, IdentityMode, RegionConfig};
use crate::config::error::ConfigProblem;
use crate::config::limits;
use crate::model::time::Clock;

/// Notes every file that is missing, unreadable, empty or too large, and every directory that is
/// missing.
pub(super) fn check(ledger: &mut Collector, config: &Config) {
    for (at, route) in config.service.routes.iter().enumerate() {
        if let IdentityMode::Sidecar(credentials) = &route.identity {
            secret(ledger, &schema::CREDENTIALS_FILE, Some(at), &credentials.file);
        }
        if let Some(own) = route.second.as_ref().and_then(|second| second.credentials.as_ref()) {
            secret(ledger, &schema::SECOND_CREDENTIALS_FILE, Some(at), &own.file);
        }
        if let Some(message) = &route.payload.message {
            descriptors(ledger, at, &message.schema.file);
        }
        if let Some(Compression::Zstd(Some(named))) = &route.compression
            && let Err((setting, wrong)) = dictionary(named)
        {
            let place = ledger.origins.place(setting, Some(at));
            ledger.mistake(setting, Some(at), place, wrong);
        }
    }
    for (at, region) in config.service.regions.iter().enumerate() {
        pem_files(ledger, at, region);
    }
    if let Some(file) = &config.listen.token_file {
        secret(ledger, &schema::LISTEN_TOKEN_FILE, None, file);
    }
    if let Some(file) = &config.admin.token_file {
        secret(ledger, &schema::ADMIN_TOKEN_FILE, None, file);
    }
    if let Some(unix) = &config.admin.unix {
        directory(ledger, &schema::ADMIN_UNIX, &unix.path);
    }
    if let Some(unix) = &config.listen.unix {
        directory(ledger, &schema::LISTEN_UNIX, &unix.path);
    }
    if let Some(file) = &config.freshness.state_file {
        directory(ledger, &schema::FRESHNESS_STATE_FILE, file);
    }
}

/// Checks a file with descriptors. What it describes is read by those who know what a schema is.
fn descriptors(ledger: &mut Collector, at: usize, file: &Path) {
    let length = open_regular(file).and_then(|file| file.metadata()).map(|about| about.len());
    let (what, instead) = match length {
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
    let place = ledger.origins.place(&schema::ROUTE_SCHEMA, Some(at));
    ledger.mistake(&schema::ROUTE_SCHEMA, Some(at), place, ConfigProblem::new(what, instead));
}

/// Checks a compression dictionary against its hash.
fn dictionary(named: &DictionaryFile) -> Result<(), (&'static Setting, ConfigProblem)> {
    let shown = named.file.display();
    let of_file = |what, instead| (&schema::DICTIONARY_FILE, ConfigProblem::new(what, instead));
    let mut content = Vec::new();
    open(&named.file).and_then(|open| open.take(limits::DICTIONARY_BYTES + 1).read_to_end(&mut content)).map_err(
        |error| {
            let what = format!("the dictionary {shown} cannot be read: {error}");
            of_file(what, "create it, or correct the path and its permissions")
        },
    )?;
    if content.is_empty() || content.len() as u64 > limits::DICTIONARY_BYTES {
        let what = format!("the dictionary {shown} is empty, or larger than {} bytes", limits::DICTIONARY_BYTES);
        return Err(of_file(what, "name a dictionary, such as `zstd --train` writes"));
    }
    let hash = digest::digest(&digest::SHA256, &content);
    let found: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    if !found.eq_ignore_ascii_case(&named.hash) {
        let what = format!("the hash of {shown} is {found}");
        let instead = "name the file that the regions have, or write its hash";
        return Err((&schema::DICTIONARY_HASH, ConfigProblem::new(what, instead)));
    }
    Ok(())
}

/// Checks a file that holds a token.
fn secret(ledger: &mut Collector, setting: &'static Setting, item: Option<usize>, file: &Path) {
    if let Err(wrong) = read_secret(file) {
        let place = ledger.origins.place(setting, item);
        ledger.mistake(setting, item, place, wrong);
    }
}

fn read_secret(file: &Path) -> Result<(), ConfigProblem> {
    let shown = file.display();
    let mut content = Vec::new();
    open(file).and_then(|open| open.take(limits::TOKEN_BYTES + 1).read_to_end(&mut content)).map_err(|error| {
        ConfigProblem::new(
            format!("the token file {shown} cannot be read: {error}"),
            "create it, or correct the path and its permissions",
        )
    })?;
    if content.len() as u64 > limits::TOKEN_BYTES {
        let most = bytesize::ByteSize(limits::TOKEN_BYTES);
        return Err(ConfigProblem::new(
            format!("the token file {shown} is larger than {most}"),
            "name a file with the token",
        ));
    }
    let token = content.trim_ascii();
    if token.is_empty() {
        return Err(ConfigProblem::new(format!("the token file {shown} is empty"), "write the token into it"));
    }
    if http::HeaderValue::from_bytes(token).is_err() {
        let what = format!("the token file {shown} holds what no header can carry");
        return Err(ConfigProblem::new(what, "write the token on one line, without control characters"));
    }
    Ok(())
}

/// Checks the files of a region's `tls`.
fn pem_files(ledger: &mut Collector, at: usize, region: &RegionConfig) {
    match certificates::read(&region.tls, Clock::System.wall()) {
        Ok(read) => {
            for (setting, text) in read.warnings {
                let place = ledger.origins.place(setting, Some(at));
                ledger.warn(place, format!("region {}: {text}", region.name));
            }
        }
        Err(UnusableFile { setting, wrong }) => {
            let place = ledger.origins.place(setting, Some(at));
            ledger.mistake(setting, Some(at), place, wrong);
        }
    }
}

/// Checks a file that is created when the program runs: its directory must exist.
pub(super) fn directory(ledger: &mut Collector, setting: &'static Setting, file: &Path) {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !parent.is_dir() {
        let wrong = ConfigProblem::new(
            format!("the directory {} does not exist", parent.display()),
            "create it, or name a file in one that exists",
        );
        let place = ledger.origins.place(setting, None);
        ledger.mistake(setting, None, place, wrong);
    }
}
