//! RELOADs and RESETs of a whole type, or of everything (R18, R19), and what they mean for a record
//! that nothing held when they came.
//!
//! A record without a cell cannot be marked when such an order arrives: there are a million slots,
//! and most records do not even have one. So the order is remembered, and applied when the record
//! is next looked at. A state is from before the order if its generation is smaller, since all
//! generations are drawn from one sequence and whoever touches a record applies the order first.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::event::Scope;
use super::merge;
use super::record::Snapshot;
use super::switch::{Rule, is_on};
use crate::model::ids::{Generation, RecordId, RegionSet, TypeId};
use crate::model::time::Moment;
use crate::protocol::limits;

/// The newest orders for each type that has had one, and for all types.
#[derive(Debug, Default)]
pub(crate) struct Recalls {
    known: Mutex<Vec<(Covers, Remembered)>>,
    /// The latest RESETs, of single records too. A reply requested before one no longer says
    /// anything.
    resets: Mutex<VecDeque<(Scope, Moment)>>,
    /// When the newest of them came, in nanoseconds since boot.
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
    generation: Generation,
}

/// What a RELOAD or a RESET does to a state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recall {
    /// Whether the floor is forgotten too: RESET.
    pub(crate) forgets: bool,
    /// Who gave the order; every region if an operator did.
    pub(crate) regions: RegionSet,
    pub(crate) at: Moment,
    /// A generation that nothing had before.
    pub(crate) generation: Generation,
}

impl Recall {
    pub(crate) fn apply(self, state: &mut Snapshot, worst_lag: Duration) {
        match self.forgets {
            true => merge::reset(state, self.regions, self.at, self.generation, worst_lag),
            false => merge::reload(state, self.regions, self.at, self.generation, worst_lag),
        }
    }

    /// Whether its rule is switched on.
    pub(crate) fn is_on(self) -> bool {
        is_on(if self.forgets { Rule::R19 } else { Rule::R18 })
    }
}

impl Recalls {
    pub(crate) fn note_reset(&self, scope: Scope, now: Moment) {
        let mut resets = self.resets.lock().unwrap_or_else(PoisonError::into_inner);
        if resets.len() >= limits::RESETS {
            resets.pop_front();
        }
        resets.push_back((scope, now));
        self.newest_reset.fetch_max(now.as_nanos(), Ordering::Relaxed);
    }

    /// Whether a RESET of this record came after `sent`. What was requested then is from before the
    /// restore.
    pub(crate) fn reset_since(&self, id: RecordId, sent: Moment) -> bool {
        if sent.as_nanos() > self.newest_reset.load(Ordering::Relaxed) {
            return false;
        }
        let resets = self.resets.lock().unwrap_or_else(PoisonError::into_inner);
        resets.iter().any(|(scope, at)| *at >= sent && scope.covers(id))
    }

    /// Remembers an order for a type or for all types. There are at most two for each type that a
    /// route names.
    pub(crate) fn note(&self, record_type: Option<TypeId>, order: Recall, worst_lag: Duration) {
        let covers = Covers { record_type, forgets: order.forgets };
        let mut known = self.known();
        let place = known.iter().position(|(known, _)| *known == covers);
        // Regions that say the same soon after each other speak of the same event (R4).
        let before = place.map(|place| known.remove(place).1);
        let joined = before.filter(|before| order.at.since(before.at) <= worst_lag);
        let regions = joined.map_or(order.regions, |before| RegionSet(before.regions.0 | order.regions.0));
        known.push((covers, Remembered { regions, at: order.at, generation: order.generation }));
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
            Recall { forgets: covers.forgets, regions, at: recall.at, generation }.apply(&mut state, worst_lag);
        }
        state
    }

    /// The newest generation that any order gave a record of this type. A state that says no more
    /// than that need not be kept.
    pub(crate) fn generation(&self, record_type: TypeId) -> Generation {
        let covers = |covers: &Covers| covers.record_type.is_none_or(|only| only == record_type);
        let generations = self.known().iter().filter(|(it, _)| covers(it)).map(|(_, it)| it.generation).max();
        generations.unwrap_or_default()
    }

    /// Whether there was no order at all, as in most processes.
    pub(crate) fn is_empty(&self) -> bool {
        self.known().is_empty()
    }

    fn known(&self) -> MutexGuard<'_, Vec<(Covers, Remembered)>> {
        // An order is added or removed whole, so a panic cannot leave half of one.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a scope covers beyond one record; `Some(None)` is everything.
pub(crate) const fn covered(scope: Scope) -> Option<Option<TypeId>> {
    match scope {
        Scope::Record(_) => None,
        Scope::Type(only) => Some(Some(only)),
        Scope::All => Some(None),
    }
}
