//! RELOADs and RESETs of a whole type, or of everything (R18, R19), and what they mean for a record
//! that nothing held when they came.
//!
//! A record without a cell cannot be marked when such an order arrives: there are a million slots,
//! and most records do not even have one. So the order is remembered, and applied when the record
//! is next looked at. A state is from before the order if its generation is smaller, since all
//! generations are drawn from one sequence and each access to a record applies the order first.
//!
//! A RESET forgets what was stated before it was published, and that may be long before it arrives.
//! What was published, or asked of a region, since then is from after it and stays (R13).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::event::Scope;
use super::merge;
use super::record::Snapshot;
use super::stamp::Stamp;
use crate::model::ids::{Generation, RecordId, RegionSet, TypeId, Version};
use crate::model::time::Moment;
use crate::protocol::limits;
use crate::switch::{Rule, is_on};

/// The newest orders for each type that has had one, and for all types.
#[derive(Debug, Default)]
pub(crate) struct Recalls {
    known: Mutex<Vec<(Covers, Remembered)>>,
    /// The latest RESETs, of single records too. A reply requested before one no longer says
    /// anything.
    resets: Mutex<VecDeque<(Scope, Moment)>>,
    /// Time at which the newest of them was published, in nanoseconds since boot.
    newest_reset: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Covers {
    /// `None` is every type.
    record_type: Option<TypeId>,
    forgets: bool,
}

#[derive(Clone, Copy, Debug)]
struct Remembered {
    regions: RegionSet,
    at: Moment,
    since: Option<Moment>,
    generation: Generation,
}

/// Effect of a RELOAD or a RESET on a state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recall {
    /// RESET: floors that were last stated before this are forgotten too.
    pub(crate) forgets: Option<Moment>,
    /// Who gave the order; every region if an operator did.
    pub(crate) regions: RegionSet,
    pub(crate) at: Moment,
    /// A generation that nothing had before.
    pub(crate) generation: Generation,
}

/// Change of a state by an order (`merge`).
type Change = fn(&mut Snapshot, RegionSet, Moment, Generation, Duration);

impl Recall {
    pub(crate) fn apply(self, state: &mut Snapshot, worst_lag: Duration) {
        let (change, regions): (Change, _) = match self.forgets {
            None => (merge::reload, self.regions),
            Some(_) if !is_on(Rule::LateResets) => (merge::reset, self.regions),
            Some(since) => self.published(since, state),
        };
        change(state, regions, self.at, self.generation, worst_lag);
    }

    /// Effect of a RESET that was published at `since`, and who speaks for it.
    fn published(self, since: Moment, state: &Snapshot) -> (Change, RegionSet) {
        if state.floor != Version::NONE && !state.floor_at.is_up_to(since, self.at) {
            return (merge::reload, self.regions);
        }
        if self.at.since(since) <= limits::GROWTH_SOON {
            return (merge::reset, self.regions);
        }
        // The announcement of a floor is from when that was stated, whenever it came.
        let announced = state.marker.filter(|marker| !state.at_floor && !marker.is_surpassed());
        if announced.is_some_and(|marker| marker.at > since) {
            return (reset_below, self.regions);
        }
        // Nobody knows which region has what was announced since then, below the floor of before,
        // so all are waited for (R4).
        (merge::reset, RegionSet::EMPTY)
    }

    /// True if its rule is switched on.
    pub(crate) fn is_on(self) -> bool {
        is_on(if self.forgets.is_some() { Rule::R19 } else { Rule::R18 })
    }
}

impl Recalls {
    /// A RESET that was published at `since`.
    pub(crate) fn note_reset(&self, scope: Scope, since: Moment) {
        let mut resets = self.resets.lock();
        if resets.len() >= limits::RESETS {
            resets.pop_front();
        }
        resets.push_back((scope, since));
        self.newest_reset.fetch_max(since.as_nanos(), Ordering::Relaxed);
    }

    /// True if a RESET of this record was published after `sent`. What was requested then is from
    /// before the restore.
    pub(crate) fn reset_since(&self, id: RecordId, sent: Moment) -> bool {
        if sent.as_nanos() > self.newest_reset.load(Ordering::Relaxed) {
            return false;
        }
        let resets = self.resets.lock();
        resets.iter().any(|(scope, at)| *at >= sent && scope.covers(id))
    }

    /// Remembers an order for a type or for all types. There are at most two for each type that a
    /// route names.
    pub(crate) fn note(&self, record_type: Option<TypeId>, order: Recall, worst_lag: Duration) {
        let covers = Covers { record_type, forgets: order.forgets.is_some() };
        let mut known = self.known();
        let place = known.iter().position(|(known, _)| *known == covers);
        // Regions that say the same soon after each other speak of the same event (R4).
        let before = place.map(|place| known.remove(place).1);
        let joined = before.filter(|before| order.at.since(before.at) <= worst_lag);
        let regions = joined.map_or(order.regions, |before| RegionSet(before.regions.0 | order.regions.0));
        // One that comes late takes nothing back of what one before it was about.
        let since = order.forgets.max(before.and_then(|before| before.since));
        known.push((covers, Remembered { regions, at: order.at, since, generation: order.generation }));
    }

    /// Applies what was ordered since a state was last touched. `slot` is the state as it lay in
    /// the table; `absent` stands for a record without a slot, of which nobody knows when it was
    /// touched. `now` is the latest moment that anybody passed in.
    pub(crate) fn apply(
        &self,
        record_type: TypeId,
        slot: Option<Snapshot>,
        absent: Snapshot,
        now: Moment,
        worst_lag: Duration,
    ) -> Snapshot {
        let mut state = slot.unwrap_or(absent);
        // In the order in which they came: `note` puts the newest last.
        for (covers, recall) in &*self.known() {
            let covered = covers.record_type.is_none_or(|only| only == record_type);
            if !covered || slot.is_some() && recall.generation <= state.generation {
                continue;
            }
            // No region lags by more than `worst_lag`. After that any of them may speak for the
            // record (R4), and the mark remains for replies that an intermediary made before (R8).
            let old = now.since(recall.at) > worst_lag;
            let regions = if old { RegionSet::ALL } else { recall.regions };
            let generation = recall.generation.max(state.generation);
            Recall { forgets: recall.since, regions, at: recall.at, generation }.apply(&mut state, worst_lag);
        }
        state
    }

    /// The newest generation that any order gave a record of this type. A state that says no more
    /// than that need not be kept.
    pub(crate) fn generation(&self, record_type: TypeId) -> Generation {
        let known = self.known();
        let covering = known.iter().filter(|(it, _)| it.record_type.is_none_or(|only| only == record_type));
        covering.map(|(_, it)| it.generation).max().unwrap_or_default()
    }

    /// True if there was no order at all, as in most processes.
    pub(crate) fn is_empty(&self) -> bool {
        self.known().is_empty()
    }

    fn known(&self) -> MutexGuard<'_, Vec<(Covers, Remembered)>> {
        // An order is added or removed whole, so a panic cannot leave half of one.
        self.known.lock()
    }
}

/// R19: a RESET that comes late, after something else was announced of the record. That stands, as
/// after a RELOAD, and only the floor is from before.
fn reset_below(state: &mut Snapshot, regions: RegionSet, now: Moment, next: Generation, worst_lag: Duration) {
    merge::reload(state, regions, now, next, worst_lag);
    (state.floor, state.floor_at) = (Version::NONE, Stamp::default());
    (state.at_floor, state.changed, state.escaped) = (false, false, false);
}

/// Range of a scope beyond one record; `Some(None)` is everything.
pub(crate) const fn covered(scope: Scope) -> Option<Option<TypeId>> {
    match scope {
        Scope::Record(_) => None,
        Scope::Type(only) => Some(Some(only)),
        Scope::All => Some(None),
    }
}
