//! `drain` and `restore`: whether a region is asked at all.

use serde::{Deserialize, Serialize};

use super::refused::CommandRefused;
use crate::model::ids::RegionId;
use crate::request::settings::Settings;

/// The reply to both commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asking {
    pub region: String,
    /// True if races, passes and rechecks ask it now.
    pub asked: bool,
    /// True if the command changed that.
    pub changed: bool,
    /// The regions that are still asked.
    pub left: Vec<String>,
}

pub(super) fn named(sidecar: &Settings, name: &str) -> Result<RegionId, CommandRefused> {
    let place = sidecar.fill.shared.names.iter().position(|known| known == name);
    place.map(|place| RegionId(place as u8)).ok_or_else(|| {
        let known = sidecar.fill.shared.names.join(", ");
        CommandRefused::Malformed(format!("no region is called {name:?}; the regions are: {known}"))
    })
}

pub(super) fn drain(sidecar: &Settings, region: RegionId, force: bool) -> Result<Asking, CommandRefused> {
    match sidecar.fill.regions.drain(region, force) {
        Some(changed) => Ok(asking(sidecar, region, changed)),
        None => Err(CommandRefused::LastRegion(sidecar.fill.regions.name(region).to_owned())),
    }
}

pub(super) fn restore(sidecar: &Settings, region: RegionId) -> Asking {
    let changed = sidecar.fill.regions.restore(region);
    asking(sidecar, region, changed)
}

fn asking(sidecar: &Settings, region: RegionId, changed: bool) -> Asking {
    let drained = sidecar.fill.regions.drained();
    let left = (0..).map(RegionId).zip(&sidecar.fill.shared.names).filter(|(id, _)| !drained.contains(*id));
    Asking {
        region: sidecar.fill.regions.name(region).to_owned(),
        asked: !drained.contains(region),
        changed,
        left: left.map(|(_, name)| name.clone()).collect(),
    }
}
