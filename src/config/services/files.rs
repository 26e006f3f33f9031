//! Looks at the files that the services' settings name.

use std::path::Path;

use super::super::certificates::{self, UnusableFile};
use super::super::file::content;
use super::super::files::directory;
use super::super::scope::Collector;
use super::super::settings::Setting;
use super::access::ACCESS_DENY_FILE;
use super::config::{self as schema, EngineConfig, ServicesConfig};
use crate::config::error::ConfigProblem;
use crate::config::files::issuers;
use crate::config::{ServerCertificate, limits};
use crate::model::time::Clock;

/// Notes every file that is missing, unreadable or too large, and every schema that is not JSON.
pub(super) fn check(collector: &mut Collector, config: &ServicesConfig) {
    for (at, known) in config.catalogue.types.iter().enumerate() {
        if let Some(file) = &known.schema {
            note(
                collector,
                &schema::TYPE_SCHEMA,
                Some(at),
                text(file).and_then(|text| json(file, &text, "a JSON Schema")),
            );
        }
    }
    issuers(collector, &config.access.issuers);
    if let Some(file) = &config.access.deny_file {
        note(collector, &ACCESS_DENY_FILE, None, text(file).map(drop));
    }
    if let Some(file) = &config.views.file {
        note(collector, &schema::VIEWS_FILE, None, text(file).map(drop));
    }
    let regions = config.regions.iter().enumerate().map(|(at, region)| (Some(at), region.tls.server.as_ref()));
    let services = [&config.catalogue.tls.server, &config.views.tls.server].map(|server| (None, server.as_ref()));
    for (item, server) in services.into_iter().chain(regions) {
        if let Some(server) = server {
            certificate(collector, item, server);
        }
    }
    if let EngineConfig::Embedded { directory: file } = &config.engine {
        directory(collector, &schema::ENGINE_DIRECTORY, file);
        writable(collector, file);
    }
}

/// Checks that a certificate and its key can be used, and belong together; and the CAs of callers.
fn certificate(collector: &mut Collector, item: Option<usize>, server: &ServerCertificate) {
    let now = Clock::System.wall();
    let pair = certificates::read_server(server, now).map(|read| read.warnings);
    let authorities = certificates::read_client_ca(server, now).map(|read| read.map_or_else(Vec::new, |read| read.1));
    for read in [pair, authorities] {
        match read {
            Ok(warnings) => warnings.into_iter().for_each(|(setting, text)| collector.warn_of(setting, item, text)),
            Err(UnusableFile { setting, wrong }) => note(collector, setting, item, Err(wrong)),
        }
    }
}

fn note(
    collector: &mut Collector,
    setting: &'static Setting,
    item: Option<usize>,
    looked: Result<(), ConfigProblem>,
) {
    if let Err(wrong) = looked {
        let place = collector.origins.place(setting, item);
        collector.error(setting, item, place, wrong);
    }
}

/// The engine's directory, or its parent if it is still to be made.
fn writable(collector: &mut Collector, directory: &Path) {
    let shown = directory.display();
    if directory.exists() && !directory.is_dir() {
        let wrong =
            ConfigProblem::new(format!("{shown} is not a directory"), "name one, or a path where one can be made");
        return note(collector, &schema::ENGINE_DIRECTORY, None, Err(wrong));
    }
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = if directory.exists() { directory } else { parent };
    // That it does not exist has been reported.
    if written.is_dir()
        && let Err(why) = rustix::fs::access(written, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
    {
        let wrong = ConfigProblem::new(
            format!("this user cannot write into {}: {why}", written.display()),
            "correct its owner and permissions, or name another directory",
        );
        note(collector, &schema::ENGINE_DIRECTORY, None, Err(wrong));
    }
}

fn text(file: &Path) -> Result<String, ConfigProblem> {
    let shown = file.display().to_string();
    String::from_utf8(content(file, &shown, limits::SCHEMA_BYTES, "name the right file")?).map_err(|_| {
        let what = format!("{shown} cannot be read: stream did not contain valid UTF-8");
        ConfigProblem::new(what, "create it, or correct the path and its permissions")
    })
}

fn json(file: &Path, text: &str, of: &str) -> Result<(), ConfigProblem> {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(_) => Ok(()),
        Err(error) => {
            let what = format!("{} is not JSON: {error}", file.display());
            Err(ConfigProblem::new(what, format!("correct it, or name a file with {of}")))
        }
    }
}
