//! Rechecks and refetches that wait or run: bounded, and at most one recheck per key.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::limits;
use crate::cache::key::Key;
use crate::model::ids::Generation;

/// Background work that runs or waits.
pub(crate) struct Pending {
    rechecks: Mutex<HashMap<Key, Recheck>>,
    pub(super) refetches: Arc<Semaphore>,
}

impl Default for Pending {
    fn default() -> Self {
        Self { rechecks: Mutex::default(), refetches: Arc::new(Semaphore::new(limits::PENDING_REFETCHES)) }
    }
}

/// The rechecks of one key. Those of a newer generation replace those of an older one, whose waits
/// have grown.
struct Recheck {
    generation: Generation,
    replaced: CancellationToken,
}

impl Pending {
    fn rechecks(&self) -> MutexGuard<'_, HashMap<Key, Recheck>> {
        // A recheck is inserted or removed whole: a panic elsewhere cannot leave half of one.
        self.rechecks.lock()
    }

    /// A place for the rechecks of `key`; `None` when there is one for this generation, or no room.
    pub(super) fn begin(&self, key: &Key, generation: Generation) -> Option<CancellationToken> {
        let mut rechecks = self.rechecks();
        match rechecks.get(key) {
            Some(known) if known.generation >= generation => return None,
            Some(older) => older.replaced.cancel(),
            None if rechecks.len() >= limits::PENDING_RECHECKS => return None,
            None => {}
        }
        let replaced = CancellationToken::new();
        rechecks.insert(key.clone(), Recheck { generation, replaced: replaced.clone() });
        Some(replaced)
    }

    /// True if rechecks of `key` might begin; false while somebody else holds the lock.
    pub(super) fn has_room_for(&self, key: &Key) -> bool {
        let rechecks = self.rechecks.try_lock();
        rechecks.is_some_and(|rechecks| rechecks.len() < limits::PENDING_RECHECKS && !rechecks.contains_key(key))
    }

    pub(super) fn end(&self, key: &Key, generation: Generation) {
        let mut rechecks = self.rechecks();
        if rechecks.get(key).is_some_and(|known| known.generation == generation) {
            rechecks.remove(key);
        }
    }
}
