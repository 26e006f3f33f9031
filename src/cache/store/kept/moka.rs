//! What the program keeps things in. The only file that touches moka, but for how a borrowed key is looked up
//! ([`crate::cache::key`]).
//!
//! Before and after it: see [`super`]. Invariant: a reader takes no lock of ours.

use std::sync::Arc;

use moka::ops::compute::Op;
use moka::sync::Cache;

use super::Change;
use crate::cache::key::{Hashed, Key, KeyRef};
use crate::cache::store::Held;
use crate::cache::store::index::Index;

/// Entries and lists of variants under their keys; moka evicts what is worth least.
pub(in crate::cache::store) struct Kept(Cache<Key, Held, Hashed>);

impl Kept {
    /// Nothing yet, and at most `capacity` bytes by [`Held::weight`]; `index` hears of what leaves.
    pub(in crate::cache::store) fn new(capacity: u64, index: Arc<Index>) -> Self {
        let cache = Cache::builder()
            .max_capacity(capacity)
            .weigher(|key: &Key, held: &Held| u32::try_from(held.weight(key)).unwrap_or(u32::MAX))
            .eviction_listener(move |key, held, cause| held.leave(&key, cause.was_evicted(), &index))
            .build_with_hasher(Hashed);
        Self(cache)
    }

    /// What is under `key`.
    #[inline]
    pub(in crate::cache::store) fn get(&self, key: KeyRef<'_>) -> Option<Held> {
        self.0.get(&key)
    }

    /// Does what `decide` says of what is under `key`, while nobody else changes it.
    pub(in crate::cache::store) fn change(&self, key: &Key, decide: impl FnOnce(Option<&Held>) -> Change) {
        self.0.entry_by_ref(key).and_compute_with(|current| {
            match decide(current.as_ref().map(|current| current.value())) {
                Change::Keep => Op::Nop,
                Change::Put(held) => Op::Put(held),
                Change::Remove => Op::Remove,
            }
        });
    }

    /// Removes what is under `key`.
    pub(in crate::cache::store) fn remove(&self, key: KeyRef<'_>) {
        self.0.invalidate(&key);
    }

    /// Shows what is kept, in no order, until `visit` has seen enough.
    pub(in crate::cache::store) fn each(&self, mut visit: impl FnMut(&Key, &Held) -> bool) {
        for (key, held) in &self.0 {
            if !visit(&key, &held) {
                break;
            }
        }
    }

    /// Evicts what is over capacity.
    pub(in crate::cache::store) fn run_pending_tasks(&self) {
        self.0.run_pending_tasks();
    }

    /// Bytes kept, as of the last maintenance.
    pub(in crate::cache::store) fn weighted_size(&self) -> u64 {
        self.0.weighted_size()
    }

    /// How many are kept, as of the last maintenance.
    pub(in crate::cache::store) fn entry_count(&self) -> u64 {
        self.0.entry_count()
    }

    /// How many are kept now, those over capacity among them.
    #[cfg(test)]
    pub(in crate::cache::store) fn counted(&self) -> usize {
        self.0.iter().count()
    }
}
