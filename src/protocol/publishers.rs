//! All publishers of one region: which are missed, and the region's watermark (R10).
//!
//! A publisher whose first message here has number n has sent n - 1 that were not received here.
//! Usually it is hours old, and said them before we subscribed. But some may have been said, and
//! lost, while entries already depended on this region's epoch. Moving the epoch answers for all of
//! it, once it is clear that no late message will:
//!
//! * A region turns LIVE with the first message that proves it, and its epoch moves then. Nothing
//!   from before is vouched for, so the past of that message's publisher is settled at once, and
//!   the watermark begins.
//! * At every start the other publishers follow within a heartbeat, one by one. Moving the epoch
//!   for each of them would be churn for nothing. So a past is a hole that withholds the watermark
//!   for [`limits::PAST_WINDOW`], in which the others follow too, and then the epoch moves once
//!   for all of them.
//! * A young publisher whose first messages overtook each other closes the hole itself, and nothing
//!   happens.
//!
//! The move is quiet: the region stays LIVE, since the message that revealed the past proves that
//! messages arrive.

use std::collections::BTreeMap;

use super::event::Says;
use super::publisher::{Numbers, Publisher, Through};
use crate::model::time::{Moment, Wall};
use crate::protocol::limits;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Messages sent while this publisher was already known.
    Messages,
    /// Messages that publishers sent before the first ones received.
    Past,
}

/// The publishers of one region, by the hash of their names.
#[derive(Debug, Default)]
pub(crate) struct Publishers {
    all: BTreeMap<u64, Publisher>,
    /// An active publisher was forgotten: no watermark before this.
    crowded_until: Moment,
}

impl Publishers {
    /// A numbered message, published `at` on our clock.
    pub(crate) fn note_message(
        &mut self,
        (name, number): (u64, u64),
        published: Wall,
        says: &Says,
        at: Moment,
        now: Moment,
        wall: Wall,
    ) -> Numbers {
        let heartbeat = matches!(says, Says::Heartbeat { .. });
        if !self.all.contains_key(&name) {
            self.make_room(now);
            self.all.insert(name, Publisher::first_heard(number, heartbeat, at, now));
        }
        // A publisher that had to make way is not new, and would pass for new each time it is
        // received.
        let crowded = now < self.crowded_until;
        let publisher = self.all.get_mut(&name).expect("inserted above");
        if crowded {
            publisher.forgive_past();
        }
        publisher.note_message(at);
        let Says::Heartbeat { ingested_through, signing_off, .. } = says else {
            return publisher.announced(number, now);
        };
        let through = ingested_through.map(|claimed| {
            // A publisher's clock may run ahead, but nothing was ingested after SNS saw the
            // heartbeat.
            let claimed = claimed.min(published).min(wall);
            Through { wall: claimed, at: now.before(wall.since(claimed)).min(at) }
        });
        let numbers = publisher.beat(number, published, through, now);
        if *signing_off && at >= publisher.last_heard() {
            publisher.sign_off();
        }
        numbers
    }

    /// Gives up on holes that stayed open for their whole window.
    pub(crate) fn write_off(&mut self, now: Moment) -> Option<Lost> {
        let mut lost = false;
        for publisher in self.all.values_mut() {
            lost |= publisher.oldest_hole().is_some() && publisher.write_off(now);
        }
        if lost {
            return Some(Lost::Messages);
        }
        let oldest = self.all.values().filter_map(Publisher::past).min()?;
        (now.since(oldest) >= limits::PAST_WINDOW).then(|| {
            self.forgive_pasts();
            Lost::Past
        })
    }

    /// The region's epoch has moved, so nothing depends on what was said before any more.
    pub(crate) fn forgive_pasts(&mut self) {
        self.all.values_mut().for_each(Publisher::forgive_past);
    }

    /// Takes back the claims of publishers that fell silent without signing off. Returns whether
    /// there were any.
    pub(crate) fn withdraw(&mut self, now: Moment) -> bool {
        let mut gone = false;
        for publisher in self.all.values_mut() {
            gone |= publisher.withdraw(now);
        }
        gone
    }

    /// The oldest watermark of the active publishers, and of those that signed off while their last
    /// messages are still missing. `None` while one of them has not claimed a time.
    pub(crate) fn watermark(&self, now: Moment) -> Option<Through> {
        if now < self.crowded_until {
            return None;
        }
        let mut oldest = None;
        for publisher in
            self.all.values().filter(|publisher| publisher.is_active(now) || publisher.oldest_hole().is_some())
        {
            let through = publisher.through()?;
            if oldest.is_none_or(|oldest: Through| through.wall < oldest.wall) {
                oldest = Some(through);
            }
        }
        oldest
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Forgets the publisher that has been silent longest. If it was still active, its holes are no
    /// longer seen, so the watermark is withheld for as long as it would have counted.
    fn make_room(&mut self, now: Moment) {
        if self.all.len() < limits::PUBLISHERS_PER_REGION {
            return;
        }
        let silent = self.all.iter().min_by_key(|(name, publisher)| (publisher.last_heard(), **name));
        if let Some((name, was_active)) = silent.map(|(name, publisher)| (*name, publisher.is_active(now))) {
            self.all.remove(&name);
            if was_active {
                self.crowded_until = now + limits::ACTIVE_PUBLISHER;
            }
        }
    }
}
