//! Carries out what [`crate::protocol`] asks for after a step: a refetch, a new subscription, a
//! metric, a log line. Nothing here waits, because it runs inside whoever applied the announcement.

use std::sync::Arc;

use crate::core::Core;
use crate::core::fill::background;
use crate::protocol::event::Action;

impl Core {
    /// Carries `actions` out, in order.
    pub fn carry_out(self: &Arc<Self>, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Refetch(record) => background::refetch(self, record),
                beyond @ (Action::Resubscribe(..) | Action::HeartbeatSeen(_)) => {
                    if let Some(carry_out) = self.beyond.get() {
                        carry_out(beyond);
                    }
                }
                Action::EpochMoved(region, epoch, why) => {
                    if let Some(left_out) = self.lines.epochs[region.index()].take(self.clock.now()) {
                        let name = &self.names[region.index()];
                        tracing::info!(region = %name, epoch = epoch.0, why, left_out, "epoch moved");
                    }
                    self.metrics.epoch_moved(region, why);
                }
                Action::StateChanged(region, state) => {
                    if let Some(left_out) = self.lines.states[region.index()].take(self.clock.now()) {
                        let name = &self.names[region.index()];
                        tracing::info!(region = %name, state = state.word(), left_out, "subscription");
                    }
                }
                // Counted where it was received.
                Action::Passed(_) => {}
                Action::Alarm(region, why) => {
                    if let Some(left_out) = self.lines.alarms.take(self.clock.now()) {
                        tracing::warn!(region = %self.names[region.index()], why, left_out, "freshness alarm");
                    }
                    self.metrics.alarm(region, why);
                }
            }
        }
    }
}
