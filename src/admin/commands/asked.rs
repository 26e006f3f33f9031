//! Parses an operator's request: the command's name, and its arguments as JSON.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::compare::WrittenPath;
use super::refused::CommandRefused;
use super::target::{Target, WrittenTarget};
use super::{inspect, region, reset};
use crate::model::ids::RegionId;
use crate::request::settings::Settings;
use crate::telemetry::metrics::operations::Command;

pub(super) enum CommandRequest {
    Purge(Target),
    Refresh(Target),
    Reset(Target),
    Inspect(Target),
    Compare(WrittenPath),
    Drain { region: RegionId, force: bool },
    Restore(RegionId),
    Pause(RegionId),
    Resume(RegionId),
    Log(Option<String>),
    Jobs { stop: Option<u64> },
    Reload,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfRegion {
    region: String,
    #[serde(default)]
    force: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfLog {
    filter: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfJobs {
    stop: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl CommandRequest {
    /// Reads the arguments of a command.
    pub(super) fn read(command: Command, body: &[u8], sidecar: &Settings) -> Result<Self, CommandRefused> {
        Ok(match command {
            Command::Purge => Self::Purge(target(body, sidecar)?),
            Command::Refresh => Self::Refresh(target(body, sidecar)?),
            Command::Reset => Self::Reset(reset::only_records(target(body, sidecar)?)?),
            Command::Inspect => Self::Inspect(inspect::only_one(target(body, sidecar)?)?),
            Command::Compare => Self::Compare(arguments(body)?),
            Command::Drain => {
                let OfRegion { region, force } = arguments(body)?;
                Self::Drain { region: region::named(sidecar, &region)?, force }
            }
            Command::Restore => Self::Restore(region(body, sidecar)?),
            Command::Pause => Self::Pause(region(body, sidecar)?),
            Command::Resume => Self::Resume(region(body, sidecar)?),
            Command::Log => Self::Log(arguments::<OfLog>(body)?.filter),
            Command::Jobs => Self::Jobs { stop: arguments::<OfJobs>(body)?.stop },
            Command::Reload => arguments::<Nothing>(body).map(|Nothing {}| Self::Reload)?,
        })
    }

    /// Subject of the command, for the log; no key and no path.
    pub(super) fn described(&self, sidecar: &Settings) -> String {
        let name = |region: &RegionId| sidecar.fill.regions.name(*region).to_owned();
        match self {
            Self::Purge(target) | Self::Refresh(target) | Self::Reset(target) | Self::Inspect(target) => {
                target.described(sidecar)
            }
            Self::Compare(written) => {
                written.target().map_or_else(|_| "a path".to_owned(), |it| it.described(sidecar))
            }
            Self::Drain { region, force: true } => format!("{}, by force", name(region)),
            Self::Drain { region, .. } | Self::Restore(region) | Self::Pause(region) | Self::Resume(region) => {
                name(region)
            }
            Self::Log(Some(filter)) => format!("filter {filter:?}"),
            Self::Log(None) => "the filter is shown".to_owned(),
            Self::Jobs { stop: Some(job) } => format!("job {job} is stopped"),
            Self::Jobs { stop: None } => "jobs are listed".to_owned(),
            Self::Reload => "the configuration".to_owned(),
        }
    }

    /// Which records or entries it changes; `inspect` shows that later.
    pub(super) const fn changes(&self) -> Option<&Target> {
        match self {
            Self::Purge(target) | Self::Refresh(target) | Self::Reset(target) => Some(target),
            _ => None,
        }
    }
}

fn target(body: &[u8], sidecar: &Settings) -> Result<Target, CommandRefused> {
    arguments::<WrittenTarget>(body)?.read(sidecar)
}

fn region(body: &[u8], sidecar: &Settings) -> Result<RegionId, CommandRefused> {
    region::named(sidecar, &arguments::<OfRegion>(body)?.region)
}

/// An empty body counts as `{}`.
fn arguments<T: DeserializeOwned>(body: &[u8]) -> Result<T, CommandRefused> {
    let body = if body.trim_ascii().is_empty() { b"{}" } else { body.trim_ascii_start() };
    if !body.starts_with(b"{") {
        return Err(CommandRefused::Malformed("the arguments are no JSON object: write {} for none".to_owned()));
    }
    serde_json::from_slice(body)
        .map_err(|error| CommandRefused::Malformed(format!("the arguments are not understood: {error}")))
}
