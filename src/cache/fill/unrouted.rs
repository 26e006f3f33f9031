//! What a fill of an unrouted path does: race, pass on whatever status wins, keep it if RFC 9111 lets a shared cache.
//!
//! Before it: [`super`] began the fill. After it: the reply is in the store with its HTTP facts, or is nobody's but
//! the first reader's. Invariant: a reply that a shared cache may not store is never given to a second reader.

use std::sync::Arc;

use http::{Method, StatusCode, header};

use super::{Ask, Failed, Filled, Got, Pilot};
use crate::cache::entry::Entry;
use crate::cache::policy;
use crate::origin::race::{First, Question, Race, Terms};
use crate::origin::reply::{Failure, Outgoing};
use crate::origin::verdict::Winner;
use crate::serve::Sidecar;

/// Runs one fill to its end.
pub(super) async fn run(mut pilot: Pilot, ask: Ask) {
    let sidecar = pilot.sidecar.clone();
    let request = dressed(&ask);
    let mut race = Race::start(&sidecar.regions, Question { request, terms: Terms::Unrouted, purpose: ask.purpose });
    let first = race.first().await;
    let landed = match &first {
        First::Good(winner) => {
            pilot.land(Filled::Got(keep(&sidecar, &ask, winner)));
            true
        }
        First::Nothing => false,
    };
    let tally = race.finish().await;
    if landed {
        return;
    }
    if let Some(best) = &tally.best {
        return pilot.land(Filled::Got(keep(&sidecar, &ask, best)));
    }
    if tally.legs.iter().any(|leg| matches!(leg.outcome, Err(Failure::Oversized { .. }))) {
        return pilot.land(Filled::TooLarge);
    }
    let asked = sidecar.attempted(&tally);
    let best_error = tally.best_error.as_ref().map(|reply| Arc::new(Entry::passing(reply)));
    pilot.fail(Failed { best_error, asked, below_floor: false });
}

/// Validators of what is stored (RFC 9111, 4.3.1). The caller's own conditions were taken off when the ask was made.
fn dressed(ask: &Ask) -> Arc<Outgoing> {
    let Some(previous) = &ask.previous else { return ask.request.clone() };
    let mut request = Outgoing::clone(&ask.request);
    if let Some(tag) = previous.headers.get(header::ETAG) {
        request.headers.insert(header::IF_NONE_MATCH, tag.clone());
    }
    if let Some(date) = previous.headers.get(header::LAST_MODIFIED) {
        request.headers.insert(header::IF_MODIFIED_SINCE, date.clone());
    }
    Arc::new(request)
}

fn keep(sidecar: &Sidecar, ask: &Ask, winner: &Winner) -> Got {
    let reply = &winner.reply;
    let fwd_status = reply.status.as_u16();
    let (now, wall) = (sidecar.clock.now(), sidecar.clock.wall());
    if let (StatusCode::NOT_MODIFIED, Some(previous)) = (reply.status, &ask.previous) {
        let entry = Arc::new(policy::refreshed(previous, reply, now, wall));
        let stored = sidecar.store.keep_unrouted(&ask.request, entry.clone());
        return Got { entry, fwd_status, stored, shareable: stored, label: None };
    }
    let get = ask.request.method == Method::GET;
    let stored = if get { policy::storable(&ask.request, reply, now, wall) } else { None };
    match stored {
        Some(entry) => {
            let entry = Arc::new(entry);
            let stored = sidecar.store.keep_unrouted(&ask.request, entry.clone());
            Got { entry, fwd_status, stored, shareable: true, label: None }
        }
        None => {
            let entry = Arc::new(Entry::passing(reply));
            Got { entry, fwd_status, stored: false, shareable: false, label: None }
        }
    }
}
