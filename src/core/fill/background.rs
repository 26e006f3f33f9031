//! Fills that no reader waits for: rechecks of provisional entries (R5), and refetches after an
//! announcement of a record that was read in the last minute.
//!
//! Background legs have a budget of their own (`core::race::budget`). A key has at most
//! one recheck waiting. What is still fresh is not refetched. A reader who joined a background fill
//! that brought nothing asks for itself.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{Ask, Of};
use crate::cache::entry::{Entry, Hold};
use crate::cache::key::Key;
use crate::core::race::region::Purpose;
use crate::core::{Core, limits};
use crate::model::ids::{Generation, RecordId};
use crate::protocol::holding::Standing;
use crate::protocol::standing::{self, Use};
use crate::protocol::switch::{Rule, is_on};

/// Most refetches that one announcement of a record may begin.
const REFETCHES_PER_RECORD: usize = 16;
/// Refetches are spread over this, so that sidecars that hear of a change together do not ask
/// together.
const REFETCH_JITTER: Duration = Duration::from_millis(25);

/// What runs or waits in the background.
pub(crate) struct Pending {
    rechecks: Mutex<HashMap<Key, Recheck>>,
    refetches: Arc<Semaphore>,
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
        self.rechecks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for the rechecks of `key`; `None` when there is one for this generation, or no room.
    fn begin(&self, key: &Key, generation: Generation) -> Option<CancellationToken> {
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

    /// Whether rechecks of `key` might begin; false while somebody else holds the lock.
    fn has_room_for(&self, key: &Key) -> bool {
        let rechecks = self.rechecks.try_lock();
        rechecks.is_ok_and(|rechecks| rechecks.len() < limits::PENDING_RECHECKS && !rechecks.contains_key(key))
    }

    fn end(&self, key: &Key, generation: Generation) {
        let mut rechecks = self.rechecks();
        if rechecks.get(key).is_some_and(|known| known.generation == generation) {
            rechecks.remove(key);
        }
    }
}

/// Frees the place of a key's rechecks, however they end.
struct Place {
    core: Arc<Core>,
    key: Key,
    generation: Generation,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.core.fills.pending.end(&self.key, self.generation);
    }
}

/// Rechecks the entry that `ask` filled, if it is provisional: after 50 ms, doubling to 60 s, until
/// it is settled, gone, or nobody has read it for a while.
pub(crate) fn recheck(core: &Arc<Core>, ask: &Ask) {
    let settles = || standing::recheck_may_settle(&core.freshness.horizon(), core.clock.now());
    if ask.purpose == Purpose::Background || ask.alone || !is_provisional(core, ask) || !settles() {
        return;
    }
    if core.sheds.load(Ordering::Relaxed) {
        return;
    }
    // What was stored before is not held until the next recheck, which looks anew.
    let ask = Ask { previous: None, through: None, ..ask.clone() };
    let generation = ask.generation();
    let Some(replaced) = core.fills.pending.begin(&ask.key, generation) else { return };
    let place = Place { core: core.clone(), key: ask.key.clone(), generation };
    let (own, stopping) = (core.clone(), core.tasks.stopping());
    let rechecks = async move {
        let _place = place;
        let (mut wait, longest) = limits::RECHECK_WAIT;
        while is_provisional(&own, &ask) {
            tokio::select! {
                // In order, as everywhere here: with the same seed a simulation repeats itself.
                biased;
                () = replaced.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            // The race that was still running when the wait began may have settled it.
            if !is_provisional(&own, &ask) {
                return;
            }
            wait = (wait * 2).min(longest);
            let Of::Route(routing) = &ask.of else { return };
            let now = own.clock.now();
            if !routing.records().iter().any(|(_, record)| record.was_read_lately(now)) {
                return;
            }
            if !standing::recheck_may_settle(&own.freshness.horizon(), now) {
                return;
            }
            let own = own.newest();
            if own.router.place(routing.route).is_none() {
                return;
            }
            let previous = own.store.get(ask.key.as_ref());
            let again = Ask { previous, purpose: Purpose::Background, ..ask.clone() };
            own.fills.fill(&own, &again).await;
        }
    };
    core.tasks.spawn("recheck", async move {
        stopping.run_until_cancelled(rechecks).await;
    });
}

/// What a hit triggers.
pub enum Refresh {
    /// Recheck a provisional entry.
    Recheck(Key, Arc<Entry>),
    /// Fetch what was served in its grace period.
    Fill(Ask),
}

impl Refresh {
    /// Begins it. It runs on the hit path, so it awaits nothing.
    pub fn begin(self, core: &Arc<Core>) {
        match self {
            Self::Fill(ask) => core.fills.begin(core, &ask),
            Self::Recheck(key, entry) => recheck_found(core, key, &entry),
        }
    }
}

fn recheck_found(core: &Arc<Core>, key: Key, entry: &Entry) {
    if !core.fills.pending.has_room_for(&key) {
        return;
    }
    let Some(routing) = core.routing_of(entry) else { return };
    let request = entry.request(key.as_ref().target());
    let of = Of::Route(routing);
    let purpose = Purpose::Foreground;
    let ask = Ask {
        key,
        request,
        of,
        previous: None,
        purpose,
        no_cache: false,
        floor: None,
        alone: false,
        dropped: Arc::default(),
        through: None,
    };
    recheck(core, &ask);
}

fn is_provisional(core: &Core, ask: &Ask) -> bool {
    let Some(entry) = core.store.get(ask.key.as_ref()) else { return false };
    matches!(&entry.hold, Hold::Routed(routed) if routed.standing == Standing::Provisional)
}

/// Refetches what is stored of a record that an announcement named: at once except for a jitter,
/// and within the budget. What there is no room for waits for a reader.
pub(crate) fn refetch(core: &Arc<Core>, record: RecordId) {
    if core.sheds.load(Ordering::Relaxed) {
        return;
    }
    let stored = core.store.entries_of(record);
    let outdated = stored.into_iter().filter(|(_, entry)| is_outdated(core, entry));
    for (key, _) in outdated.take(REFETCHES_PER_RECORD) {
        let Ok(place) = core.fills.pending.refetches.clone().try_acquire_owned() else { return };
        let (own, stopping) = (core.clone(), core.tasks.stopping());
        let refetch = async move {
            let _place = place;
            tokio::time::sleep(REFETCH_JITTER.mul_f64(fastrand::f64())).await;
            let own = own.newest();
            // A reader may have been faster.
            let Some(ask) = asked_again(&own, key) else { return };
            own.fills.fill(&own, &ask).await;
            recheck(&own, &Ask { purpose: Purpose::Foreground, ..ask });
        };
        core.tasks.spawn("refetch", async move {
            stopping.run_until_cancelled(refetch).await;
        });
    }
}

/// Only what the announcement made outdated. A version that was served before it was announced also
/// moves the generation, for entries without versions; entries that show it are as fresh as before.
fn is_outdated(core: &Core, entry: &Entry) -> bool {
    core.good_for(entry) == Some(Use::Below)
}

/// What to ask for again under `key`; `None` if nothing is stored there, or if it need not be.
fn asked_again(core: &Core, key: Key) -> Option<Ask> {
    let previous = core.store.get(key.as_ref()).filter(|entry| is_outdated(core, entry))?;
    let routing = core.routing_of(&previous)?;
    let request = previous.request(key.as_ref().target());
    Some(Ask {
        key,
        request,
        of: Of::Route(routing),
        previous: Some(previous),
        purpose: Purpose::Background,
        no_cache: is_on(Rule::R8),
        floor: None,
        alone: false,
        dropped: Arc::default(),
        through: None,
    })
}

#[cfg(test)]
mod tests;
