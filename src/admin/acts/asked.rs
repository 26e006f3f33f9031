//! Parses an operator's request: the act's name, and its arguments as JSON.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::access::Operator;
use super::compare::WrittenPath;
use super::target::{Target, WrittenTarget};
use super::{ActRefused, Acts, announcements, compare, inspect, jobs, log, purge, refresh, region, reset};
use crate::core::Core;
use crate::model::ids::RegionId;

pub(super) enum ActRequest {
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

impl ActRequest {
    /// `name` is one of [`super::NAMES`].
    pub(super) fn read(name: &str, body: &[u8], sidecar: &Core) -> Result<Self, ActRefused> {
        let target = || arguments::<WrittenTarget>(body)?.read(sidecar);
        let region = || -> Result<(RegionId, bool), ActRefused> {
            let OfRegion { region, force } = arguments(body)?;
            Ok((region::named(sidecar, &region)?, force))
        };
        Ok(match name {
            "purge" => Self::Purge(target()?),
            "refresh" => Self::Refresh(target()?),
            "reset" => Self::Reset(reset::only_records(target()?)?),
            "inspect" => Self::Inspect(inspect::only_one(target()?)?),
            "compare" => Self::Compare(arguments(body)?),
            "drain" => region().map(|(region, force)| Self::Drain { region, force })?,
            "restore" => Self::Restore(region()?.0),
            "pause" => Self::Pause(region()?.0),
            "resume" => Self::Resume(region()?.0),
            "log" => Self::Log(arguments::<OfLog>(body)?.filter),
            "jobs" => Self::Jobs { stop: arguments::<OfJobs>(body)?.stop },
            "reload" => arguments::<Nothing>(body).map(|Nothing {}| Self::Reload)?,
            other => return Err(ActRefused::UnknownAct(other.to_owned())),
        })
    }

    /// What it is about, for the log; no key and no path.
    pub(super) fn told(&self, sidecar: &Core) -> String {
        let name = |region: &RegionId| sidecar.regions.name(*region).to_owned();
        match self {
            Self::Purge(target) | Self::Refresh(target) | Self::Reset(target) | Self::Inspect(target) => {
                target.told(sidecar)
            }
            Self::Compare(written) => written.target().map_or_else(|_| "a path".to_owned(), |it| it.told(sidecar)),
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

    pub(super) async fn carry_out(self, acts: &Arc<Acts>, by: Operator) -> Result<Value, ActRefused> {
        let sidecar = &acts.sidecar();
        match self {
            Self::Purge(target) => reply(purge::purge(sidecar, &target).await),
            Self::Refresh(target) => reply(refresh::refresh(acts, target, by).await?),
            Self::Reset(target) => reply(reset::reset(sidecar, &target)),
            Self::Inspect(target) => reply(inspect::inspect(acts, &target).await),
            Self::Compare(written) => reply(compare::compare(sidecar, &written).await?),
            Self::Drain { region, force } => reply(region::drain(sidecar, region, force)?),
            Self::Restore(region) => reply(region::restore(sidecar, region)),
            Self::Pause(region) => reply(announcements::pause(sidecar, region)?),
            Self::Resume(region) => reply(announcements::resume(sidecar, region)?),
            Self::Log(filter) => reply(log::log(filter)?),
            Self::Jobs { stop } => reply(jobs::jobs(acts, stop)?),
            Self::Reload => match acts.reload.get() {
                Some(reload) => reload().await,
                None => Err(ActRefused::Failed("this process cannot read its configuration anew".to_owned())),
            },
        }
    }
}

fn reply(report: impl serde::Serialize) -> Result<Value, ActRefused> {
    serde_json::to_value(report).map_err(|error| ActRefused::Failed(error.to_string()))
}

/// An empty body counts as `{}`.
fn arguments<T: DeserializeOwned>(body: &[u8]) -> Result<T, ActRefused> {
    let body = if body.trim_ascii().is_empty() { b"{}" } else { body.trim_ascii_start() };
    if !body.starts_with(b"{") {
        return Err(ActRefused::Malformed("the arguments are no JSON object: write {} for none".to_owned()));
    }
    serde_json::from_slice(body)
        .map_err(|error| ActRefused::Malformed(format!("the arguments are not understood: {error}")))
}
