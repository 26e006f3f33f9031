//! What the files hold that the services' settings name: record types with their schemas, and the
//! definitions of views. All that is wrong in them is told at once.

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

    /// What is allowed in them but probably not meant.
    pub fn warnings(&self, config: &ServicesConfig) -> Vec<Warning> {
        let warning = |(name, pointer): (&str, String)| Warning {
            place: schema_of(config, name),
            text: format!(
                "the schema of `{name}` refers to itself by more than one branch at `{pointer}`: the work to check a \
                 record may double with each level, and a record for which it is too much is refused with 422 \
                 `schema-cost`; tell the branches apart by a `const` in each, or nest less"
            ),
        };
        self.types.costly().map(warning).collect()
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
        mistakes.extend(unknown_views(config, &views));
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
    schema_of(config, name)
}

fn schema_of(config: &ServicesConfig, name: &str) -> Place {
    let file = config.catalogue.types.iter().find(|known| known.name == name).and_then(|known| known.schema.as_ref());
    file.map_or(Place::Default, |file| Place::File(file.display().to_string().into()))
}

fn views(config: &ServicesConfig, known: Option<&[String]>) -> Result<Vec<ViewDefinition>, Vec<ConfigError>> {
    let Some(file) = &config.views.file else { return Ok(Vec::new()) };
    let text = text(file).map_err(|mistake| vec![mistake])?;
    views::read(&file.display().to_string(), &text, known)
}

/// What regions are told to take, and nobody makes.
fn unknown_views(config: &ServicesConfig, views: &[ViewDefinition]) -> Vec<ConfigError> {
    // A file that is not there, or is itself mistaken, tells nothing of what there is.
    let Some(file) = config.views.file.as_ref().filter(|_| !views.is_empty()) else { return Vec::new() };
    let known = || views.iter().map(|view| view.name.as_str());
    let taken = config.regions.iter().flat_map(|region| region.views.iter().map(move |view| (region, view)));
    let unknown = taken.filter(|(_, view)| known().all(|name| name != **view));
    let told = unknown.map(|(region, view)| {
        let what = format!("region {} takes {}, which {} does not define", region.name, quoted(view), file.display());
        let instead = match nearest(view, known()) {
            Some(name) => format!("did you mean {name}?"),
            None => "write the name of a view".to_owned(),
        };
        ConfigError::new(Place::Default, "region.views", ConfigProblem::new(what, instead))
    });
    told.collect()
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
    fn a_view_that_a_region_takes_and_nobody_defines_is_a_mistake_with_the_nearest_name() {
        for taken in ["", "\"limits\""] {
            assert!(read(taken).is_ok(), "{taken}");
        }
        let told = read("\"limits\", \"limit\", \"zzz\"").err().unwrap();
        let told: Vec<_> = told.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 2, "{told:#?}");
        assert!(told[0].contains("region.views: region eu-west-1 takes `limit`"), "{told:#?}");
        assert!(told[0].ends_with("did you mean limits?") && told[1].contains("`zzz`"), "{told:#?}");
    }
}
