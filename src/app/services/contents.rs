//! What the files hold that the services' settings name: record types with their schemas, and the
//! definitions of views. All that is wrong in them is told at once.

use std::path::Path;

use serde_json::Value;

use crate::catalogue::{RecordTypes, TypeError};
use crate::config::error::{ConfigError, ConfigProblem, Place};
use crate::config::services::ServicesConfig;
use crate::views;
use crate::views::definition::ViewDefinition;

#[derive(Clone)]
pub struct Contents {
    pub types: RecordTypes,
    pub views: Vec<ViewDefinition>,
}

impl Contents {
    /// Reads the files that `config` names. That they can be read, and what is JSON in them, was
    /// checked with the settings.
    ///
    /// # Errors
    /// Every mistake in them.
    pub fn read(config: &ServicesConfig) -> Result<Self, Vec<ConfigError>> {
        let known: Vec<String> = config.catalogue.types.iter().map(|known| known.name.clone()).collect();
        Self::read_with(config, Some(&known).filter(|known| !known.is_empty()).map(Vec::as_slice))
    }

    /// What is wrong in those of the files that can be read, where the settings have these
    /// `mistakes` already. A type whose setting is mistaken is nobody else's mistake.
    pub fn mistakes(config: &ServicesConfig, mistakes: &[ConfigError]) -> Vec<ConfigError> {
        let found = match mistakes.iter().any(|mistake| mistake.setting.starts_with("catalogue")) {
            true => Self::read_with(config, None),
            false => Self::read(config),
        };
        let is_new = |mistake: &ConfigError| !is_unreadable(mistake) || mistakes.is_empty();
        found.err().unwrap_or_default().into_iter().filter(is_new).collect()
    }

    fn read_with(config: &ServicesConfig, known: Option<&[String]>) -> Result<Self, Vec<ConfigError>> {
        let mut mistakes = Vec::new();
        let types = types(config).unwrap_or_else(|wrong| {
            mistakes.extend(wrong);
            RecordTypes::default()
        });
        let views = views(config, known).unwrap_or_else(|wrong| {
            mistakes.extend(wrong);
            Vec::new()
        });
        if mistakes.is_empty() { Ok(Self { types, views }) } else { Err(mistakes) }
    }
}

fn types(config: &ServicesConfig) -> Result<RecordTypes, Vec<ConfigError>> {
    let (mut schemas, mut mistakes) = (Vec::new(), Vec::new());
    for known in &config.catalogue.types {
        let schema = known.schema.as_deref().map(|file| {
            let text = text(file)?;
            serde_json::from_str(&text).map_err(|error| unusable(file, &error.to_string()))
        });
        match schema.unwrap_or(Ok(Value::Bool(true))) {
            Ok(schema) => schemas.push((known.name.clone(), schema)),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    let compiled = RecordTypes::compile(schemas);
    match compiled {
        Ok(types) if mistakes.is_empty() => Ok(types),
        Ok(_) => Err(mistakes),
        Err(errors) => {
            let told = |error: TypeError| {
                let problem = ConfigProblem::new(error.to_string(), "correct the schema, or leave it out");
                ConfigError::new(place_of(config, &error), "catalogue.type.schema", problem)
            };
            mistakes.extend(errors.into_iter().map(told));
            Err(mistakes)
        }
    }
}

/// The file with the schema that is wrong.
fn place_of(config: &ServicesConfig, error: &TypeError) -> Place {
    let TypeError::Schema { name, .. } = error else { return Place::Default };
    let file =
        config.catalogue.types.iter().find(|known| known.name == *name).and_then(|known| known.schema.as_ref());
    file.map_or(Place::Default, |file| Place::File(file.display().to_string().into()))
}

fn views(config: &ServicesConfig, known: Option<&[String]>) -> Result<Vec<ViewDefinition>, Vec<ConfigError>> {
    let Some(file) = &config.views.file else { return Ok(Vec::new()) };
    let text = text(file).map_err(|mistake| vec![mistake])?;
    views::read(&file.display().to_string(), &text, known)
}

fn text(file: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(file).map_err(|error| unusable(file, &error.to_string()))
}

/// Of [`unusable`]: the check of the settings says it too.
const fn is_unreadable(mistake: &ConfigError) -> bool {
    mistake.setting.is_empty() && matches!(mistake.place, Place::File(_))
}

fn unusable(file: &Path, why: &str) -> ConfigError {
    let problem = ConfigProblem::new(why.to_owned(), "correct it");
    ConfigError::new(Place::File(file.display().to_string().into()), "", problem)
}
