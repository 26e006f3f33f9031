//! Looks at the files that the services' settings name.

use std::io::Read as _;
use std::path::Path;

use super::super::file::open;
use super::super::files::directory;
use super::super::scope::Collector;
use super::super::settings::{Setting, services as schema};
use super::{EngineConfig, ServicesConfig};
use crate::config::error::ConfigProblem;
use crate::config::limits;

/// Notes every file that is missing, unreadable or too large, and every schema that is not JSON.
pub(super) fn check(ledger: &mut Collector, config: &ServicesConfig) {
    for (at, known) in config.catalogue.types.iter().enumerate() {
        if let Some(file) = &known.schema {
            note(ledger, &schema::TYPE_SCHEMA, Some(at), text(file).and_then(|text| json(file, &text)));
        }
    }
    if let Some(file) = &config.views.file {
        note(ledger, &schema::VIEWS_FILE, None, text(file).map(drop));
    }
    if let EngineConfig::Embedded { directory: file } = &config.engine {
        directory(ledger, &schema::ENGINE_DIRECTORY, file);
        writable(ledger, file);
    }
}

fn note(ledger: &mut Collector, setting: &'static Setting, item: Option<usize>, looked: Result<(), ConfigProblem>) {
    if let Err(wrong) = looked {
        let place = ledger.origins.place(setting, item);
        ledger.mistake(setting, item, place, wrong);
    }
}

/// The engine's directory, or its parent if it is still to be made.
fn writable(ledger: &mut Collector, directory: &Path) {
    let shown = directory.display();
    if directory.exists() && !directory.is_dir() {
        let wrong =
            ConfigProblem::new(format!("{shown} is not a directory"), "name one, or a path where one can be made");
        return note(ledger, &schema::ENGINE_DIRECTORY, None, Err(wrong));
    }
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = if directory.exists() { directory } else { parent };
    // That it does not exist has been told.
    if written.is_dir()
        && let Err(why) = rustix::fs::access(written, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
    {
        let wrong = ConfigProblem::new(
            format!("this user cannot write into {}: {why}", written.display()),
            "correct its owner and permissions, or name another directory",
        );
        note(ledger, &schema::ENGINE_DIRECTORY, None, Err(wrong));
    }
}

fn text(file: &Path) -> Result<String, ConfigProblem> {
    let mut text = String::new();
    let read = open(file).and_then(|open| open.take(limits::SCHEMA_BYTES + 1).read_to_string(&mut text));
    match read {
        Err(error) => {
            let what = format!("{} cannot be read: {error}", file.display());
            Err(ConfigProblem::new(what, "create it, or correct the path and its permissions"))
        }
        Ok(bytes) if bytes as u64 > limits::SCHEMA_BYTES => {
            let most = bytesize::ByteSize(limits::SCHEMA_BYTES);
            Err(ConfigProblem::new(format!("{} is larger than {most}", file.display()), "name the right file"))
        }
        Ok(_) => Ok(text),
    }
}

fn json(file: &Path, text: &str) -> Result<(), ConfigProblem> {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(_) => Ok(()),
        Err(error) => {
            let what = format!("{} is not JSON: {error}", file.display());
            Err(ConfigProblem::new(what, "correct it, or name a file with a JSON Schema"))
        }
    }
}
