//! Unrouted paths: a shared HTTP cache by RFC 9111, nothing more.
//!
//! Before it: [`super`] found no route. After it: [`crate::cache::rfc9111`] decides, a fill asks where it must.
//! Invariant: announcements play no part here; what is stored is only ever as fresh as its own headers say.

use std::sync::Arc;

use futures_util::FutureExt;

use super::{Asking, Sidecar, pass, passed_on, shown};
use crate::cache::entry::Entry;
use crate::cache::key::KeyBuffer;
use crate::cache::rfc9111::{self, Asked, Decision, Trouble};
use crate::config::Unrouted;
use crate::core::answer::{CacheLine, Detail, Fwd, Outcome, Shown};
use crate::core::fill::{self, Ask, Filled, Of};
use crate::core::race::region::Purpose;
use crate::http::admission::{Admitted, Head};
use crate::model::time::Moment;

/// Whether what comes of `path`, which no route names, may be stored. Where a region may take it for a route's, by a slash
/// more perhaps, its reply is some caller's own.
pub(crate) fn is_cached(sidecar: &Sidecar, path: &str) -> bool {
    sidecar.config.cache.unrouted == Unrouted::Cache && !sidecar.router.is_near(path)
}

/// Serves GET and HEAD on a path that no route names.
pub(crate) async fn serve(sidecar: &Arc<Sidecar>, admitted: &Admitted, asking: Asking) -> Outcome {
    let started = sidecar.clock.now();
    let asked = asking.wish;
    let mut buffer = KeyBuffer::new(sidecar.seed);
    let stored = sidecar.store.select(&mut buffer, &admitted.path_and_query, &admitted.headers);
    if let Some(shown) = stored.as_ref().and_then(|entry| hit(sidecar, admitted.head(), &asking, entry, started)) {
        return Outcome::Shown(shown);
    }
    if asked.only_if_cached {
        return Outcome::NotStored;
    }
    let fwd = match (&stored, asked.no_cache) {
        (None, _) => Fwd::UriMiss,
        (Some(_), true) => Fwd::Request,
        (Some(_), false) => Fwd::Stale,
    };
    let invalidated = sidecar.store.invalidated(&mut buffer, &admitted.path_and_query);
    let request = fill::ask::unrouted_request(admitted);
    // What the reply varies by is not known before it comes: only who sends the same headers asks for the same thing.
    let key = buffer.request(&request.method, &request.path_and_query, &request.headers, &fill::ask::ALONG).to_key();
    let ask = Ask {
        key,
        request: Arc::new(request),
        of: Of::Path(invalidated),
        previous: stored.clone(),
        purpose: Purpose::Foreground,
        no_cache: asked.no_cache,
        alone: asked.no_store,
        dropped: Arc::default(),
    };
    let (filled, share) = sidecar.filled(ask).await;
    let outcome = match filled {
        Filled::Got(got) => sidecar.shown(admitted, &got, share, fwd),
        Filled::TooLarge => pass::pass(sidecar, admitted, None).boxed().await,
        Filled::Busy => Outcome::Busy,
        Filled::Failed(failed) => {
            let trouble =
                failed.best_error.as_ref().map_or(Trouble::Disconnected, |error| Trouble::Status(error.entry.status));
            stale_if_error(sidecar, admitted, &asked, stored, trouble)
                .unwrap_or_else(|| passed_on(admitted, &failed, share, fwd))
        }
    };
    sidecar.count_miss(&outcome, started);
    outcome
}

/// A stored reply, if RFC 9111 lets it be served without asking.
pub(crate) fn hit(
    sidecar: &Sidecar,
    head: Head<'_>,
    asking: &Asking,
    entry: &Arc<Entry>,
    now: Moment,
) -> Option<Shown> {
    let (age, ttl, detail) = match rfc9111::decide(&asking.wish, entry, entry.hold.unrouted()?, now) {
        Decision::Fresh { age, ttl } => (age, ttl.as_secs() as i64, None),
        Decision::Stale { age } => (age, left(entry, now), Some(Detail::Word("max-stale"))),
        _ => return None,
    };
    let line = CacheLine { hit: true, ttl: Some(ttl), detail, ..CacheLine::default() };
    let shown = asking.shown(head, entry, Some(age.as_secs()), line);
    sidecar.metrics.hit(sidecar.clock.now() - now);
    Some(shown)
}

/// Whole seconds of freshness left; negative when it is over.
fn left(entry: &Entry, now: Moment) -> i64 {
    let lifetime = entry.hold.unrouted().map_or(0, |stored| stored.lifetime.as_secs());
    lifetime as i64 - entry.age(now).as_secs() as i64
}

/// RFC 9111, 4.2.4 and RFC 5861, 4: the stored reply, labelled, if it or the request allows that now.
fn stale_if_error(
    sidecar: &Sidecar,
    admitted: &Admitted,
    asked: &Asked,
    stored: Option<Arc<Entry>>,
    trouble: Trouble,
) -> Option<Outcome> {
    let entry = stored?;
    let now = sidecar.clock.now();
    let unless_said = sidecar.config.cache.stale_if_error;
    rfc9111::may_serve_on_error(asked, &entry, entry.hold.unrouted()?, trouble, unless_said, now).then_some(())?;
    sidecar.metrics.stale("stale-if-error");
    let detail = Some(Detail::Word("stale-if-error"));
    let line = CacheLine { hit: true, ttl: Some(left(&entry, now)), detail, ..CacheLine::default() };
    Some(Outcome::Shown(shown(admitted.head(), &entry, Some(entry.age(now).as_secs()), line)))
}
