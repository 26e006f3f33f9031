//! Contents of the files that the services' settings name: record types with their schemas, and the
//! definitions of views. All errors in them are reported at once.

use std::path::Path;

use serde_json::Value;

use crate::catalogue::{RecordTypes, TypeError};
use crate::config::error::{ConfigError, ConfigProblem, Place, Warning, nearest, quoted};
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
    /// Every config error in them.
    pub fn read(config: &ServicesConfig) -> Result<Self, Vec<ConfigError>> {
        let known: Vec<String> = config.catalogue.types.iter().map(|known| known.name.clone()).collect();
        Self::read_with(config, Some(&known).filter(|known| !known.is_empty()).map(Vec::as_slice))
    }

    /// Errors in those of the files that can be read, where the settings have these `errors`
    /// already. A type whose setting is wrong is reported for that alone.
    pub fn errors(config: &ServicesConfig, errors: &[ConfigError]) -> Vec<ConfigError> {
        let found = if errors.iter().any(|error| error.setting.starts_with("catalogue")) {
            Self::read_with(config, None)
        } else {
            Self::read(config)
        };
        found
            .err()
            .unwrap_or_default()
            .into_iter()
            .filter(|error| !is_unreadable(error) || errors.is_empty())
            .collect()
    }

    /// Warnings of what is allowed in them but probably not meant.
    pub fn warnings(&self, config: &ServicesConfig) -> Vec<Warning> {
        self.types.costly().map(|(name, pointer)| Warning {
            place: schema_of(config, name),
            text: format!(
                "the schema of `{name}` refers to itself by more than one branch at `{pointer}`: the work to check a \
                 record may double with each level, and a record for which it is too much is refused with 422 \
                 `schema-cost`; tell the branches apart by a `const` in each, or nest less"
            ),
        }).collect()
    }

    fn read_with(config: &ServicesConfig, known: Option<&[String]>) -> Result<Self, Vec<ConfigError>> {
        let mut errors = Vec::new();
        let types = types(config).unwrap_or_else(|wrong| {
            errors.extend(wrong);
            RecordTypes::default()
        });
        let views = views(config, known).unwrap_or_else(|wrong| {
            errors.extend(wrong);
            Vec::new()
        });
        errors.extend(unknown_views(config, &views));
        if errors.is_empty() { Ok(Self { types, views }) } else { Err(errors) }
    }
}

fn types(config: &ServicesConfig) -> Result<RecordTypes, Vec<ConfigError>> {
    let (mut schemas, mut errors) = (Vec::new(), Vec::new());
    for known in &config.catalogue.types {
        let schema = known.schema.as_deref().map(|file| {
            let text = text(file)?;
            serde_json::from_str(&text).map_err(|error| unusable(file, &error.to_string()))
        });
        match schema.unwrap_or(Ok(Value::Bool(true))) {
            Ok(schema) => schemas.push((known.name.clone(), schema)),
            Err(error) => errors.push(error),
        }
    }
    let compiled = RecordTypes::compile(schemas);
    match compiled {
        Ok(types) if errors.is_empty() => Ok(types),
        Ok(_) => Err(errors),
        Err(uncompiled) => {
            errors.extend(uncompiled.into_iter().map(|error| {
                let problem = ConfigProblem::new(error.to_string(), "correct the schema, or leave it out");
                ConfigError::new(place_of(config, &error), "catalogue.type.schema", problem)
            }));
            Err(errors)
        }
    }
}

/// The file with the schema that is wrong.
fn place_of(config: &ServicesConfig, error: &TypeError) -> Place {
    let TypeError::Schema { name, .. } = error else { return Place::Default };
    schema_of(config, name)
}

fn schema_of(config: &ServicesConfig, name: &str) -> Place {
    let file = config.catalogue.types.iter().find(|known| known.name == name).and_then(|known| known.schema.as_ref());
    file.map_or(Place::Default, |file| Place::File(file.display().to_string().into()))
}

fn views(config: &ServicesConfig, known: Option<&[String]>) -> Result<Vec<ViewDefinition>, Vec<ConfigError>> {
    let Some(file) = &config.views.file else { return Ok(Vec::new()) };
    let text = text(file).map_err(|error| vec![error])?;
    views::read(&file.display().to_string(), &text, known)
}

/// Views that regions are to take, and nobody makes.
fn unknown_views(config: &ServicesConfig, views: &[ViewDefinition]) -> Vec<ConfigError> {
    // A file that is not there, or is itself wrong, tells nothing of what there is.
    let Some(file) = config.views.file.as_ref().filter(|_| !views.is_empty()) else { return Vec::new() };
    let known = || views.iter().map(|view| view.name.as_str());
    let taken = config.regions.iter().flat_map(|region| region.views.iter().map(move |view| (region, view)));
    let unknown = taken.filter(|(_, view)| known().all(|name| name != **view));
    let reported = unknown.map(|(region, view)| {
        let what = format!("region {} takes {}, which {} does not define", region.name, quoted(view), file.display());
        let instead = match nearest(view, known()) {
            Some(name) => format!("did you mean {name}?"),
            None => "write the name of a view".to_owned(),
        };
        ConfigError::new(Place::Default, "region.views", ConfigProblem::new(what, instead))
    });
    reported.collect()
}

fn text(file: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(file).map_err(|error| unusable(file, &error.to_string()))
}

/// True for errors of [`unusable`] that the check of the settings reports too.
const fn is_unreadable(error: &ConfigError) -> bool {
    error.setting.is_empty() && matches!(error.place, Place::File(_))
}

fn unusable(file: &Path, why: &str) -> ConfigError {
    let problem = ConfigProblem::new(why.to_owned(), "correct it");
    ConfigError::new(Place::File(file.display().to_string().into()), "", problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::services::{ServiceRole, load};

    const VIEWS: &str = "[[view]]\nname = \"limits\"\ndefinition = 1\nfrom = \"tenant\"\n\
                         [view.fields]\nusers = \"/limits/users\"\n";

    fn read(views: &str) -> Result<Contents, Vec<ConfigError>> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("views.toml");
        std::fs::write(&file, VIEWS).unwrap();
        let text = format!(
            "[engine]\nkind = \"memory\"\n[[catalogue.type]]\nname = \"tenant\"\n[views]\nfile = \"{}\"\n\
             [[region]]\nname = \"eu-west-1\"\nviews = [{views}]\n",
            file.display()
        );
        let service = directory.path().join("service.toml");
        std::fs::write(&service, text).unwrap();
        let (config, _) = load(ServiceRole::Region, Some(&service), std::iter::empty()).unwrap();
        Contents::read(&config)
    }

    #[test]
    fn undefined_view_suggests_nearest_name() {
        for taken in ["", "\"limits\""] {
            assert!(read(taken).is_ok(), "{taken}");
        }
        let reported = read("\"limits\", \"limit\", \"zzz\"").err().unwrap();
        let reported: Vec<_> = reported.iter().map(ToString::to_string).collect();
        assert_eq!(reported.len(), 2, "{reported:#?}");
        assert!(reported[0].contains("region.views: region eu-west-1 takes `limit`"), "{reported:#?}");
        assert!(reported[0].ends_with("did you mean limits?") && reported[1].contains("`zzz`"), "{reported:#?}");
    }
}
