//! Owns what regions tell and how it arrives: announcements, heartbeats, what operators order.
//!
//! What a region says it says on time; what arrives while the process is paused, or cannot be
//! verified or applied, comes later or never.

use std::time::Duration;

use nearside::model::ids::RegionId;
use nearside::protocol::event::{Event, OperatorOrder, Scope};

use super::super::faults::Fault;
use super::super::plan::{Proof, Read, Window};
use super::super::subject::Subject;
use super::super::topic::{Message, Reach, Says};
use super::super::world::World;
use super::{Happening, Run, lock};

/// Time from an operator's RESET of all, after a restore, to the last reads.
const FINAL_ORDER: Duration = Duration::from_secs(85);

impl Run {
    pub(super) fn announce(&mut self, region: usize, write: usize, now: Duration) {
        let change = self.world.plan.truth.writes[write];
        if change.silent {
            return;
        }
        // Nobody has read it for long: it is announced while nothing is stored.
        if write.is_multiple_of(3) && self.world.plan.windows.iter().any(|w| w.fault == Fault::AbsentThenLagging) {
            self.subject.evict(std::iter::once(change.key));
        }
        self.send(region, change.key, Says::Write(write), now);
    }

    /// A publisher of the region, always the same for a record, publishes.
    pub(super) fn send(&mut self, region: usize, key: usize, says: Says, now: Duration) {
        let publisher = self.topics[region].of(key, now);
        let world = self.world.clone();
        let message = self.topics[region].message(&world.plan, region, publisher, says, now);
        self.publish(message);
    }

    fn publish(&mut self, message: Message) {
        let world = self.world.clone();
        let (deliveries, fired) = self.topics[message.region].publish(&world.plan, message, &mut self.rng);
        fired.into_iter().for_each(|fault| world.fired(fault));
        if deliveries.is_empty() {
            world.tell(&keys_of(&world, message.says), || format!("LOST on topic {}: {:?}", message.region, message));
        }
        for (at, subscription, message) in deliveries {
            self.at(at, Happening::Delivery(subscription, message));
        }
    }

    pub(super) fn beat(&mut self, region: usize, publisher: usize, now: Duration) {
        self.at(now + Duration::from_secs(5), Happening::Beat(region, publisher));
        let world = self.world.clone();
        let says = match world.plan.proof {
            Proof::Watermark => {
                let skew = world.plan.window(Fault::PublisherSkew).filter(|window| window.is_at(region));
                let ahead = skew.map_or(Duration::ZERO, |window| Duration::from_secs(5).mul_f64(window.strength));
                if skew.is_some() {
                    world.fired(Fault::PublisherSkew);
                }
                if world.is_on(Fault::IngestStalled, region, now) {
                    world.fired(Fault::IngestStalled);
                }
                Says::Beat { through: world.plan.truth.through(region, now) + ahead }
            }
            Proof::Path if publisher == 0 => Says::Path,
            _ => return,
        };
        let message = self.topics[region].message(&world.plan, region, publisher, says, now);
        self.publish(message);
    }

    pub(super) fn deliver(&mut self, subscription: u32, message: Message, now: Duration) {
        if self.topics[message.region].subscription != Some(subscription) {
            return;
        }
        let world = self.world.clone();
        if now < self.paused_until {
            let after = Duration::from_millis(self.rng.u64(0..500));
            return self.at(self.paused_until + after, Happening::Delivery(subscription, message));
        }
        let keys = keys_of(&world, message.says);
        if let Some(window) = world.plan.window(Fault::Unverifiable).copied()
            && world.is_on(Fault::Unverifiable, message.region, now)
        {
            return self.unverifiable(&window, subscription, message, now);
        }
        if world.is_on(Fault::ApplyFails, message.region, now) {
            world.fired(Fault::ApplyFails);
            world.tell(&keys, || format!("could not be applied: {message:?}"));
            if !Subject::acknowledges_unapplied() {
                let again = Duration::from_secs(5 + self.rng.u64(0..25));
                self.at(now + again, Happening::Delivery(subscription, message));
            }
            return;
        }
        self.notice_fetches(&message, &keys, now);
        world.tell(&keys, || format!("arrives from topic {}: {:?}", message.region, message));
        if let Says::OtherCase(write) = message.says
            && self.subject.misnames(message.region, world.plan.truth.writes[write].key)
        {
            world.fired(Fault::LetterCase);
            lock(&self.shared).checker.known.other_case.note(message.region, now);
        }
        lock(&self.shared).checker.known.delivered(&world.plan, &message, now);
        let event = self.subject.event(&world, &message);
        self.step(event);
    }

    /// Something came that cannot be verified: its certificate cannot be fetched now, or it is
    /// nobody's.
    fn unverifiable(&mut self, window: &Window, subscription: u32, message: Message, now: Duration) {
        self.world.fired(Fault::Unverifiable);
        self.world.tell(&keys_of(&self.world, message.says), || format!("cannot be verified: {message:?}"));
        lock(&self.shared).checker.known.unverified(message.region, now);
        self.step(Event::Unverified(RegionId(message.region as u8)));
        // Those that never verify are dropped; the others come again.
        if window.lot().is_multiple_of(2) {
            let again = Duration::from_secs(30 + self.rng.u64(0..10));
            self.at(now + again, Happening::Delivery(subscription, message));
        }
    }

    /// Schedules the operators' announcements: when all regions show the change, and once more when
    /// all is quiet.
    pub(super) fn prepare_orders(&mut self) {
        let world = self.world.clone();
        let plan = &world.plan;
        for window in &plan.windows {
            let goes_back = matches!(window.fault, Fault::Restored | Fault::Recreated);
            let shown = plan
                .truth
                .writes
                .iter()
                .filter(|write| goes_back && write.back || write.silent && write.at == window.from)
                .map(|write| plan.truth.last_ingest_of(write))
                .max()
                .unwrap_or(window.until);
            let reach = if window.strength < 0.5 { Reach::Type } else { Reach::All };
            let nodes = plan.regions.iter().map(|region| region.cache_lag).max().unwrap_or_default();
            let soon = shown + nodes + Duration::from_millis(500);
            match window.fault {
                Fault::Reload => {
                    self.at(soon, Happening::Orders(window.region, Says::Reload(Reach::Record(window.key))))
                }
                Fault::ReloadAll => self.at(soon, Happening::Orders(window.region, Says::Reload(reach))),
                Fault::Restored | Fault::Recreated => {
                    let records = window.lot().is_multiple_of(3);
                    let at = window.until.max(soon);
                    for key in 0..plan.truth.keys() {
                        let each = Says::Reset(Reach::Record(key));
                        if records && plan.truth.went_back(key).is_some() {
                            self.at(at, Happening::Orders(window.region, each));
                        }
                    }
                    if !records {
                        self.at(at, Happening::Orders(window.region, Says::Reset(reach)));
                    }
                    // By then all that was on its way has come.
                    self.at(plan.calm - FINAL_ORDER, Happening::Resets);
                }
                Fault::LateReset => {
                    let reach = if window.lot().is_multiple_of(3) { Reach::Record(window.key) } else { reach };
                    for region in (0..plan.topics).filter(|region| *region == window.region || window.lot() < 500) {
                        self.at(window.from, Happening::Orders(region, Says::Reset(reach)));
                    }
                }
                _ => {}
            }
        }
    }

    /// The operator of the sidecar itself makes it forget.
    pub(super) fn resets(&mut self, now: Duration) {
        self.world.tell(&[], || "the operator orders a RESET of everything".to_owned());
        lock(&self.shared).checker.known.forgotten(&self.world.plan, Reach::All, now, now);
        self.step(Event::Ordered(OperatorOrder::Reset(Scope::All)));
    }

    pub(super) fn orders(&mut self, region: usize, says: Says, now: Duration) {
        let (fault, key) = match says {
            Says::Reload(Reach::Record(key)) => (Some(Fault::Reload), key),
            Says::Reload(_) => (Some(Fault::ReloadAll), 0),
            Says::Reset(Reach::Record(key)) => (None, key),
            _ => (None, 0),
        };
        fault.into_iter().for_each(|fault| self.world.fired(fault));
        if fault == Some(Fault::ReloadAll) {
            // Most records are not held when it comes.
            self.subject.evict((0..self.world.plan.truth.keys()).filter(|key| key % 4 != 1));
        }
        self.send(region, key, says, now);
    }

    /// Some faults are coincidences: an announcement meets a fetch.
    fn notice_fetches(&mut self, message: &Message, keys: &[usize], now: Duration) {
        let (Says::Write(_), Some(key)) = (message.says, keys.first()) else { return };
        if self.subject.is_asked_for(*key) {
            self.world.fired(Fault::DuringFetch);
            self.world.fired(Fault::LateReader);
            for view in 0..2 {
                let read = Read::new(now, *key, view);
                self.at(now + Duration::from_millis(u64::from(view)), Happening::Read(read));
            }
        } else if !self.subject.holds(*key) {
            self.world.fired(Fault::AbsentThenLagging);
        }
    }
}

fn keys_of(world: &World, says: Says) -> Vec<usize> {
    match says {
        Says::Write(write) | Says::OtherCase(write) => vec![world.plan.truth.writes[write].key],
        Says::Jump(key, _) => vec![key],
        Says::Reload(reach) | Says::Reset(reach) => reach.keys(world.plan.truth.keys()).collect(),
        _ => Vec::new(),
    }
}
