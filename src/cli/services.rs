//! `nearside catalogue`, `nearside views`, `nearside region`: the processes beside the sidecar. One
//! file configures all of them, and each can check it. `nearside setup` creates what they need,
//! and `nearside verify` compares what they hold.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::args::ProbedService;
use super::check::{count, print_settings, print_skipped};
use super::commands::{compare, create_missing, look_at_engine, run_service};
use super::error::CommandError;
use super::load::{tell, usable_sdk, variables};
use crate::admin::health::AdminPort;
use crate::app::services::verify::VerifyOrder;
use crate::app::services::{Contents, RegionDuties, ServiceProcess, access_files};
use crate::aws::sdk_settings::{self, SdkSettings};
use crate::config::error::{ConfigError, Place};
use crate::config::is_loopback;
use crate::config::scope::Origins;
use crate::config::services::{self, EngineConfig, ServiceRole, ServicesConfig};

/// `nearside catalogue`, `nearside views`
#[derive(Clone, Debug, Args)]
pub struct ServiceArgs {
    /// The services' configuration, a TOML file; without it, `NEARSIDE__*` variables say everything
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Run nothing: show the effective settings and where each came from, or every error
    #[arg(long)]
    pub check: bool,
}

/// `nearside region`
#[derive(Clone, Debug, Args)]
pub struct RegionArgs {
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Which region of the file it is; not needed where there is only one
    #[arg(long, value_name = "REGION")]
    pub name: Option<String>,
    /// Do only a part: `ingest` takes changes and announces them, `node` answers reads
    #[arg(long, value_enum)]
    pub role: Option<RegionRole>,
}

/// `nearside setup`
#[derive(Clone, Debug, Args)]
pub struct SetupArgs {
    /// The services' configuration, a TOML file; without it, `NEARSIDE__*` variables say everything
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `nearside verify`
#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {
    /// The services' configuration, a TOML file; without it, `NEARSIDE__*` variables say everything
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Show the keys of what differs, not the first digits of their hashes
    #[arg(long)]
    pub show_keys: bool,
    /// Look again at what differs after this long: a change may be on its way
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    pub wait: Duration,
    /// Views that are compared with their records in a second, at most
    #[arg(long, value_name = "VIEWS", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: u32,
}

/// A part of what a region does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RegionRole {
    /// Takes changes and announces them.
    Ingest,
    /// Answers reads.
    Node,
}

pub(super) fn catalogue(args: &ServiceArgs) -> Result<(), CommandError> {
    serve(ServiceRole::Catalogue, args, |_| Ok(ServiceProcess::Catalogue))
}

pub(super) fn views(args: &ServiceArgs) -> Result<(), CommandError> {
    serve(ServiceRole::Views, args, |_| Ok(ServiceProcess::Views))
}

pub(super) fn region(args: &RegionArgs) -> Result<(), CommandError> {
    let duties =
        RegionDuties { ingest: args.role != Some(RegionRole::Node), node: args.role != Some(RegionRole::Ingest) };
    serve(ServiceRole::Region, &args.service, |config| {
        let region = config.region(args.name.as_deref());
        let region = region.map_err(|wrong| ConfigError::new(Place::Variable("--name".into()), "", wrong))?;
        Ok(ServiceProcess::Region(Box::new(region.clone()), duties))
    })
}

pub(super) fn setup(args: &SetupArgs) -> Result<(), CommandError> {
    let loaded = services::load(ServiceRole::Setup, args.config.as_deref(), variables());
    let (config, origins) = reported(loaded)?;
    create_missing(&config, &origins)
}

pub(super) fn verify(args: &VerifyArgs) -> Result<(), CommandError> {
    let (config, origins) = load(ServiceRole::Views, args.config.as_deref(), |_| None)?;
    let contents = reported(Contents::read(&config))?;
    let order = VerifyOrder { wait: args.wait, views_per_second: args.rate, shows_keys: args.show_keys };
    compare(&config, contents, &order, &origins)
}

/// Port of a service's pages, as its file says.
pub(super) fn admin_port(
    service: ProbedService,
    file: Option<&Path>,
    name: Option<&str>,
) -> Result<AdminPort, CommandError> {
    // Setup needs nothing that one role alone does.
    let (config, _) = reported(services::load(ServiceRole::Setup, file, variables()))?;
    let (address, server) = match service {
        ProbedService::Catalogue => (config.catalogue.admin, &config.catalogue.tls.server),
        ProbedService::Views => (config.views.admin, &config.views.tls.server),
        ProbedService::Region => {
            let region = config.region(name);
            let region =
                region.map_err(|wrong| CommandError::Usage(format!("{}; {}", wrong.what, wrong.suggestion)))?;
            (region.admin, &region.tls.server)
        }
    };
    Ok(AdminPort { address, has_tls: server.is_some() })
}

/// Reads everything, and tells all that is wrong with it at once; `more` may find something too.
fn load(
    role: ServiceRole,
    file: Option<&Path>,
    more: impl FnOnce(&ServicesConfig) -> Option<ConfigError>,
) -> Result<(ServicesConfig, Origins), CommandError> {
    reported(services::load_with(role, file, variables(), |config, origins, errors| {
        let in_files = access_files::errors(config, origins, errors);
        Contents::errors(config, errors).into_iter().chain(in_files).chain(more(config)).collect()
    }))
}

fn reported<T>(read: Result<T, Vec<ConfigError>>) -> Result<T, CommandError> {
    read.map_err(|errors| {
        tell(&errors);
        CommandError::Usage(String::new())
    })
}

/// Reads the file, then runs the process that `pick` makes of it, or only shows what was read.
fn serve(
    role: ServiceRole,
    args: &ServiceArgs,
    pick: impl Fn(&ServicesConfig) -> Result<ServiceProcess, ConfigError>,
) -> Result<(), CommandError> {
    let (config, mut origins) =
        load(
            role,
            args.config.as_deref(),
            |config| if config.regions.is_empty() { None } else { pick(config).err() },
        )?;
    let contents = reported(Contents::read(&config))?;
    if role == ServiceRole::Catalogue {
        origins.warnings.extend(contents.warnings(&config));
    }
    let process = reported(pick(&config).map_err(|error| vec![error]))?;
    if args.check {
        let skipped = usable_sdk(sdk_settings(&process, &config))?;
        show(&config, &origins)
            .and_then(|()| print_skipped(&skipped))
            .map_err(|error| CommandError::Failed(format!("the settings could not be printed: {error}")))?;
        return look_at_engine(&process, &config);
    }
    run_service(process, config, contents, &origins)
}

/// The AWS SDK's settings, if this process calls AWS.
fn sdk_settings(process: &ServiceProcess, config: &ServicesConfig) -> SdkSettings {
    let has_topic = matches!(process, ServiceProcess::Region(region, _) if region.topic.is_some());
    let is_emulator = config.engine.endpoint_url().is_some_and(is_loopback);
    match config.engine {
        EngineConfig::Aws { .. } if !is_emulator => sdk_settings::read(sdk_settings::variable),
        EngineConfig::Embedded { .. } | EngineConfig::Memory if has_topic => {
            sdk_settings::read(sdk_settings::variable)
        }
        _ => SdkSettings::default(),
    }
}

fn show(config: &ServicesConfig, origins: &Origins) -> std::io::Result<()> {
    let (types, regions) = (config.catalogue.types.len(), config.regions.len());
    print_settings(origins, &format!("{}, {}", count(types, "record type"), count(regions, "region")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_deny_file_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let [deny, service] = ["deny", "service.toml"].map(|name| directory.path().join(name));
        let text = format!(
            "[engine]\nkind = \"memory\"\n[[catalogue.type]]\nname = \"tenant\"\n[access]\nmode = \"observe\"\n\
             catalogue_audience = \"c\"\nregion_audience = \"r\"\ndeny_file = \"{}\"\n\
             [[access.issuer]]\niss = \"i\"\nkeys = \"https://issuer.example/keys\"\n",
            deny.display()
        );
        std::fs::write(&service, text).unwrap();
        for (content, is_fine) in [("consumer jira", true), ("garbage", false)] {
            std::fs::write(&deny, content).unwrap();
            let loaded = load(ServiceRole::Catalogue, Some(&service), |_| None);
            assert_eq!(loaded.is_ok(), is_fine, "{content}");
        }
    }
}
