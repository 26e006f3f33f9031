//! Owns what is known of one region's topic: subscription state, proof and its grade, lease, epoch, publishers
//! (R9, R10, R14, and the three grades of proof).
//!
//! Before it: [`super::Freshness::step`] hands over events with the time beside them. After it: [`Region::sight`] is
//! what the read path sees; [`Action`]s are what the edges do.
//!
//! Invariants: a region is LIVE only while it is subscribed and a proof's lease holds; whatever may have lost a message
//! moves the epoch before anything else is decided, and so does turning LIVE again; a proof dates from publication.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::event::{Action, Envelope, Grade, Says, Scope, Subscription};
use super::horizon::Sight;
use super::publisher::{Numbers, Publisher, Through};
use super::switch::{Rule, is_on};
use super::words::{Epoch, RegionId};
use crate::clock::{Moment, Wall};
use crate::limits;

/// One region's topic, as far as it is known here.
#[derive(Debug)]
pub(super) struct Region {
    id: RegionId,
    state: Subscription,
    epoch: Epoch,
    unbroken_since: Moment,
    /// When the subscription was confirmed, while there is one.
    subscribed: Option<Moment>,
    /// The newest publication that arrived.
    strong: Option<Moment>,
    polled: Option<Moment>,
    attested: Option<Moment>,
    /// Strong proof is to be had here (or nothing else is accepted): no weak proof any more.
    weak_refused: bool,
    heartbeat_seen: bool,
    publishers: BTreeMap<u64, Publisher>,
    /// A publisher that was active was forgotten: no watermark until then.
    crowded_until: Moment,
    undecodable: Undecodable,
    /// The last RESETs: when each was published, and what it covered.
    resets: VecDeque<(Wall, Scope)>,
    /// Subscriptions that died one after the other without turning LIVE.
    deaths: u32,
    stepped: Moment,
    /// Since when the process has been awake: silence before it is its own.
    awake_since: Moment,
}

/// R14: the rate at which undecodable messages move the epoch.
#[derive(Debug, Default)]
struct Undecodable {
    window_until: Option<Moment>,
    pending: bool,
}

/// The proof with the longest lease.
struct Proof {
    grade: Grade,
    at: Moment,
    lease_until: Moment,
}

impl Region {
    /// PENDING; `weak_refused` when heartbeats are required or were seen by an earlier process.
    pub(super) fn new(id: RegionId, weak_refused: bool, now: Moment) -> Self {
        Self {
            id,
            state: Subscription::Pending,
            epoch: Epoch::default(),
            unbroken_since: Moment::ZERO,
            subscribed: None,
            strong: None,
            polled: None,
            attested: None,
            weak_refused,
            heartbeat_seen: false,
            publishers: BTreeMap::new(),
            crowded_until: Moment::ZERO,
            undecodable: Undecodable::default(),
            resets: VecDeque::new(),
            deaths: 0,
            stepped: now,
            awake_since: now,
        }
    }

    /// An earlier process saw heartbeats here.
    pub(super) fn remember_heartbeats(&mut self) {
        self.weak_refused = true;
        self.heartbeat_seen = true;
    }

    /// Time has passed since the last step: windows that ended, holes that stayed open, a lease that ran out.
    pub(super) fn elapse(&mut self, now: Moment, actions: &mut Vec<Action>) {
        if now.since(self.stepped) > limits::PAUSE {
            self.awake_since = now;
        }
        self.stepped = self.stepped.max(now);
        if self.undecodable.pending && self.undecodable.window_until.is_none_or(|until| now >= until) {
            self.undecodable = Undecodable { window_until: Some(now + limits::UNDECODABLE_WINDOW), pending: false };
            self.move_epoch("undecodable", now, actions);
        }
        let mut lost = false;
        for publisher in self.publishers.values_mut() {
            lost |= publisher.oldest_hole().is_some() && publisher.write_off(now);
        }
        if lost {
            self.suspect("hole", now, actions);
        }
        let mut gone = false;
        for publisher in self.publishers.values_mut() {
            gone |= publisher.withdraw(now);
        }
        if gone && self.state == Subscription::Live {
            // It held the watermark back until now: what it ingested last may never have been announced, and the
            // watermark that goes on without it vouches only for entries from now on.
            self.move_epoch("publisher-gone", now, actions);
        }
        let lease_until = self.proof(now).map_or(Moment::ZERO, |proof| proof.lease_until);
        if self.state == Subscription::Live && now > lease_until {
            self.suspect("silence", now, actions);
        }
        let silent_since = lease_until.max(self.awake_since);
        let dead = match self.state {
            Subscription::Suspect => now > silent_since + limits::SUSPECT_FOR,
            Subscription::Probing => {
                self.subscribed.is_some_and(|at| now > at.max(self.awake_since) + self.patience())
            }
            _ => false,
        };
        if dead {
            self.die(actions);
        }
    }

    /// A subscription is being made: whatever there was before proves nothing of it.
    pub(super) fn subscribing(&mut self, now: Moment, actions: &mut Vec<Action>) {
        self.unsubscribe("resubscribed", now, actions);
        self.turn(Subscription::Pending, actions);
    }

    /// Subscribed and confirmed (R11: a proof comes next).
    pub(super) fn subscribed(&mut self, now: Moment, actions: &mut Vec<Action>) {
        self.unsubscribe("resubscribed", now, actions);
        self.subscribed = Some(now);
        self.turn(Subscription::Probing, actions);
        if !is_on(Rule::R11) {
            self.strong = Some(now);
            self.prove(now, actions);
        }
    }

    /// The subscription or its queue is gone.
    pub(super) fn lost(&mut self, now: Moment, actions: &mut Vec<Action>) {
        self.unsubscribe("lost", now, actions);
        self.die(actions);
    }

    /// Weak proof's first half.
    pub(super) fn polled(&mut self, now: Moment, actions: &mut Vec<Action>) {
        self.polled = Some(now);
        self.prove(now, actions);
    }

    /// Weak proof's second half.
    pub(super) fn attested(&mut self, now: Moment, actions: &mut Vec<Action>) {
        self.attested = Some(now);
        self.prove(now, actions);
    }

    /// A verified message; what it says of records has been applied.
    pub(super) fn heard(
        &mut self,
        envelope: Envelope,
        says: &Says,
        now: Moment,
        wall: Wall,
        actions: &mut Vec<Action>,
    ) {
        let slot = |(_, slot): (u64, u64)| slot;
        if let Says::Heartbeat { path: true, .. } = says
            && envelope.numbered.is_none_or(|numbered| slot(numbered) > newest_slot(wall))
        {
            // A copy whose clock runs ahead proves nothing.
            return;
        }
        let at = envelope.published_at(now, wall);
        if let Says::Heartbeat { .. } = says {
            self.weak_refused = true;
            if !std::mem::replace(&mut self.heartbeat_seen, true) {
                actions.push(Action::HeartbeatSeen(self.id));
            }
        }
        if matches!(says, Says::Undecodable) && is_on(Rule::R14) {
            self.undecodable(now, actions);
        }
        let numbers = match (envelope.numbered, says) {
            (None, _) | (_, Says::Heartbeat { path: true, .. }) => Numbers::InOrder,
            (Some(numbered), _) => self.number(numbered, envelope.published, says, at, now, wall),
        };
        match numbers {
            Numbers::InOrder => {}
            Numbers::TooManyHoles => self.suspect("hole", now, actions),
            Numbers::Restarted => self.suspect("restarted", now, actions),
        }
        // R13: an old timestamp is no proof.
        self.strong = self.strong.max(Some(at));
        self.prove(now, actions);
    }

    /// R13: whether a RESET is no copy of one that came before. A copy that forgot the floors once more would let a region
    /// that lags win. What was published before all that are remembered counts as a copy.
    pub(super) fn is_new_reset(&mut self, published: Wall, scope: Scope) -> bool {
        let full = self.resets.len() >= limits::RESETS_PER_REGION;
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

    /// As the read path sees it.
    pub(super) fn sight(&self, now: Moment) -> Sight {
        let proof = self.proof(now);
        let watermark = self.watermark(now);
        Sight {
            state: self.state,
            grade: proof.as_ref().map_or(Grade::None, |proof| match proof.grade {
                Grade::Path if watermark.is_some() => Grade::Watermark,
                grade => grade,
            }),
            proof: proof.as_ref().map_or(Moment::ZERO, |proof| proof.at),
            lease_until: proof.as_ref().map_or(Moment::ZERO, |proof| proof.lease_until),
            epoch: self.epoch,
            unbroken_since: self.unbroken_since,
            watermark: watermark.map(|through| through.wall),
            watermark_at: watermark.map(|through| through.at),
        }
    }

    /// The oldest of the active publishers', and of those that signed off and whose last messages are still missing; none
    /// while one of them has not claimed a time.
    fn watermark(&self, now: Moment) -> Option<Through> {
        if now < self.crowded_until {
            return None;
        }
        let mut oldest = None;
        let counts = |publisher: &&Publisher| publisher.is_active(now) || publisher.oldest_hole().is_some();
        for publisher in self.publishers.values().filter(counts) {
            let through = publisher.through()?;
            if oldest.is_none_or(|oldest: Through| through.wall < oldest.wall) {
                oldest = Some(through);
            }
        }
        oldest
    }

    fn proof(&self, now: Moment) -> Option<Proof> {
        let lease = |grade, at, length| Proof { grade, at, lease_until: lease_until(at, length) };
        let strong = self.strong.map(|at| lease(Grade::Path, at, limits::STRONG_LEASE));
        let weak = self.weak(now).map(|at| lease(Grade::Weak, at, limits::WEAK_LEASE));
        match (strong, weak) {
            (Some(strong), Some(weak)) if weak.lease_until > strong.lease_until => Some(weak),
            (strong, weak) => strong.or(weak),
        }
    }

    /// The older of its halves, from 60 s after the subscription was made.
    fn weak(&self, now: Moment) -> Option<Moment> {
        let begins = self.subscribed? + limits::WEAK_PROOF_AFTER;
        let at = self.polled?.min(self.attested?);
        (!self.weak_refused && now >= begins).then_some(at)
    }

    fn prove(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let holds = self.proof(now).is_some_and(|proof| now <= proof.lease_until);
        if self.subscribed.is_some() && holds && self.state != Subscription::Live {
            self.deaths = 0;
            self.turn(Subscription::Live, actions);
            self.move_epoch("live", now, actions);
        }
    }

    fn number(
        &mut self,
        (name, number): (u64, u64),
        published: Wall,
        says: &Says,
        at: Moment,
        now: Moment,
        wall: Wall,
    ) -> Numbers {
        let heartbeat = matches!(says, Says::Heartbeat { .. });
        if !self.publishers.contains_key(&name) {
            self.make_room(now);
            let new = self.subscribed.is_some_and(|since| now > since + limits::NEW_PUBLISHER_AFTER);
            self.publishers.insert(name, Publisher::first_heard(number, heartbeat, new, at));
        }
        let publisher = self.publishers.get_mut(&name).expect("inserted above");
        publisher.heard(at);
        let Says::Heartbeat { ingested_through, signing_off, .. } = says else {
            return publisher.announced(number, now);
        };
        let through = ingested_through.map(|claimed| {
            // A publisher's clock may run ahead: nothing was ingested after SNS saw the heartbeat.
            let claimed = claimed.min(published).min(wall);
            Through { wall: claimed, at: now.before(wall.since(claimed)).min(at) }
        });
        let numbers = publisher.beat(number, published, through, now);
        if *signing_off && at >= publisher.last_heard() {
            publisher.sign_off();
        }
        numbers
    }

    /// Forgets the publisher that has been silent longest. One that was still active leaves its holes unseen: the
    /// watermark is withheld as long as it would have counted.
    fn make_room(&mut self, now: Moment) {
        if self.publishers.len() < limits::PUBLISHERS_PER_REGION {
            return;
        }
        let silent = self.publishers.iter().min_by_key(|(name, publisher)| (publisher.last_heard(), **name));
        if let Some((name, was_active)) = silent.map(|(name, publisher)| (*name, publisher.is_active(now))) {
            self.publishers.remove(&name);
            if was_active {
                self.crowded_until = now + limits::ACTIVE_PUBLISHER;
            }
        }
    }

    /// R14: the first of a window moves the epoch at once, the rest together at its end.
    fn undecodable(&mut self, now: Moment, actions: &mut Vec<Action>) {
        if self.undecodable.window_until.is_some_and(|until| now < until) {
            self.undecodable.pending = true;
            return;
        }
        self.undecodable = Undecodable { window_until: Some(now + limits::UNDECODABLE_WINDOW), pending: false };
        self.move_epoch("undecodable", now, actions);
    }

    /// Messages may have been lost: a LIVE region stops being so until it is next heard.
    fn suspect(&mut self, why: &'static str, now: Moment, actions: &mut Vec<Action>) {
        self.move_epoch(why, now, actions);
        if self.state == Subscription::Live {
            self.turn(Subscription::Suspect, actions);
        }
    }

    fn unsubscribe(&mut self, why: &'static str, now: Moment, actions: &mut Vec<Action>) {
        if self.subscribed.take().is_some() {
            self.move_epoch(why, now, actions);
        }
        self.strong = None;
        self.polled = None;
        self.attested = None;
    }

    /// Asks for a new subscription, each time later while none turns LIVE.
    fn die(&mut self, actions: &mut Vec<Action>) {
        self.turn(Subscription::Dead, actions);
        let (first, longest) = limits::RESUBSCRIBE_WAIT;
        let wait = first.saturating_mul(1 << self.deaths.min(16)).min(longest);
        self.deaths = self.deaths.saturating_add(1);
        actions.push(Action::Resubscribe(self.id, wait));
    }

    /// How long a subscription may stay without proof.
    fn patience(&self) -> Duration {
        if self.weak_refused { limits::PROBING_WAIT } else { limits::WEAK_PROOF_AFTER + limits::WEAK_LEASE }
    }

    fn turn(&mut self, state: Subscription, actions: &mut Vec<Action>) {
        if self.state != state {
            self.state = state;
            actions.push(Action::StateChanged(self.id, state));
        }
    }

    fn move_epoch(&mut self, why: &'static str, now: Moment, actions: &mut Vec<Action>) {
        self.unbroken_since = now;
        if !is_on(Rule::R10) {
            return;
        }
        self.epoch = Epoch(self.epoch.0.wrapping_add(1));
        actions.push(Action::EpochMoved(self.id, self.epoch, why));
    }
}

/// R9: how long a proof of `at` holds.
fn lease_until(at: Moment, length: Duration) -> Moment {
    if is_on(Rule::R9) { at + length } else { Moment::from_nanos(u64::MAX) }
}

/// The newest slot that a path heartbeat received at `wall` may claim.
fn newest_slot(wall: Wall) -> u64 {
    wall.as_millis() / limits::HEARTBEAT_SLOT.as_millis() as u64 + limits::HEARTBEAT_SLOTS_AHEAD
}

#[cfg(test)]
mod tests;
