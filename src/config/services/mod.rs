//! The settings of the services: one file for `nearside catalogue`, `nearside views` and
//! `nearside region`. Each process checks the whole file and uses its own part.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use url::Url;

use super::error::{ConfigError, ConfigProblem, nearest, quoted};
use super::scope::Origins;
use super::settings::SERVICES;
use super::{Drain, Log, TopicArn, read as reading};

mod checks;
mod files;
mod read;

/// Everything that the services need to know.
#[derive(Clone, Debug)]
pub struct ServicesConfig {
    pub engine: EngineConfig,
    pub catalogue: CatalogueConfig,
    pub views: ViewsConfig,
    /// In the order of the file.
    pub regions: Vec<ServedRegion>,
    pub drain: Drain,
    pub log: Log,
}

/// `[engine]`: where records lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineConfig {
    /// Of one process, and gone with it.
    Memory,
    Embedded {
        /// Created if its parent exists.
        directory: PathBuf,
    },
    Aws {
        /// The home region.
        region: String,
        /// How the names of tables and streams begin.
        prefix: String,
        /// `None`: AWS itself.
        endpoint_url: Option<Url>,
    },
}

impl EngineConfig {
    /// Where AWS is, if not at AWS.
    pub const fn endpoint_url(&self) -> Option<&Url> {
        match self {
            Self::Aws { endpoint_url, .. } => endpoint_url.as_ref(),
            Self::Memory | Self::Embedded { .. } => None,
        }
    }

    /// As the file says it.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Embedded { .. } => "embedded",
            Self::Aws { .. } => "aws",
        }
    }
}

/// `[catalogue]`
#[derive(Clone, Debug)]
pub struct CatalogueConfig {
    pub listen: SocketAddr,
    pub admin: SocketAddr,
    pub allowed_hosts: Vec<String>,
    pub max_connections: usize,
    pub types: Vec<RecordTypeConfig>,
}

/// `[[catalogue.type]]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordTypeConfig {
    pub name: String,
    /// A file with a JSON Schema; `None` takes any object.
    pub schema: Option<PathBuf>,
}

/// `[views]`
#[derive(Clone, Debug)]
pub struct ViewsConfig {
    pub admin: SocketAddr,
    pub allowed_hosts: Vec<String>,
    /// The definitions. [`ServiceRole::Views`] has it.
    pub file: Option<PathBuf>,
    /// Views that jobs make per second.
    pub rate: u64,
    /// In how long everything is compared once.
    pub sweep: Duration,
}

/// `[[region]]`
#[derive(Clone, Debug)]
pub struct ServedRegion {
    pub name: String,
    /// With [`EngineConfig::Aws`] there is one.
    pub topic: Option<TopicArn>,
    /// Of the node.
    pub listen: SocketAddr,
    pub admin: SocketAddr,
    /// What it may be called, besides loopback names and addresses.
    pub allowed_hosts: Vec<String>,
    /// The views that it takes; empty means all.
    pub views: Vec<String>,
    /// Whether its node answers in zstd who asks for that.
    pub compresses: bool,
}

impl ServedRegion {
    /// The views that it takes; `None` for all.
    pub fn only(&self) -> Option<BTreeSet<String>> {
        (!self.views.is_empty()).then(|| self.views.iter().cloned().collect())
    }
}

/// Which of the services a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceRole {
    Catalogue,
    Views,
    Region,
    /// Whatever the file names is wanted, and nothing more.
    Setup,
}

impl ServiceRole {
    /// Its command.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Catalogue => "catalogue",
            Self::Views => "views",
            Self::Region => "region",
            Self::Setup => "setup",
        }
    }
}

impl ServicesConfig {
    /// The region of this name; without a name, the only one of the file.
    ///
    /// # Errors
    /// If there is none, or none was named where there are several.
    pub fn region(&self, name: Option<&str>) -> Result<&ServedRegion, ConfigProblem> {
        let known = || self.regions.iter().map(|region| region.name.as_str());
        let all = || known().collect::<Vec<_>>().join(", ");
        match (name, self.regions.as_slice()) {
            (None, [only]) => Ok(only),
            (None, _) => {
                let instead = format!("say which one it is with --name: {}", all());
                Err(ConfigProblem::new(format!("the file has {} regions", self.regions.len()), instead))
            }
            (Some(name), regions) => regions.iter().find(|region| region.name == name).ok_or_else(|| {
                let instead = match nearest(name, known()) {
                    Some(name) => format!("did you mean {name}?"),
                    None => format!("name one of {}", all()),
                };
                ConfigProblem::new(format!("no region is called {}", quoted(name)), instead)
            }),
        }
    }
}

/// Reads the file (`None`: the environment alone), lays the environment's variables over it, and
/// checks everything, including the files that it names. What only one role needs must be there if
/// it is this one.
///
/// # Errors
/// Every mistake, in the order of the file and then of the variables.
pub fn load(
    role: ServiceRole,
    path: Option<&Path>,
    env: impl Iterator<Item = (String, String)>,
) -> Result<(ServicesConfig, Origins), Vec<ConfigError>> {
    load_with(role, path, env, |_, _| Vec::new())
}

/// The same, with more to be told at once: `more` sees what was read, with stand-ins for what is
/// mistaken, and the mistakes so far.
///
/// # Errors
/// Every mistake, in the order of the file and then of the variables.
pub fn load_with(
    role: ServiceRole,
    path: Option<&Path>,
    env: impl Iterator<Item = (String, String)>,
    more: impl FnOnce(&ServicesConfig, &[ConfigError]) -> Vec<ConfigError>,
) -> Result<(ServicesConfig, Origins), Vec<ConfigError>> {
    reading::loaded(&SERVICES, path, env, |ledger, root| {
        let config = read::config(ledger, root);
        checks::check(ledger, &config, role);
        files::check(ledger, &config);
        let more = more(&config, &ledger.mistakes);
        ledger.mistakes.extend(more);
        config
    })
}

#[cfg(test)]
mod tests;
