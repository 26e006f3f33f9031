//! The settings of the services: one file for `nearside catalogue`, `nearside views` and
//! `nearside region`. Each process checks the whole file and uses its own part.

use std::path::Path;

use super::error::ConfigError;
use super::read as reading;
use super::schema::SERVICES;
use super::scope::Origins;

pub(in crate::config) mod access;
mod checks;
pub(in crate::config) mod config;
mod files;
mod role;
pub(in crate::config) mod tls;

pub use crate::config::access::WhenUnknown;
pub use crate::config::issuers::{IssuerConfig, KeysSource, TrustedIssuers};
pub use access::{AccessConfig, AccessMode, AdminConfig, AdminIdentity};
pub use config::{
    CatalogueConfig, EngineConfig, NodeCompression, RecordTypeConfig, ServedRegion, ServicesConfig, ViewsConfig,
};
pub use role::ServiceRole;
pub use tls::{CatalogueTls, ServedRegionTls, ViewsTls};

/// Reads the file (`None`: the environment alone), lays the environment's variables over it, and
/// checks everything, including the files that it names. What only one role needs must be there if
/// it is this one.
///
/// # Errors
/// Every error, in the order of the file and then of the variables.
pub fn load(
    role: ServiceRole,
    path: Option<&Path>,
    env: impl Iterator<Item = (String, String)>,
) -> Result<(ServicesConfig, Origins), Vec<ConfigError>> {
    load_with(role, path, env, |_, _, _| Vec::new())
}

/// Like [`load`], with more to be reported at once: `more` sees what was read, with stand-ins for what is
/// wrong, the places that it came from, and the errors so far.
///
/// # Errors
/// Every error, in the order of the file and then of the variables.
pub fn load_with(
    role: ServiceRole,
    path: Option<&Path>,
    env: impl Iterator<Item = (String, String)>,
    more: impl FnOnce(&ServicesConfig, &Origins, &[ConfigError]) -> Vec<ConfigError>,
) -> Result<(ServicesConfig, Origins), Vec<ConfigError>> {
    reading::loaded(&SERVICES, path, env, |collector, root| {
        let config = ServicesConfig::read(collector, root);
        checks::check(collector, &config, role);
        files::check(collector, &config);
        let more = more(&config, &collector.origins, &collector.errors);
        collector.errors.extend(more);
        config
    })
}

#[cfg(test)]
mod tests;
