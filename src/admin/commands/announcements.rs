//! `pause` and `resume`: whether a region's topic is believed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::refused::CommandRefused;
use crate::config::Transport;
use crate::fill::effects::apply_actions;
use crate::model::ids::RegionId;
use crate::protocol::event::{Event, SubscriptionState};
use crate::request::settings::Settings;

/// The reply to both commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Believing {
    pub region: String,
    /// True if its announcements are applied now, and count as proof.
    pub believed: bool,
    /// True if the command changed that.
    pub changed: bool,
    /// The regions whose announcements are proven to arrive now.
    pub live: Vec<String>,
}

pub(super) fn pause(sidecar: &Arc<Settings>, region: RegionId) -> Result<Believing, CommandRefused> {
    set(sidecar, region, true)
}

pub(super) fn resume(sidecar: &Arc<Settings>, region: RegionId) -> Result<Believing, CommandRefused> {
    set(sidecar, region, false)
}

fn set(sidecar: &Arc<Settings>, region: RegionId, pause: bool) -> Result<Believing, CommandRefused> {
    let name = sidecar.fill.regions.name(region).to_owned();
    let config = &sidecar.fill.config;
    if config.announcements.transport == Transport::Off || config.service.regions[region.index()].topic.is_none() {
        return Err(CommandRefused::NoTopic(name));
    }
    let paused =
        || sidecar.fill.shared.freshness.region_views().regions[region.index()].state == SubscriptionState::Paused;
    let before = paused();
    let event = if pause { Event::Paused(region) } else { Event::Resumed(region) };
    let actions =
        sidecar.fill.shared.freshness.step(sidecar.fill.shared.clock.now(), sidecar.fill.shared.clock.wall(), event);
    apply_actions(&sidecar.fill, actions);
    let live = sidecar.fill.shared.freshness.region_views().live(sidecar.fill.shared.clock.now());
    let live = live.iter().map(|region| sidecar.fill.regions.name(region).to_owned()).collect();
    Ok(Believing { region: name, believed: !paused(), changed: before != paused(), live })
}
