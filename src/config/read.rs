//! From a file and the environment to a [`Config`]: each setting is read by the schema, then
//! [`super::checks`] looks at them together.
//!
//! All errors are reported at once, each with its place, and no text, however broken, makes this
//! panic.

use std::io::Read as _;
use std::path::Path;

use super::listen::Admin;
use super::schema::SIDECAR;
use super::scope::{Collector, Origins};
use super::settings::{Schema, Section, Setting};
use super::sidecar::Config;
use super::table::section;
use super::tree::{self, Syntax, TomlTable};
use super::{checks, files, variables};
use crate::config::error::{ConfigError, ConfigProblem, Place};
use crate::config::limits;

/// Reads the file (`None`: the environment alone), lays the environment's variables over it, and
/// checks everything, including the files that it names.
///
/// # Errors
/// Every error, in the order of the file and then of the variables.
pub fn load(
    path: Option<&Path>,
    env: impl Iterator<Item = (String, String)>,
) -> Result<(Config, Origins), Vec<ConfigError>> {
    loaded(&SIDECAR, path, env, |collector, root| {
        let config = checked(collector, root);
        files::check(collector, &config);
        config
    })
}

/// Like [`load`], but without looking at the files that the settings name: for places that do not
/// have the sidecar's secrets, such as a pipeline or a scheduled janitor.
///
/// # Errors
/// Every error, in the order of the file and then of the variables.
pub fn load_without_files(
    path: Option<&Path>,
    env: impl Iterator<Item = (String, String)>,
) -> Result<(Config, Origins), Vec<ConfigError>> {
    loaded(&SIDECAR, path, env, checked)
}

/// Reads file and environment by `schema`; `config` makes of them what the program uses.
pub(super) fn loaded<C>(
    schema: &'static Schema,
    path: Option<&Path>,
    env: impl Iterator<Item = (String, String)>,
    config: impl FnOnce(&mut Collector, &TomlTable) -> C,
) -> Result<(C, Origins), Vec<ConfigError>> {
    let (mut root, syntax) = match path {
        Some(path) => {
            let text = file_text(path).map_err(|error| vec![error])?;
            tree::parse(&path.display().to_string(), &text)
        }
        None => (variables::nowhere(), Syntax::default()),
    };
    let (errors, warnings) = variables::overlay(schema, &mut root, env);
    let mut collector = Collector::new(schema, root.place.clone());
    collector.errors = errors;
    collector.origins.warnings = warnings;
    finish(collector, &root, syntax, config)
}

/// Reads a text without the environment, and without looking at the files that it names.
///
/// # Errors
/// Every error, in the order of the text.
pub fn from_toml(text: &str) -> Result<Config, Vec<ConfigError>> {
    from_toml_with_origins(text).map(|(config, _)| config)
}

/// Like [`from_toml`], and also returns where each setting came from.
///
/// # Errors
/// Every error, in the order of the text.
pub fn from_toml_with_origins(text: &str) -> Result<(Config, Origins), Vec<ConfigError>> {
    let (root, syntax) = tree::parse("nearside.toml", text);
    finish(Collector::new(&SIDECAR, root.place.clone()), &root, syntax, checked)
}

/// The configuration, or every error in it.
fn finish<C>(
    mut collector: Collector,
    root: &TomlTable,
    syntax: Syntax,
    config: impl FnOnce(&mut Collector, &TomlTable) -> C,
) -> Result<(C, Origins), Vec<ConfigError>> {
    collector.check_sections(root);
    let config = config(&mut collector, root);
    let Collector { schema, mut origins, mut errors, .. } = collector;
    if !syntax.errors.is_empty() {
        // A value that TOML could not read is reported already, and so is all that may have gone
        // missing with it.
        let known = &syntax.errors;
        errors.retain(|error| !syntax.lost && !known.iter().any(|known| same_line(&known.place, &error.place)));
    }
    errors.extend(syntax.errors);
    errors.sort();
    errors.dedup();
    origins.warnings.sort();
    origins.settings.sort_by_key(|known| (known.home(), known.item, schema.rank(known.setting)));
    if errors.is_empty() { Ok((config, origins)) } else { Err(errors) }
}

fn same_line(one: &Place, other: &Place) -> bool {
    match (one, other) {
        (Place::At { line: one, .. }, Place::At { line: other, .. }) => one == other,
        _ => false,
    }
}

/// The text of the file, within [`limits::CONFIG_BYTES`].
fn file_text(path: &Path) -> Result<String, ConfigError> {
    let name: std::sync::Arc<str> = path.display().to_string().into();
    let mut bytes = Vec::new();
    let read =
        crate::config::file::open(path).and_then(|file| file.take(limits::CONFIG_BYTES + 1).read_to_end(&mut bytes));
    let unusable = match read {
        Err(error) => Some(format!("cannot be read: {error}")),
        Ok(length) if length as u64 > limits::CONFIG_BYTES => {
            Some(format!("larger than {}", bytesize::ByteSize(limits::CONFIG_BYTES)))
        }
        Ok(_) => None,
    };
    if let Some(what) = unusable {
        let problem = ConfigProblem::new(what, "name a configuration file with --config");
        return Err(ConfigError::new(Place::File(name), "", problem));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        let last = valid.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let column = String::from_utf8_lossy(last).chars().count() + 1;
        let place = Place::At { file: name.clone(), line, column };
        ConfigError::new(place, "", ConfigProblem::new("not UTF-8", "save the file as UTF-8"))
    })
}

/// The settings, each by itself and then together.
fn checked(collector: &mut Collector, root: &TomlTable) -> Config {
    let mut config = Config::read(collector, root);
    config.service.name_aws_regions();
    checks::check(collector, &config);
    config
}

/// Settings of the admin side that the environment alone has, for a command that is given no file.
///
/// # Errors
/// Every error in the variables of this section.
pub fn admin_alone(env: impl Iterator<Item = (String, String)>) -> Result<Admin, Vec<ConfigError>> {
    let ours: Vec<String> = SIDECAR.settings_of(Section::Admin).map(Setting::variable).collect();
    let mut root = variables::nowhere();
    let (strays, warnings) = variables::overlay(&SIDECAR, &mut root, env.filter(|(known, _)| ours.contains(known)));
    let mut collector = Collector::new(&SIDECAR, root.place.clone());
    collector.errors = strays;
    collector.origins.warnings = warnings;
    // A client does not mind who else reaches the address.
    let admin = section(&mut collector, &root);
    if collector.errors.is_empty() { Ok(admin) } else { Err(collector.errors) }
}

#[cfg(test)]
mod tests;
