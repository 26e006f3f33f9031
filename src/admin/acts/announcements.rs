//! `pause` and `resume`: whether a region's topic is believed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ActRefused;
use crate::config::Transport;
use crate::core::Core;
use crate::model::ids::RegionId;
use crate::protocol::event::{Event, SubscriptionState};

/// The reply to both acts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Believing {
    pub region: String,
    /// Whether its announcements are applied now, and count as proof.
    pub believed: bool,
    /// Whether the act changed that.
    pub changed: bool,
    /// The regions whose announcements are proven to arrive now.
    pub live: Vec<String>,
}

pub(super) fn pause(sidecar: &Arc<Core>, region: RegionId) -> Result<Believing, ActRefused> {
    set(sidecar, region, true)
}

pub(super) fn resume(sidecar: &Arc<Core>, region: RegionId) -> Result<Believing, ActRefused> {
    set(sidecar, region, false)
}

fn set(sidecar: &Arc<Core>, region: RegionId, pause: bool) -> Result<Believing, ActRefused> {
    let name = sidecar.regions.name(region).to_owned();
    let config = &sidecar.config;
    if config.announcements.transport == Transport::Off || config.service.regions[region.index()].topic.is_none() {
        return Err(ActRefused::NoTopic(name));
    }
    let paused = || sidecar.freshness.horizon().regions[region.index()].state == SubscriptionState::Paused;
    let before = paused();
    let event = if pause { Event::Paused(region) } else { Event::Resumed(region) };
    let actions = sidecar.freshness.step(sidecar.clock.now(), sidecar.clock.wall(), event);
    sidecar.carry_out(actions);
    let live = sidecar.freshness.horizon().live(sidecar.clock.now());
    let live = live.iter().map(|region| sidecar.regions.name(region).to_owned()).collect();
    Ok(Believing { region: name, believed: !paused(), changed: before != paused(), live })
}
