//! What the simulator keeps things in: a map behind one lock, that does the same in every run. moka chooses what to evict
//! by sketches and works its queues off by the machine's clock; that is tested where it is made, and took a seventh of a
//! simulated seed.
//!
//! Before and after it: see [`super`]. Invariant: the lock, which readers take too, is let go before the index hears of
//! what left.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Change;
use crate::cache::key::{Hashed, Key, KeyRef};
use crate::cache::store::Held;
use crate::cache::store::index::Index;

/// Entries and lists of variants under their keys; what was put longest ago is evicted first.
pub(in crate::cache::store) struct Kept {
    capacity: u64,
    index: Arc<Index>,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    under: HashMap<Key, Slot, Hashed>,
    weight: u64,
    puts: u64,
}

struct Slot {
    held: Held,
    weight: u64,
    /// Which put it was.
    number: u64,
}

impl Slots {
    /// Returns what had to give way.
    fn put(&mut self, key: &Key, held: Held) -> Option<Held> {
        let gone = self.take(key);
        let weight = held.weight(key) as u64;
        self.weight += weight;
        self.puts += 1;
        self.under.insert(key.clone(), Slot { held, weight, number: self.puts });
        gone
    }

    fn take(&mut self, key: &Key) -> Option<Held> {
        let slot = self.under.remove(key)?;
        self.weight -= slot.weight;
        Some(slot.held)
    }

    fn oldest(&self) -> Option<Key> {
        let oldest = self.under.iter().min_by_key(|(_, slot)| slot.number);
        oldest.map(|(key, _)| key.clone())
    }
}

impl Kept {
    /// Nothing yet, and at most `capacity` bytes by [`Held::weight`]; `index` hears of what leaves.
    pub(in crate::cache::store) fn new(capacity: u64, index: Arc<Index>) -> Self {
        Self { capacity, index, slots: Mutex::default() }
    }

    /// A panic elsewhere leaves the map whole: nothing that changes it can fail half way.
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is under `key`.
    pub(in crate::cache::store) fn get(&self, key: KeyRef<'_>) -> Option<Held> {
        self.slots().under.get(&key.to_key()).map(|slot| slot.held.clone())
    }

    /// Does what `decide` says of what is under `key`, while nobody else changes it.
    pub(in crate::cache::store) fn change(&self, key: &Key, decide: impl FnOnce(Option<&Held>) -> Change) {
        let mut slots = self.slots();
        let gone = match decide(slots.under.get(key).map(|slot| &slot.held)) {
            Change::Keep => None,
            Change::Put(held) => slots.put(key, held),
            Change::Remove => slots.take(key),
        };
        drop(slots);
        self.left(key, gone, false);
    }

    /// Removes what is under `key`.
    pub(in crate::cache::store) fn remove(&self, key: KeyRef<'_>) {
        let key = key.to_key();
        let gone = self.slots().take(&key);
        self.left(&key, gone, false);
    }

    /// Shows what is kept, in no order, until `visit` has seen enough.
    pub(in crate::cache::store) fn each(&self, mut visit: impl FnMut(&Key, &Held) -> bool) {
        let slots = self.slots();
        for (key, slot) in &slots.under {
            if !visit(key, &slot.held) {
                break;
            }
        }
    }

    /// Evicts what is over capacity.
    pub(in crate::cache::store) fn run_pending_tasks(&self) {
        loop {
            let mut slots = self.slots();
            if slots.weight <= self.capacity {
                return;
            }
            let Some(key) = slots.oldest() else { return };
            let gone = slots.take(&key);
            drop(slots);
            self.left(&key, gone, true);
        }
    }

    fn left(&self, key: &Key, gone: Option<Held>, evicted: bool) {
        if let Some(held) = gone {
            held.leave(key, evicted, &self.index);
        }
    }

    /// Bytes kept.
    pub(in crate::cache::store) fn weighted_size(&self) -> u64 {
        self.slots().weight
    }

    /// How many are kept.
    pub(in crate::cache::store) fn entry_count(&self) -> u64 {
        self.slots().under.len() as u64
    }

    /// How many are kept now, those over capacity among them.
    #[cfg(test)]
    pub(in crate::cache::store) fn counted(&self) -> usize {
        self.slots().under.len()
    }
}
