//! The configuration and the environment as commands read them; what is wrong with them is printed
//! here.

use std::path::Path;

use super::error::CommandError;
use super::paint;
use crate::aws::sdk_settings::{self, SdkSettings};
use crate::config::error::ConfigError;
use crate::config::scope::Origins;
use crate::config::{Config, CredentialSource, Minting, Transport, is_loopback, read};
use crate::shape::shapes::unusable_schemas;

/// Passes a configuration on, or prints its errors to standard error.
pub(super) fn reported(
    loaded: Result<(Config, Origins), Vec<ConfigError>>,
) -> Result<(Config, Origins), CommandError> {
    loaded.map_err(|errors| {
        tell(&errors);
        CommandError::Usage(String::new())
    })
}

/// A configuration whose routes' schemas can be used too, or every error in those. A reload, and
/// whatever else makes a core, finds them by itself.
pub(super) fn with_schemas(
    loaded: Result<(Config, Origins), Vec<ConfigError>>,
) -> Result<(Config, Origins), Vec<ConfigError>> {
    let (config, origins) = loaded?;
    let errors = unusable_schemas(&config, &origins);
    if errors.is_empty() { Ok((config, origins)) } else { Err(errors) }
}

/// The configuration for a command that uses none of the files it names.
pub(super) fn settings(path: Option<&Path>) -> Result<(Config, Origins), CommandError> {
    reported(read::load_without_files(path, variables()))
}

pub(super) fn tell(errors: &[ConfigError]) {
    let stderr = std::io::stderr();
    // If standard error is closed, nobody is left to tell.
    let _ = paint::errors(&mut stderr.lock(), errors, paint::Styles::of(&stderr));
}

/// The AWS SDK's settings, if this configuration has topics, or credentials of AWS, that it is needed for.
pub(super) fn sdk_settings(config: &Config) -> SdkSettings {
    let has_topics = config.service.regions.iter().any(|region| region.topic.is_some());
    let needs_aws = config
        .service
        .routes
        .iter()
        .filter_map(|route| route.identity.own())
        .any(|own| matches!(own.source, CredentialSource::Minted(Minting::Sts(_) | Minting::Sigv4(_))));
    let is_emulator = config.announcements.endpoint_url.as_ref().is_some_and(is_loopback);
    match config.announcements.transport {
        Transport::Sqs | Transport::Http { .. } if has_topics && !is_emulator => {
            sdk_settings::read(sdk_settings::variable)
        }
        _ if needs_aws && !is_emulator => sdk_settings::read(sdk_settings::variable),
        _ => SdkSettings::default(),
    }
}

/// Settings of the AWS SDK that are skipped; all errors are reported where AWS cannot be called
/// with them.
pub(super) fn usable_sdk(sdk: SdkSettings) -> Result<Vec<ConfigError>, CommandError> {
    if sdk.fatal.is_empty() {
        return Ok(sdk.ignored);
    }
    tell(&[sdk.fatal, sdk.ignored].concat());
    Err(CommandError::Usage(String::new()))
}

/// The environment. What is not Unicode gets replacement characters, which no setting accepts
/// unnoticed.
pub(super) fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
}
