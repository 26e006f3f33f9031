//! Owns the sidecar's way to its topics: subscribing, polling, and being attested.
//!
//! Before it: the loop of [`super`]. After it: events for the sidecar, and proofs for the checker.
//! Invariant: a subscription gets what is published from when it is made, less what a fault keeps
//! from it.

use std::time::Duration;

use nearside::model::ids::RegionId;
use nearside::protocol::event::Event;

use super::super::faults::Fault;
use super::{Happening, Run, lock};

impl Run {
    pub(super) fn subscribe(&mut self, region: usize, now: Duration) {
        self.step(Event::Subscribing(RegionId(region as u8)));
        self.topics[region].subscription = None;
        lock(&self.shared).checker.known.subscribed(region, None);
        let hole = self.world.is_on(Fault::ResubscribeWithHole, region, now);
        let takes = if hole {
            Duration::from_secs(3 + self.rng.u64(0..20))
        } else {
            Duration::from_millis(50 + self.rng.u64(0..400))
        };
        self.at(now + takes, Happening::Subscribed(region));
    }

    pub(super) fn subscribed(&mut self, region: usize, now: Duration) {
        let hole = self.world.is_on(Fault::ResubscribeWithHole, region, now);
        let late = if hole { Duration::from_millis(self.rng.u64(0..6_000)) } else { Duration::ZERO };
        self.topics[region].subscribe(now + late);
        lock(&self.shared).checker.known.subscribed(region, Some(now));
        self.world.tell(&[], || format!("region {region} is subscribed"));
        self.step(Event::Subscribed(RegionId(region as u8)));
    }

    pub(super) fn poll(&mut self, region: usize, now: Duration) {
        let next = now + Duration::from_secs(5 + self.rng.u64(0..15));
        self.at(next, Happening::Poll(region));
        if self.topics[region].subscription.is_some() {
            lock(&self.shared).checker.known.polled(region, now);
            self.step(Event::Polled(RegionId(region as u8)));
        }
    }

    pub(super) fn attest(&mut self, region: usize, now: Duration) {
        let next = now + Duration::from_secs(50 + self.rng.u64(0..10));
        self.at(next, Happening::Attest(region));
        // The first look comes within a minute of subscribing, others about every two.
        let looked = lock(&self.shared).checker.known.looked(region);
        let is_due = looked.is_none_or(|looked| now - looked >= Duration::from_secs(80));
        if is_due && self.topics[region].subscription.is_some() {
            if self.topics[region].is_revoked() {
                // The queue's policy is looked at too.
                return self.lose(region, Fault::PolicyRevoked);
            }
            lock(&self.shared).checker.known.attested(region, now);
            self.step(Event::Attested(RegionId(region as u8)));
        }
    }
}
