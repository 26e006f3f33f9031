//! `drain` and `restore`: whether a region is asked at all.

use serde::{Deserialize, Serialize};

use super::ActRefused;
use crate::core::Core;
use crate::model::ids::RegionId;

/// The reply to both acts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asking {
    pub region: String,
    /// Whether races, passes and rechecks ask it now.
    pub asked: bool,
    /// Whether the act changed that.
    pub changed: bool,
    /// The regions that are still asked.
    pub left: Vec<String>,
}

pub(super) fn named(sidecar: &Core, name: &str) -> Result<RegionId, ActRefused> {
    let place = sidecar.names.iter().position(|known| known == name);
    place.map(|place| RegionId(place as u8)).ok_or_else(|| {
        let known = sidecar.names.join(", ");
        ActRefused::Malformed(format!("no region is called {name:?}; the regions are: {known}"))
    })
}

pub(super) fn drain(sidecar: &Core, region: RegionId, force: bool) -> Result<Asking, ActRefused> {
    match sidecar.regions.drain(region, force) {
        Some(changed) => Ok(asking(sidecar, region, changed)),
        None => Err(ActRefused::LastRegion(sidecar.regions.name(region).to_owned())),
    }
}

pub(super) fn restore(sidecar: &Core, region: RegionId) -> Asking {
    let changed = sidecar.regions.restore(region);
    asking(sidecar, region, changed)
}

fn asking(sidecar: &Core, region: RegionId, changed: bool) -> Asking {
    let drained = sidecar.regions.drained();
    let left = (0..).map(RegionId).zip(&sidecar.names).filter(|(id, _)| !drained.contains(*id));
    Asking {
        region: sidecar.regions.name(region).to_owned(),
        asked: !drained.contains(region),
        changed,
        left: left.map(|(_, name)| name.clone()).collect(),
    }
}
