//! State of one region's topic: subscription state, proof and its grade, lease, epoch and
//! publishers (R9, R10, R14, and the three grades of proof). [`RegionState::region_view`] is what the
//! read path sees of it.
//!
//! A region is LIVE only while it is subscribed and a proof's lease holds. Whatever may have lost a
//! message moves the epoch before anything else is decided, and so does turning LIVE again. A proof
//! dates from its publication.

use std::collections::VecDeque;
use std::time::Duration;

use super::arrivals::{Arrivals, Arrived};
use super::event::{Action, Grade, MessageEnvelope, Says, Scope, SubscriptionState};
use super::publisher::Numbers;
use super::publishers::{Lost, Publishers};
use super::region_views::RegionView;
use super::unread::Unread;
use crate::model::ids::{Epoch, RecordId, RegionId};
use crate::model::time::{Moment, Wall};
use crate::protocol::event::EpochMove;
use crate::protocol::limits;
use crate::switch::{Rule, is_on};

mod paused;
mod proof;
mod signals;

use signals::Signals;

#[derive(Debug)]
pub(crate) struct RegionState {
    id: RegionId,
    state: SubscriptionState,
    epoch: Epoch,
    unbroken_since: Moment,
    /// Time at which the subscription was confirmed, while there is one.
    subscribed: Option<Moment>,
    signals: Signals,
    arrivals: Arrivals,
    /// An operator does not trust this topic: it stays subscribed, and nothing it brings counts.
    paused: bool,
    publishers: Publishers,
    undecodable: Unread,
    unverified: Unread,
    /// The last RESETs: when each was published, and what it covered.
    resets: VecDeque<(Wall, Scope)>,
    /// Subscriptions that died in a row without turning LIVE.
    deaths: u32,
    stepped: Moment,
    /// Since when the process has been awake. Silence before that is its own, not the region's.
    awake_since: Moment,
}

impl RegionState {
    /// Starts as PENDING, with `weak_refused` where heartbeats are required.
    pub(crate) fn new(id: RegionId, weak_refused: bool, now: Moment) -> Self {
        Self {
            id,
            state: SubscriptionState::Pending,
            epoch: Epoch::default(),
            unbroken_since: Moment::ZERO,
            subscribed: None,
            signals: Signals { weak_refused, ..Signals::default() },
            arrivals: Arrivals::default(),
            paused: false,
            publishers: Publishers::default(),
            undecodable: Unread::default(),
            unverified: Unread::default(),
            resets: VecDeque::new(),
            deaths: 0,
            stepped: now,
            awake_since: now,
        }
    }

    /// An earlier process saw heartbeats here.
    pub(crate) fn remember_heartbeats(&mut self) {
        self.signals.weak_refused = true;
        self.signals.heartbeat_seen = true;
    }

    /// Catches up with the time since the last step: windows that ended, holes that stayed open, a
    /// lease that ran out.
    pub(crate) fn elapse(&mut self, now: Moment, actions: &mut Vec<Action>) {
        if now.since(self.stepped) > limits::PAUSE {
            self.awake_since = now;
        }
        self.stepped = self.stepped.max(now);
        if self.undecodable.due(now) {
            self.move_epoch(EpochMove::Undecodable, now, actions);
        }
        if self.unverified.due(now) {
            self.move_epoch(EpochMove::Unverified, now, actions);
        }
        match self.publishers.write_off(now) {
            Some(Lost::Messages) => self.suspect(EpochMove::Hole, now, actions),
            Some(Lost::Past) => self.move_epoch(EpochMove::FirstHeard, now, actions),
            None => {}
        }
        if self.publishers.withdraw(now) && self.state == SubscriptionState::Live {
            // It held the watermark back until now. What it ingested last may never have been
            // announced, and the watermark that goes on without it vouches only for entries from
            // now on.
            self.move_epoch(EpochMove::PublisherGone, now, actions);
        }
        let lease_until = self.proof(now).map_or(Moment::ZERO, |proof| proof.lease_until);
        if self.state == SubscriptionState::Live && now > lease_until {
            self.suspect(EpochMove::Silence, now, actions);
        }
        // What proves nothing may still arrive (unverifiable, or stamped by a wrong clock). A new
        // subscription would bring no more than this one, and would lose what waits in this one's
        // queue.
        let quiet_since = self.awake_since.max(self.arrivals.newest());
        let dead = match self.state {
            SubscriptionState::Suspect => now > lease_until.max(quiet_since) + limits::SUSPECT_FOR,
            SubscriptionState::Probing => {
                self.subscribed.is_some_and(|at| now > at.max(quiet_since) + self.probing_wait())
            }
            _ => false,
        };
        // Where AWS throttles, a new subscription would only mean more calls of the same kind.
        let unknown = self.signals.unanswered && !self.signals.weak_refused;
        if dead && !unknown {
            self.die(actions);
        }
    }

    /// A subscription is being made. What there was before proves nothing about it.
    pub(crate) fn subscribing(&mut self, now: Moment, actions: &mut Vec<Action>) {
        self.unsubscribe(EpochMove::Resubscribed, now, actions);
        self.turn(SubscriptionState::Pending, actions);
    }

    /// Subscribed and confirmed. A proof must come next (R11).
    pub(crate) fn subscribed(&mut self, now: Moment, actions: &mut Vec<Action>) {
        self.unsubscribe(EpochMove::Resubscribed, now, actions);
        self.subscribed = Some(now);
        self.turn(SubscriptionState::Probing, actions);
        if !is_on(Rule::R11) {
            self.signals.strong = Some(now);
            self.prove(now, actions);
        }
    }

    /// The subscription or its queue is gone.
    pub(crate) fn lost(&mut self, now: Moment, actions: &mut Vec<Action>) {
        self.unsubscribe(EpochMove::Lost, now, actions);
        self.die(actions);
    }

    /// The first half of weak proof: a long poll succeeded.
    pub(crate) fn polled(&mut self, now: Moment, actions: &mut Vec<Action>) {
        self.signals.polled = Some(now);
        self.prove(now, actions);
    }

    /// The second half of weak proof could not be had: AWS did not answer.
    pub(crate) fn unattested(&mut self) {
        self.signals.unanswered = true;
    }

    /// The second half of weak proof: a look at the attributes succeeded.
    pub(crate) fn attested(&mut self, now: Moment, actions: &mut Vec<Action>) {
        self.signals.unanswered = false;
        self.signals.attested = Some(now);
        self.prove(now, actions);
    }

    /// R14: only the topic can have sent this, and nobody knows what it says. Weak proof claims
    /// that nothing arrives unseen, so it is over until something can be verified again.
    pub(crate) fn unverified(&mut self, now: Moment, actions: &mut Vec<Action>) {
        self.arrivals.note(now);
        if self.paused || !is_on(Rule::R14) {
            return;
        }
        self.signals.weak_withheld = true;
        if self.unverified.arrived(now) {
            self.move_epoch(EpochMove::Unverified, now, actions);
        }
        if self.state == SubscriptionState::Live && !self.is_proven(now) {
            self.turn(SubscriptionState::Suspect, actions);
        }
    }

    /// A verified message, whose effect on records has already been applied.
    pub(crate) fn note_message(
        &mut self,
        envelope: MessageEnvelope,
        says: &Says,
        now: Moment,
        wall: Wall,
        actions: &mut Vec<Action>,
    ) {
        self.arrivals.stamped(envelope.published, now, wall);
        self.signals.weak_withheld = false;
        if let Says::Heartbeat { path: true, .. } = says
            && envelope.numbered.is_none_or(|(_, slot)| slot > newest_slot(wall))
        {
            // A copy whose clock runs ahead proves nothing.
            return;
        }
        let at = envelope.published_at(now, wall);
        if let Says::Heartbeat { .. } = says {
            self.signals.weak_refused = true;
            if !std::mem::replace(&mut self.signals.heartbeat_seen, true) {
                actions.push(Action::HeartbeatSeen(self.id));
            }
        }
        if matches!(says, Says::Undecodable) && is_on(Rule::R14) && self.undecodable.arrived(now) {
            self.move_epoch(EpochMove::Undecodable, now, actions);
        }
        let numbers = match (envelope.numbered, says) {
            (None, _) | (_, Says::Heartbeat { path: true, .. }) => Numbers::InOrder,
            (Some(numbered), _) => self.publishers.note_message(numbered, envelope.published, says, at, now, wall),
        };
        match numbers {
            Numbers::InOrder => {}
            Numbers::TooManyHoles => self.suspect(EpochMove::Hole, now, actions),
            Numbers::Restarted => self.suspect(EpochMove::Restarted, now, actions),
            Numbers::PastMissed => self.move_epoch(EpochMove::FirstHeard, now, actions),
        }
        // R13: an old timestamp is no proof.
        self.signals.strong = self.signals.strong.max(Some(at));
        self.prove(now, actions);
    }

    /// R13: whether a RESET is new, and not a copy of an earlier one. A copy that forgot the floors
    /// once more would let a lagging region win. Once the list is full, anything published before
    /// all that it remembers counts as a copy.
    pub(crate) fn is_new_reset(&mut self, published: Wall, scope: Scope) -> bool {
        let full = self.resets.len() >= limits::RESETS;
        let oldest = self.resets.front().map(|(published, _)| *published);
        let known = self.resets.contains(&(published, scope));
        if known || full && oldest.is_some_and(|oldest| published <= oldest) {
            return false;
        }
        if full {
            self.resets.pop_front();
        }
        let place = self.resets.partition_point(|(known, _)| *known <= published);
        self.resets.insert(place, (published, scope));
        true
    }

    /// R13, R19: whether what was published then was overtaken by a RESET of the same record from
    /// this topic.
    pub(crate) fn was_reset_after(&self, published: Wall, id: RecordId) -> bool {
        self.resets.iter().any(|(reset, scope)| published < *reset && scope.covers(id))
    }

    /// Time at which a message from this topic was published, on our clock (R19).
    pub(crate) fn published_at(&self, published: Wall, now: Moment, wall: Wall) -> Moment {
        self.arrivals.published_at(published, now, wall)
    }

    pub(crate) fn arrived(&self, now: Moment) -> Arrived {
        Arrived { lag_ms: self.arrivals.lag_ms(now), unverified: self.signals.weak_withheld }
    }

    /// True if the region is LIVE by heartbeats.
    pub(crate) fn speaks(&self, now: Moment) -> bool {
        self.signals.weak_refused && self.state == SubscriptionState::Live && self.is_proven(now)
    }

    pub(crate) fn region_view(&self, now: Moment) -> RegionView {
        let proof = self.proof(now);
        // Until each publisher has had its turn to send, one of them may have ingested what is not
        // known here (R10).
        let strangers = self.subscribed.is_none_or(|at| now < at + limits::ACQUAINTANCE);
        let unread = self.undecodable.is_owed() || self.unverified.is_owed();
        let through = self.publishers.watermark(now).filter(|_| !strangers && !unread);
        // No moment is before boot: on a machine that is younger than what was ingested, a bound would be
        // no older than the machine.
        let watermark = through.filter(|through| through.at > Moment::ZERO);
        let proved = proof.as_ref().map_or(Moment::ZERO, |proof| proof.at);
        RegionView {
            state: self.state,
            grade: proof.as_ref().map_or(Grade::None, |proof| match proof.grade {
                Grade::Path if watermark.is_some() => Grade::Watermark,
                grade => grade,
            }),
            proof: proved,
            lease_until: proof.as_ref().map_or(Moment::ZERO, |proof| proof.lease_until),
            epoch: self.epoch,
            unbroken_since: self.unbroken_since,
            watermark: watermark.map(|through| through.wall),
            watermark_at: watermark.map(|through| through.at),
            known_through: through.map_or(proved, |through| through.at),
        }
    }

    fn prove(&mut self, now: Moment, actions: &mut Vec<Action>) {
        if self.subscribed.is_some() && self.is_proven(now) && self.state != SubscriptionState::Live {
            self.deaths = 0;
            self.turn(SubscriptionState::Live, actions);
            self.move_epoch(EpochMove::Live, now, actions);
        }
    }

    /// Messages may have been lost: a LIVE region is no longer LIVE until its next message.
    fn suspect(&mut self, why: EpochMove, now: Moment, actions: &mut Vec<Action>) {
        self.move_epoch(why, now, actions);
        if self.state == SubscriptionState::Live {
            self.turn(SubscriptionState::Suspect, actions);
        }
    }

    fn unsubscribe(&mut self, why: EpochMove, now: Moment, actions: &mut Vec<Action>) {
        if self.subscribed.take().is_some() {
            self.move_epoch(why, now, actions);
        }
        self.signals.forget();
        self.arrivals.begin();
        self.signals.unanswered = false;
    }

    /// Asks for a new subscription, after a longer wait each time while none turns LIVE.
    fn die(&mut self, actions: &mut Vec<Action>) {
        self.turn(SubscriptionState::Dead, actions);
        let (first, longest) = limits::RESUBSCRIBE_WAIT;
        let wait = first.saturating_mul(1 << self.deaths.min(16)).min(longest);
        self.deaths = self.deaths.saturating_add(1);
        actions.push(Action::Resubscribe(self.id, wait));
    }

    /// Time for which a subscription may go without proof.
    fn probing_wait(&self) -> Duration {
        if self.signals.weak_refused { limits::PROBING_WAIT } else { limits::WEAK_PROOF_AFTER + limits::WEAK_LEASE }
    }

    fn turn(&mut self, state: SubscriptionState, actions: &mut Vec<Action>) {
        if self.state != state && !self.paused {
            self.state = state;
            actions.push(Action::StateChanged(self.id, state));
        }
    }

    fn move_epoch(&mut self, why: EpochMove, now: Moment, actions: &mut Vec<Action>) {
        self.unbroken_since = now;
        if !is_on(Rule::R10) {
            return;
        }
        self.publishers.forgive_pasts();
        self.epoch = Epoch(self.epoch.0.wrapping_add(1));
        actions.push(Action::EpochMoved(self.id, self.epoch, why));
    }
}

/// The newest slot that a path heartbeat received at `wall` may claim.
fn newest_slot(wall: Wall) -> u64 {
    wall.as_millis() / limits::HEARTBEAT_SLOT.as_millis() as u64 + limits::HEARTBEAT_SLOTS_AHEAD
}

#[cfg(test)]
mod tests;
