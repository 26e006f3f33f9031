//! Carries out what [`crate::protocol`] asks for after a step: a refetch, a new subscription, a
//! metric, a log line. Nothing here waits, because it runs inside the task that applied the
//! announcement.

use std::sync::Arc;

use super::settings::{Later, Settings};
use crate::protocol::event::Action;

/// Carries `actions` out, in order.
pub fn apply_actions(settings: &Arc<Settings>, actions: Vec<Action>) {
    let shared = &settings.shared;
    for action in actions {
        match action {
            Action::Refetch(record) => (settings.follow_up)(settings, Later::Refetch(record)),
            outside @ (Action::Resubscribe(..) | Action::HeartbeatSeen(_)) => {
                if let Some(apply) = shared.links.effects.get() {
                    apply(outside);
                }
            }
            Action::EpochMoved(region, epoch, why) => {
                if let Some(suppressed) = shared.log_limits.epochs[region.index()].admit(shared.clock.now()) {
                    let name = &shared.names[region.index()];
                    tracing::info!(region = %name, epoch = epoch.0, why = why.into_str(), suppressed, "epoch moved");
                }
                shared.metrics.announcements.epoch_moved(region, why);
            }
            Action::StateChanged(region, state) => {
                if let Some(suppressed) = shared.log_limits.states[region.index()].admit(shared.clock.now()) {
                    let name = &shared.names[region.index()];
                    tracing::info!(region = %name, state = state.into_str(), suppressed, "subscription");
                }
            }
            // Counted where it was received.
            Action::Passed(_) => {}
            Action::Alarm(region, why) => {
                if let Some(suppressed) = shared.log_limits.alarms.admit(shared.clock.now()) {
                    tracing::warn!(region = %shared.names[region.index()], why = why.into_str(), suppressed, "freshness alarm");
                }
                shared.metrics.announcements.alarm(region, why);
            }
        }
    }
}
