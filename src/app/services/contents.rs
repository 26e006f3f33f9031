//! What the files hold that the services' settings name: record types with their schemas, and the
//! definitions of views. All that is wrong in them is told at once.

use std::path::Path;

use serde_json::Value;

use crate::catalogue::RecordTypes;
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
        let mut mistakes = Vec::new();
        let types = types(config).unwrap_or_else(|wrong| {
            mistakes.extend(wrong);
            RecordTypes::default()
        });
        let views = views(config).unwrap_or_else(|wrong| {
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
            let told = |error: crate::catalogue::TypeError| {
                let problem = ConfigProblem::new(error.to_string(), "correct the schema, or leave it out");
                ConfigError::new(Place::Default, "catalogue.type.schema", problem)
            };
            mistakes.extend(errors.into_iter().map(told));
            Err(mistakes)
        }
    }
}

fn views(config: &ServicesConfig) -> Result<Vec<ViewDefinition>, Vec<ConfigError>> {
    let Some(file) = &config.views.file else { return Ok(Vec::new()) };
    let text = text(file).map_err(|mistake| vec![mistake])?;
    let types: Vec<String> = config.catalogue.types.iter().map(|known| known.name.clone()).collect();
    let types = if types.is_empty() { None } else { Some(types.as_slice()) };
    views::read(&file.display().to_string(), &text, types)
}

fn text(file: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(file).map_err(|error| unusable(file, &error.to_string()))
}

fn unusable(file: &Path, why: &str) -> ConfigError {
    let problem = ConfigProblem::new(why.to_owned(), "correct it");
    ConfigError::new(Place::File(file.display().to_string().into()), "", problem)
}
