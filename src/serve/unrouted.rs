//! Unrouted paths: a shared HTTP cache by RFC 9111, nothing more.
//!
//! Before it: [`super`] found no route. After it: [`crate::cache::policy`] decides, a fill asks where it must.
//! Invariant: announcements play no part here; what is stored is only ever as fresh as its own headers say.

use std::sync::Arc;

use super::{Sidecar, pass, shown};
use crate::cache::entry::Entry;
use crate::cache::fill::{self, Ask, Failed, Filled, Of};
use crate::cache::key::KeyBuffer;
use crate::cache::policy::{self, Decision};
use crate::origin::region::Purpose;
use crate::request::Admitted;
use crate::response::{CacheLine, Detail, Fwd, Outcome};

/// Serves GET and HEAD on a path that no route names.
pub(super) async fn serve(sidecar: &Arc<Sidecar>, admitted: &Admitted) -> Outcome {
    let started = sidecar.clock.now();
    let stored = sidecar.store.find_unrouted(&admitted.path_and_query, &admitted.headers);
    let (now, wall) = (started, sidecar.clock.wall());
    let decision = policy::decide(&admitted.headers, stored.as_deref(), now, wall);
    let fwd = match (&stored, &decision) {
        (_, Decision::Fresh { .. }) | (None, _) => Fwd::UriMiss,
        (Some(_), Decision::Revalidate { on_request: true }) => Fwd::Request,
        (Some(_), _) => Fwd::Stale,
    };
    match (decision, &stored) {
        (Decision::NotStored, _) => return Outcome::NotStored,
        (Decision::Fresh { age, left, stale }, Some(entry)) => {
            sidecar.metrics.hit(sidecar.clock.now() - started);
            let detail = stale.then_some(Detail::Word("max-stale"));
            let line = CacheLine { hit: true, ttl: Some(left), detail, ..CacheLine::default() };
            return Outcome::Shown(shown(admitted, entry, Some(age), line));
        }
        _ => {}
    }
    let request = fill::ask::unrouted_request(admitted);
    // Who sends the same headers asks for the same thing; more is not known before the reply names its Vary.
    let fingerprint = sidecar.keyring.fingerprint(&request.headers, request.headers.keys());
    let ask = Ask {
        key: KeyBuffer::new(sidecar.seed).asked(&admitted.method, &admitted.path_and_query, fingerprint).to_key(),
        request: Arc::new(request),
        of: Of::Path,
        previous: stored.clone(),
        purpose: Purpose::Foreground,
        no_cache: false,
    };
    let (filled, share) = sidecar.filled(ask).await;
    let outcome = match filled {
        Filled::Got(got) if got.entry.status.is_server_error() => {
            stale_if_error(sidecar, admitted, stored).unwrap_or_else(|| sidecar.shown(admitted, &got, share, fwd))
        }
        Filled::Got(got) => sidecar.shown(admitted, &got, share, fwd),
        Filled::TooLarge => pass::pass(sidecar, admitted, None).await,
        Filled::Busy => Outcome::Busy,
        Filled::Failed(failed) => {
            stale_if_error(sidecar, admitted, stored).unwrap_or_else(|| passed_on(admitted, &failed, fwd))
        }
    };
    sidecar.count_miss(&outcome, started);
    outcome
}

/// RFC 5861, 4: the stored reply, labelled, if it or the request allows that now.
fn stale_if_error(sidecar: &Sidecar, admitted: &Admitted, stored: Option<Arc<Entry>>) -> Option<Outcome> {
    let entry = stored?;
    let now = sidecar.clock.now();
    let left = policy::stale_if_error(&admitted.headers, &entry, now, sidecar.config.cache.stale_if_error)?;
    sidecar.metrics.stale("stale-if-error");
    let detail = Some(Detail::Word("stale-if-error"));
    let line = CacheLine { hit: true, ttl: Some(left), detail, ..CacheLine::default() };
    Some(Outcome::Shown(shown(admitted, &entry, Some(entry.age(now).as_secs()), line)))
}

fn passed_on(admitted: &Admitted, failed: &Failed, fwd: Fwd) -> Outcome {
    match &failed.best_error {
        Some(error) => {
            let line = CacheLine {
                fwd: Some(fwd),
                fwd_status: Some(error.status.as_u16()),
                detail: Some(Detail::Region(error.region)),
                ..CacheLine::default()
            };
            Outcome::Shown(shown(admitted, error, None, line))
        }
        None => Outcome::NoneAnswered(failed.asked.clone()),
    }
}
