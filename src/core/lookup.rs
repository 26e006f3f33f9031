//! Stage 3 of a request: the one decision. Hit, revalidate, fill, or stale.
//!
//! Before it: [`crate::http::admission`] admitted the request. After it: [`crate::core::answer`] writes the outcome. A hit reads
//! the store and compares numbers; whatever needs a region goes through [`crate::core::fill`], shared.
//!
//! Invariant: nothing is served as fresh that [`crate::protocol::standing::judge`] (routed) or
//! [`crate::cache::rfc9111`] (unrouted) does not call fresh now; what is served all the same says why.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::{Method, StatusCode};

use crate::cache::entry::{Entry, Hold};
use crate::cache::key::{KeyBuffer, KeyRef};
use crate::config::Unrouted;
use crate::core::answer::{Bound, CacheLine, Detail, Fwd, Outcome, Shown};
use crate::core::fill::{self, Ask, Failed, Filled, Got, Of, Routing, Share};
use crate::core::identity::Identity;
use crate::core::limits;
use crate::core::race::region::Purpose;
use crate::core::router::Matched;
use crate::http::admission::{Admitted, Head};
use crate::model::ids::Version;
use crate::model::time::Moment;
use crate::protocol::horizon::Horizon;
use crate::protocol::standing::{self, Use};
use crate::protocol::switch::{Rule, is_on};

pub mod asking;
mod forgotten;
mod pass;
mod telling;
mod unrouted;
mod write;

pub use crate::core::sidecar::{Current, Parts, Sidecar, SidecarError};
pub use asking::Asking;
use telling::{passed_on, shown};

/// Decides one request.
pub async fn serve(sidecar: &Arc<Sidecar>, admitted: Admitted) -> Outcome {
    let asking = Asking::of(&admitted.headers);
    decide(sidecar, admitted, asking).await
}

/// The same; `asking` is what its lines ask for. What passes a request on has its room on the heap: most do not need it.
pub async fn decide(sidecar: &Arc<Sidecar>, admitted: Admitted, asking: Asking) -> Outcome {
    let matched = sidecar.router.find(admitted.path());
    let is_cached = asking.is_cached && matches!(admitted.method, Method::GET | Method::HEAD);
    if !is_cached || !admitted.body.is_empty() {
        matched.iter().for_each(|matched| matched.counts.miss());
        return pass::pass(sidecar, &admitted, matched.as_ref()).boxed().await;
    }
    match matched {
        Some(matched) => routed(sidecar, &admitted, asking, &matched).await,
        None if unrouted::is_cached(sidecar, admitted.path()) => unrouted::serve(sidecar, &admitted, asking).await,
        None if asking.wish.only_if_cached => Outcome::NotStored,
        None => {
            sidecar.router.resembled(admitted.path()).for_each(|route| sidecar.observed.resembled(route));
            pass::pass(sidecar, &admitted, None).boxed().await
        }
    }
}

/// What is stored and may be served as it is, whether a route names the path or not. Waits for nothing and asks nobody;
/// `None` is for [`serve`] to decide, from the start. `asking` is what the head's lines ask for.
pub fn stored(sidecar: &Arc<Sidecar>, head: Head<'_>, asking: &mut Asking) -> Option<Shown> {
    if !asking.is_cached || !matches!(*head.method, Method::GET | Method::HEAD) {
        return None;
    }
    let now = sidecar.clock.now();
    let mut buffer = KeyBuffer::new(sidecar.seed);
    match sidecar.router.find(head.path()) {
        Some(matched) => {
            let key = asking.key(sidecar, &mut buffer, head, &matched);
            let entry = sidecar.store.get(key).filter(|entry| sidecar.suits(asking, entry, now))?;
            let shown = sidecar.hit(head, asking, key, &entry, now).ok()?;
            matched.counts.hit();
            Some(shown)
        }
        None if sidecar.config.cache.unrouted == Unrouted::Pass => None,
        None => {
            let entry = sidecar.store.select(&mut buffer, head.path_and_query, head.headers)?;
            unrouted::hit(sidecar, head, asking, &entry, now)
        }
    }
}

/// A routed path: announcements keep it fresh.
async fn routed(sidecar: &Arc<Sidecar>, admitted: &Admitted, mut asking: Asking, matched: &Matched<'_>) -> Outcome {
    let started = sidecar.clock.now();
    let route = matched.route;
    let wish = asking.wish;
    let mut buffer = KeyBuffer::new(sidecar.seed);
    let key = asking.key(sidecar, &mut buffer, admitted.head(), matched);
    let stored = sidecar.store.get(key);
    let now = started;
    // A limit on the age holds for what comes from an intermediary as well.
    let no_cache = wish.no_cache || wish.max_age.is_some();
    let suits = stored.as_ref().is_none_or(|entry| sidecar.suits(&asking, entry, now));
    let ask = |stored: Option<Arc<Entry>>| {
        let request = fill::ask::routed_request(admitted, route);
        Ask {
            key: key.to_key(),
            dropped: fill::ask::dropped(admitted, &request),
            request: Arc::new(request),
            of: Of::Route(sidecar.routing(matched, now)),
            previous: stored,
            purpose: Purpose::Foreground,
            no_cache,
            alone: wish.no_store,
        }
    };
    if let (Some(entry), true) = (&stored, suits) {
        match sidecar.hit(admitted.head(), &asking, key, entry, now) {
            Ok(shown) => {
                matched.counts.hit();
                return Outcome::Shown(shown);
            }
            Err(Some(Use::Below)) if sidecar.is_in_grace(entry, now) => {
                matched.counts.stale();
                sidecar.fills.begin(sidecar, ask(stored.clone()));
                sidecar.metrics.stale("grace");
                let horizon = sidecar.freshness.horizon();
                let head = admitted.head();
                return Outcome::Shown(sidecar.stored_hit(head, &asking, entry, &horizon, now, Some("grace")));
            }
            Err(_) => {}
        }
    }
    if wish.only_if_cached {
        return Outcome::NotStored;
    }
    let fwd = match &stored {
        _ if wish.no_cache => Fwd::Request,
        Some(_) if !suits => Fwd::Request,
        Some(_) => Fwd::Stale,
        None => Fwd::UriMiss,
    };
    let ask = ask(stored.clone());
    if let Of::Route(routing) = &ask.of {
        let identity = sidecar.keyring.identity(&route.identity, &admitted.headers);
        sidecar.note_churn(routing, identity, &route.path.text, now);
    }
    let (filled, share) = sidecar.filled(ask).await;
    let outcome = match filled {
        Filled::Got(got) => sidecar.shown(admitted, &got, share, fwd),
        Filled::TooLarge => pass::pass(sidecar, admitted, Some(matched)).boxed().await,
        Filled::Busy => Outcome::Busy,
        Filled::Failed(failed) => {
            // Another fill may have stored something in the meantime.
            let stored = sidecar.store.get(key).or(stored);
            sidecar.failed(admitted, stored, &failed, share, fwd)
        }
    };
    telling::count_asked(matched.counts, &outcome);
    sidecar.count_miss(&outcome, started);
    outcome
}

impl Sidecar {
    /// What a stored entry is good for, if it is a routed one; notes the reader.
    fn found(&self, entry: &Entry, horizon: &Horizon, now: Moment) -> Option<Use> {
        let routed = entry.hold.routed()?;
        routed.shows.iter().for_each(|shown| self.freshness.read(&shown.record, now));
        Some(standing::judge(routed, entry.sent, horizon, now, self.config.cache.soft_ttl))
    }

    /// Whether a stored routed entry is what the request's `no-cache`, `max-age` and `min-fresh` allow (RFC 9111, 5.2.1).
    #[inline]
    fn suits(&self, asking: &Asking, entry: &Entry, now: Moment) -> bool {
        let wish = &asking.wish;
        let left = || self.seconds_left(entry, &self.freshness.horizon(), now).unwrap_or_default();
        !wish.no_cache
            && wish.max_age.is_none_or(|most| entry.age(now) <= most)
            && wish.min_fresh.is_none_or(|least| left() >= least.as_secs() as i64)
    }

    /// A stored routed entry, if it may be served without asking; else what it is good for.
    fn hit(
        self: &Arc<Self>,
        head: Head<'_>,
        asking: &Asking,
        key: KeyRef<'_>,
        entry: &Arc<Entry>,
        now: Moment,
    ) -> Result<Shown, Option<Use>> {
        let horizon = self.freshness.horizon();
        let detail = match self.found(entry, &horizon, now) {
            Some(Use::Fresh) => None,
            Some(Use::Unproven) => Some("unproven"),
            Some(Use::Provisional) => {
                fill::background::recheck_found(self, key, entry, now);
                Some("provisional")
            }
            Some(Use::Doubted) => {
                fill::background::recheck_found(self, key, entry, now);
                self.metrics.stale(fill::FLOOR_ESCAPED);
                Some(fill::FLOOR_ESCAPED)
            }
            other => return Err(other),
        };
        Ok(self.stored_hit(head, asking, entry, &horizon, now, detail))
    }

    /// Fills. What an announcement overtook on its way to the reader is asked for anew, a few times; then it is served
    /// labelled, or not at all in strict mode (R1).
    async fn filled(self: &Arc<Self>, ask: Ask) -> (Filled, Share) {
        let mut tries = 0;
        loop {
            let (filled, share) = self.filled_once(ask.clone()).await;
            let Filled::Got(got) = &filled else { return (filled, share) };
            if got.label.is_some() || !is_below(&got.entry) {
                return (filled, share);
            }
            if tries == limits::REFILLS {
                let below_floor = Failed { best_error: None, asked: Vec::new(), below_floor: true };
                return match self.config.freshness.strict {
                    true => (Filled::Failed(Arc::new(below_floor)), share),
                    false => (Filled::Got(Got { label: Some(fill::BELOW_FLOOR), ..got.clone() }), share),
                };
            }
            tries += 1;
        }
    }

    /// Fills, and again alone when the shared reply turns out to be nobody else's.
    async fn filled_once(self: &Arc<Self>, ask: Ask) -> (Filled, Share) {
        if ask.alone {
            return self.fills.fill_alone(self, ask).await;
        }
        let again = ask.clone();
        let (filled, share) = self.fills.fill(self, ask).await;
        if share == Share::Joined {
            self.metrics.fill_shared();
            if matches!(&filled, Filled::Got(got) if !got.shareable) {
                return self.fills.fill_alone(self, again).await;
            }
        }
        (filled, share)
    }

    /// The live cells of the records that a path shows, each noted as read.
    fn routing(&self, matched: &Matched<'_>, now: Moment) -> Routing {
        let records = matched.records().filter_map(|(record_type, key)| {
            let id = self.keyring.record(record_type, &key)?;
            let record = self.freshness.pin(id);
            self.freshness.read(&record, now);
            Some((id, record))
        });
        Routing::new(&self.freshness, matched.id, records.collect())
    }

    /// What to ask again for a stored entry; `None` when no route shows it any more.
    pub fn routing_of(&self, entry: &Entry) -> Option<Routing> {
        let routed = entry.hold.routed()?;
        // Stored under a route that a reload took away.
        self.router.place(routed.route)?;
        let records = routed.shows.iter().map(|shown| (shown.id(), shown.record.clone())).collect();
        Some(Routing::new(&self.freshness, routed.route, records))
    }

    /// For `freshness.grace` after an announcement the previous value may be served while its refetch runs: if it was
    /// within its time, and every record of it that moved did so just now. Never in strict mode: it is known to be old.
    fn is_in_grace(&self, entry: &Entry, now: Moment) -> bool {
        let config = &self.config.freshness;
        let grace = config.grace;
        let may_be = !grace.is_zero() && !config.strict;
        let Some(routed) = entry.hold.routed().filter(|_| may_be) else { return false };
        let moved_just_now = |shown: &crate::protocol::holding::Shown| {
            let state = shown.record.snapshot();
            let recent = state.marker.is_some_and(|marker| now.since(marker.at) <= grace);
            recent || state.upholds(shown.version, shown.generation)
        };
        now.since(entry.sent) < routed.ttl.get() && routed.shows.iter().all(moved_just_now)
    }

    fn note_churn(&self, routing: &Routing, identity: Identity, path: &str, now: Moment) {
        for (id, _) in routing.records() {
            if self.churn.note(*id, identity, now) {
                self.warn_of_churn(path);
            }
        }
    }

    /// How old a routed entry's answer can at most be.
    fn bound(&self, entry: &Entry, age: Duration, horizon: &Horizon, now: Moment) -> Option<Bound> {
        let Hold::Routed(routed) = &entry.hold else { return None };
        let seconds = standing::bound(routed, age, horizon, now, self.config.freshness.worst_lag);
        Some(seconds.map_or(Bound::None, Bound::Seconds))
    }

    /// For how long a routed entry still holds, as things are.
    fn seconds_left(&self, entry: &Entry, horizon: &Horizon, now: Moment) -> Option<i64> {
        let routed = entry.hold.routed()?;
        Some(standing::seconds_left(routed, entry.sent, horizon, now, self.config.cache.soft_ttl))
    }

    /// A stored routed entry, served without asking.
    fn stored_hit(
        &self,
        head: Head<'_>,
        asking: &Asking,
        entry: &Arc<Entry>,
        horizon: &Horizon,
        now: Moment,
        detail: Option<&'static str>,
    ) -> Shown {
        let age = entry.age(now);
        let line = CacheLine {
            hit: true,
            ttl: self.seconds_left(entry, horizon, now),
            bound: self.bound(entry, age, horizon, now),
            detail: detail.map(Detail::Word),
            ..CacheLine::default()
        };
        let shown = asking.shown(head, entry, Some(age.as_secs()), line);
        self.metrics.hit(self.clock.now() - now);
        shown
    }

    /// What a fill brought.
    fn shown(&self, admitted: &Admitted, got: &Got, share: Share, fwd: Fwd) -> Outcome {
        let now = self.clock.now();
        let line = CacheLine {
            fwd: Some(fwd),
            fwd_status: Some(got.fwd_status),
            bound: self.bound(&got.entry, got.entry.age(now), &self.freshness.horizon(), now),
            stored: got.stored,
            collapsed: share == Share::Joined,
            detail: Some(got.label.map_or(Detail::Region(got.entry.region), Detail::Word)),
            ..CacheLine::default()
        };
        if let Some(label) = got.label {
            self.metrics.stale(label);
        }
        let age = match got.entry.age(now).as_secs() {
            0 => None,
            age => Some(age),
        };
        let shown = shown(admitted.head(), &got.entry, age, line);
        Outcome::Shown(Shown { cookies: share.cookies(&got.cookies), ..shown })
    }

    /// Every region failed: the stored reply, labelled, while it may be; else the best real error; else our own words.
    fn failed(
        &self,
        admitted: &Admitted,
        stored: Option<Arc<Entry>>,
        failed: &Failed,
        share: Share,
        fwd: Fwd,
    ) -> Outcome {
        let now = self.clock.now();
        // As it is now: an announcement may have come while regions were asked.
        let horizon = self.freshness.horizon();
        let below = stored.as_ref().and_then(|entry| self.found(entry, &horizon, now)) == Some(Use::Below);
        let strict = self.config.freshness.strict && below;
        if let Some(entry) = stored
            && let Hold::Routed(routed) = &entry.hold
            && !strict
            && now.since(entry.sent) <= routed.ttl.get() + self.config.cache.stale_if_error
        {
            self.metrics.stale("stale-if-error");
            let line = CacheLine {
                hit: true,
                ttl: self.seconds_left(&entry, &horizon, now),
                bound: self.bound(&entry, entry.age(now), &horizon, now),
                detail: Some(Detail::Word("stale-if-error")),
                ..CacheLine::default()
            };
            return Outcome::Shown(shown(admitted.head(), &entry, Some(entry.age(now).as_secs()), line));
        }
        if failed.below_floor || strict {
            return Outcome::BelowFloor(failed.asked.clone());
        }
        passed_on(admitted, failed, share, fwd)
    }
}

/// R1, R6: whether something above what a routed reply shows was announced or served since it was judged. Without a
/// version only an absence can be: its readers came before whatever moved the generation (R3).
fn is_below(entry: &Entry) -> bool {
    let absent = matches!(entry.status, StatusCode::NOT_FOUND | StatusCode::GONE);
    entry.shows().iter().any(|shown| {
        let state = shown.record.snapshot();
        let stated = shown.version.is_credible();
        let passed = is_on(Rule::R1) && stated && shown.version < state.floor;
        passed || is_on(Rule::R6) && !stated && absent && state.changed && state.floor > Version::NONE
    })
}
