//! Fills that no reader waits for: rechecks of provisional entries (R5) and refetches after an announcement.
//!
//! Before it: a fill ended provisional, or an announcement named a record that was read in the last minute. After
//! it: an ordinary fill. Invariant: background legs come out of a budget of their own ([`crate::origin::budget`]); a reader
//! who joined a background fill that brought nothing asks for himself.

use std::sync::Arc;
use std::time::Duration;

use super::{Ask, Of};
use crate::cache::entry::{Entry, Hold, Shown, Standing};
use crate::freshness::standing;
use crate::freshness::words::RecordId;
use crate::limits;
use crate::origin::region::Purpose;
use crate::serve::Sidecar;

/// Refetches of one record that one announcement may begin.
const REFETCHES_PER_RECORD: usize = 16;
/// Refetches are spread over this, so that sidecars that hear of a change together do not ask together.
const REFETCH_JITTER: Duration = Duration::from_millis(25);

/// Rechecks the entry that `ask` filled, if it is provisional: after 50 ms, doubling to 60 s, until it is settled, gone,
/// or nobody has read it for a while.
pub(super) fn recheck(sidecar: &Arc<Sidecar>, ask: Ask) {
    if ask.purpose == Purpose::Background || !is_provisional(sidecar, &ask) {
        return;
    }
    let Ok(place) = sidecar.fills.rechecks.clone().try_acquire_owned() else { return };
    let (own, stopping) = (sidecar.clone(), sidecar.tasks.stopping());
    let rechecks = async move {
        let _place = place;
        let (mut wait, longest) = limits::RECHECK_WAIT;
        while is_provisional(&own, &ask) {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(longest);
            let Of::Route(routing) = &ask.of else { return };
            let now = own.clock.now();
            if !routing.records.iter().any(|(_, record)| record.was_read_lately(now)) {
                return;
            }
            if !standing::recheck_may_settle(&own.freshness.horizon(), now) {
                return;
            }
            let previous = own.store.get(ask.key.as_ref());
            let again = Ask { previous, purpose: Purpose::Background, ..ask.clone() };
            own.fills.fill(&own, again).await;
        }
    };
    sidecar.tasks.spawn("recheck", async move {
        stopping.run_until_cancelled(rechecks).await;
    });
}

fn is_provisional(sidecar: &Sidecar, ask: &Ask) -> bool {
    let Some(entry) = sidecar.store.get(ask.key.as_ref()) else { return false };
    matches!(&entry.hold, Hold::Routed(routed) if routed.standing == Standing::Provisional)
}

/// Something newer than `entry` was announced or served (R1, R3).
fn is_below(entry: &Entry) -> bool {
    let current = |shown: &Shown| shown.record.snapshot().upholds(shown.version, shown.generation);
    !entry.shows().iter().all(current)
}

/// Refetches what is stored of a record that an announcement named: at once but for a jitter, within the budget.
pub fn refetch(sidecar: &Arc<Sidecar>, record: RecordId) {
    for (key, previous) in sidecar.store.entries_of(record).into_iter().take(REFETCHES_PER_RECORD) {
        let Some(routing) = sidecar.routing_of(&previous) else { continue };
        let ask = Ask {
            key,
            request: previous.request.clone(),
            of: Of::Route(routing),
            previous: Some(previous),
            purpose: Purpose::Background,
            no_cache: true,
            alone: false,
        };
        let (own, stopping) = (sidecar.clone(), sidecar.tasks.stopping());
        let refetch = async move {
            tokio::time::sleep(REFETCH_JITTER.mul_f64(fastrand::f64())).await;
            // A reader may have asked meanwhile; then there is nothing left to do.
            let Some(previous) = own.store.get(ask.key.as_ref()).filter(|stored| is_below(stored)) else {
                return;
            };
            let ask = Ask { previous: Some(previous), ..ask };
            own.fills.fill(&own, ask.clone()).await;
            recheck(&own, Ask { purpose: Purpose::Foreground, ..ask });
        };
        sidecar.tasks.spawn("refetch", async move {
            stopping.run_until_cancelled(refetch).await;
        });
    }
}
