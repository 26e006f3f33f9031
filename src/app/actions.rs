//! Carries out what freshness asks of the edges.
//!
//! Before it: a step of [`crate::freshness`]. After it: a refetch, a new subscription, a metric, a log line.
//! Invariant: nothing here waits; it runs inside whoever applied the announcement.

use std::sync::Arc;

use crate::cache::fill::background;
use crate::freshness::event::Action;
use crate::serve::Sidecar;

impl Sidecar {
    /// Carries `actions` out, in order.
    pub fn carry_out(self: &Arc<Self>, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Refetch(record) => background::refetch(self, record),
                Action::Resubscribe(region, after) => {
                    if let Some(subscriptions) = self.subscriptions.get() {
                        subscriptions.resubscribe(region, after);
                    }
                }
                Action::EpochMoved(region, epoch, why) => {
                    tracing::info!(region = %self.names[region.index()], epoch = epoch.0, why, "epoch moved");
                    self.metrics.epoch_moved(region, why);
                }
                Action::StateChanged(region, state) => {
                    tracing::info!(region = %self.names[region.index()], state = state.word(), "subscription");
                }
                Action::HeartbeatSeen(region) => super::memory::note(self, region),
                // Counted where it was received.
                Action::Passed(_) => {}
                Action::Alarm(region, why) => {
                    if let Some(left_out) = self.alarm_lines.take(self.clock.now()) {
                        tracing::warn!(region = %self.names[region.index()], why, left_out, "freshness alarm");
                    }
                    self.metrics.alarm(region, why);
                }
            }
        }
    }
}
