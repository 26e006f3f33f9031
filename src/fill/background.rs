//! Fills that no reader waits for: rechecks of provisional entries (R5), and refetches after an
//! announcement of a record that was read in the last minute.
//!
//! Background attempts have a budget of their own (`race::budget`). A key has at most
//! one recheck waiting. What is still fresh is not refetched. A reader who joined a background fill
//! that brought nothing asks for itself.

use std::sync::Arc;
use std::time::Duration;

use super::ask::{Ask, Of};
use super::flight::{self, fill};
use super::lending::with_lent;
use super::limits;
use super::settings::{Later, Settings};
use super::stored::{good_for, routing_of};
use crate::cache::entry::{Entry, Validity};
use crate::cache::key::Key;
use crate::model::ids::{Generation, RecordId};
use crate::protocol::holding::Standing;
use crate::protocol::standing::{self, Use};
use crate::race::question::Purpose;
use crate::switch::{Rule, is_on};

/// Most refetches that one announcement of a record may begin.
const REFETCHES_PER_RECORD: usize = 16;
/// Refetches are spread over this, so that sidecars that hear of a change together do not ask
/// together.
const REFETCH_JITTER: Duration = Duration::from_millis(25);

/// Frees the place of a key's rechecks, however they end.
struct Place {
    settings: Arc<Settings>,
    key: Key,
    generation: Generation,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.settings.shared.fills.pending.end(&self.key, self.generation);
    }
}

/// Begins what follows a fill or an announcement.
pub(crate) fn begin(settings: &Arc<Settings>, later: Later<'_>) {
    match later {
        Later::Recheck(ask) => recheck(settings, ask),
        Later::Refetch(record) => refetch(settings, record),
    }
}

/// Rechecks the entry that `ask` filled, if it is provisional: after 50 ms, doubling to 60 s, until
/// it is settled, gone, or nobody has read it for a while.
pub(crate) fn recheck(settings: &Arc<Settings>, ask: &Ask) {
    if ask.purpose == Purpose::Background || ask.alone || !is_provisional(settings, ask) {
        return;
    }
    if !standing::recheck_may_settle(&settings.shared.freshness.region_views(), settings.shared.clock.now())
        || settings.shared.memory.is_short()
    {
        return;
    }
    // What was stored before is not held until the next recheck, which looks anew.
    let ask = Ask { previous: None, through: None, ..ask.clone() };
    let generation = ask.generation();
    let Some(replaced) = settings.shared.fills.pending.begin(&ask.key, generation) else { return };
    let place = Place { settings: settings.clone(), key: ask.key.clone(), generation };
    let (own, stopping) = (settings.clone(), settings.shared.tasks.stopping());
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
            let now = own.shared.clock.now();
            if !routing.records().iter().any(|(_, record)| record.was_read_lately(now)) {
                return;
            }
            if !standing::recheck_may_settle(&own.shared.freshness.region_views(), now) {
                return;
            }
            let own = own.newest();
            if own.router.index_of(routing.route).is_none() {
                return;
            }
            let previous = own.shared.store.get(ask.key.as_ref());
            let again = Ask { previous, purpose: Purpose::Background, ..ask.clone() };
            // Who reads it next has it rechecked with credentials of its own.
            let Some(again) = with_lent(&own, again) else { return };
            fill(&own, &again).await;
        }
    };
    settings.shared.tasks.spawn("recheck", async move {
        stopping.run_until_cancelled(rechecks).await;
    });
}

/// Refresh that a hit triggers.
pub enum Refresh {
    /// Recheck a provisional entry.
    Recheck(Key, Arc<Entry>),
    /// Fetch what was served in its grace period.
    Fill(Ask),
}

impl Refresh {
    /// Begins it. It runs on the hit path, so it awaits nothing.
    pub fn begin(self, settings: &Arc<Settings>) {
        match self {
            Self::Fill(ask) => flight::begin(settings, &ask),
            Self::Recheck(key, entry) => recheck_found(settings, key, &entry),
        }
    }
}

fn recheck_found(settings: &Arc<Settings>, key: Key, entry: &Entry) {
    if !settings.shared.fills.pending.has_room_for(&key) {
        return;
    }
    let Some(routing) = routing_of(settings, entry) else { return };
    let request = entry.request(key.as_ref().target());
    let ask = Ask { purpose: Purpose::Foreground, no_cache: false, ..Ask::again(key, request, routing) };
    recheck(settings, &ask);
}

fn is_provisional(settings: &Settings, ask: &Ask) -> bool {
    let Some(entry) = settings.shared.store.get(ask.key.as_ref()) else { return false };
    matches!(&entry.validity, Validity::Routed(routed) if routed.standing == Standing::Provisional)
}

/// Refetches what is stored of a record that an announcement named: at once except for a jitter,
/// and within the budget. What there is no room for waits for a reader.
pub(crate) fn refetch(settings: &Arc<Settings>, record: RecordId) {
    if settings.shared.memory.is_short() {
        return;
    }
    let stored = settings.shared.store.entries_of(record);
    let outdated = stored.into_iter().filter(|(_, entry)| is_outdated(settings, entry));
    for (key, _) in outdated.take(REFETCHES_PER_RECORD) {
        let Ok(place) = settings.shared.fills.pending.refetches.clone().try_acquire_owned() else { return };
        let (own, stopping) = (settings.clone(), settings.shared.tasks.stopping());
        let refetch = async move {
            let _place = place;
            tokio::time::sleep(REFETCH_JITTER.mul_f64(fastrand::f64())).await;
            let own = own.newest();
            // A reader may have been faster.
            let ask = asked_again(&own, key).and_then(|ask| with_lent(&own, ask));
            let Some(ask) = ask else { return };
            fill(&own, &ask).await;
            recheck(&own, &Ask { purpose: Purpose::Foreground, ..ask });
        };
        settings.shared.tasks.spawn("refetch", async move {
            stopping.run_until_cancelled(refetch).await;
        });
    }
}

/// Only what the announcement made outdated. A version that was served before it was announced also
/// moves the generation, for entries without versions; entries that show it are as fresh as before.
fn is_outdated(settings: &Settings, entry: &Entry) -> bool {
    good_for(settings, entry) == Some(Use::Below)
}

/// Request for a refresh of `key`; `None` if nothing is stored there, or if it need not be.
fn asked_again(settings: &Settings, key: Key) -> Option<Ask> {
    let previous = settings.shared.store.get(key.as_ref()).filter(|entry| is_outdated(settings, entry))?;
    let routing = routing_of(settings, &previous)?;
    let request = previous.request(key.as_ref().target());
    Some(Ask { previous: Some(previous), no_cache: is_on(Rule::R8), ..Ask::again(key, request, routing) })
}

#[cfg(test)]
mod tests;
