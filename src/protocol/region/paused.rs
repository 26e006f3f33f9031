//! A topic that an operator does not trust: it stays subscribed, its messages are skipped, and it
//! is never LIVE.

use super::{Action, Moment, Publishers, RegionState, SubscriptionState};
use crate::protocol::event::EpochMove;

impl RegionState {
    pub(in crate::protocol) const fn is_paused(&self) -> bool {
        self.paused
    }

    /// From now on nothing this topic brings counts. What it said before is no longer vouched for.
    pub(in crate::protocol) fn pause(&mut self, now: Moment, actions: &mut Vec<Action>) {
        if self.paused {
            return;
        }
        self.turn(SubscriptionState::Paused, actions);
        self.paused = true;
        self.forget_proof();
        self.move_epoch(EpochMove::Paused, now, actions);
    }

    /// The topic counts again, from its next proof on. What was skipped meanwhile is lost, as after
    /// a new subscription (R11).
    pub(in crate::protocol) fn resume(&mut self, now: Moment, actions: &mut Vec<Action>) {
        if !self.paused {
            return;
        }
        self.paused = false;
        self.forget_proof();
        self.move_epoch(EpochMove::Resumed, now, actions);
        self.subscribed = self.subscribed.map(|_| now);
        let state = if self.subscribed.is_some() { SubscriptionState::Probing } else { SubscriptionState::Pending };
        self.turn(state, actions);
    }

    /// Numbers that go by while nobody counts them are not holes: publishers begin anew.
    fn forget_proof(&mut self) {
        self.signals.forget();
        self.publishers = Publishers::default();
    }
}
