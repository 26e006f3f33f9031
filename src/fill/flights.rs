//! The fills under way, by what they ask for, and what is left of those that ended.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, SetOnce};
use tokio_util::sync::CancellationToken;

use super::errors::Errors;
use super::lent::Lent;
use super::outcome::Filled;
use super::pending::Pending;
use super::permits::Permits;
use crate::cache::key::Key;
use crate::cache::limits::{FILLS, REMEMBERED_ERROR_BYTES};
use crate::model::ids::Generation;
use crate::model::time::Moment;
use crate::race::question::Purpose;

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct FillKey {
    pub(super) key: Key,
    pub(super) generation: Generation,
    /// Regions are asked past any cache in front of them.
    pub(super) end_to_end: bool,
    /// Whose settings and credentials it asks with ([`Settings::reading`](super::settings::Settings::reading)).
    pub(super) reading: u64,
}

/// The result, and on whose behalf it was asked for.
#[derive(Clone)]
pub(super) struct FillResult {
    pub(super) filled: Filled,
    pub(super) purpose: Purpose,
}

/// Set once, by the fill's leader, however the fill ends.
pub(super) type ResultCell = Arc<SetOnce<FillResult>>;
pub(super) type Shard = HashMap<FillKey, InFlight>;

/// A fill under way, as its followers see it.
pub(super) struct InFlight {
    pub(super) cell: ResultCell,
    /// Its position among all arrivals of readers and beginnings of fills.
    pub(super) began: u64,
    /// Latest end of the fill, unless the process stood still. After that, its result is too old
    /// for newcomers.
    pub(super) until: Moment,
    /// Set for a background fill: cancelled when a reader starts to wait for it.
    pub(super) wanted: Option<CancellationToken>,
}

/// The fills under way, and the failures of the last seconds.
pub struct Fills {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    pub(super) under_way: AtomicUsize,
    /// Counts arrivals of readers and beginnings of fills, to tell which came first.
    pub(super) arrivals: AtomicU64,
    /// Permits for undecided races: where memory is small, a burst of misses takes turns.
    pub(super) turns: Arc<Semaphore>,
    pub(super) errors: Errors,
    pub(super) pending: Pending,
    /// Callers that may have what is stored (R22).
    pub(crate) permits: Permits,
    /// Callers' credentials for background work.
    pub(crate) lent: Lent,
}

impl Default for Fills {
    fn default() -> Self {
        Self::new(FILLS, REMEMBERED_ERROR_BYTES)
    }
}

impl Fills {
    /// At most `races` undecided fills at once, and `error_bytes` of remembered failures.
    pub fn new(races: usize, error_bytes: usize) -> Self {
        Self {
            shards: (0..64).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            under_way: AtomicUsize::new(0),
            arrivals: AtomicU64::new(0),
            turns: Arc::new(Semaphore::new(races)),
            errors: Errors::new(error_bytes),
            pending: Pending::default(),
            permits: Permits::default(),
            lent: Lent::default(),
        }
    }

    pub(super) fn shard(&self, fill_key: &FillKey) -> MutexGuard<'_, Shard> {
        // Both fills of a key and a generation are in one shard.
        let shard = self.hasher.hash_one((&fill_key.key, fill_key.generation)) as usize % self.shards.len();
        // A fill is inserted or removed whole: a panic elsewhere cannot leave half of one.
        self.shards[shard].lock()
    }

    /// Asks again for what failed moments ago, because the settings have changed.
    pub fn forget_errors(&self) {
        self.errors.forget_all();
    }

    pub fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// The keys of shared fills under way whose target is `wanted`.
    pub fn under_way_of(&self, wanted: impl Fn(&str) -> bool) -> Vec<Key> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let keys = shard.keys().map(|fill_key| &fill_key.key);
            found.extend(keys.filter(|key| wanted(key.as_ref().target())).cloned());
        }
        found
    }
}
