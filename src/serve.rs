//! Stage 3 of a request: the one decision. Hit, revalidate, fill, or stale.
//!
//! Before it: [`crate::request`] admitted the request. After it: [`crate::response`] writes the outcome. A hit reads
//! the store and compares numbers; whatever needs a region goes through [`crate::cache::fill`], shared.
//!
//! Invariant: nothing is served as fresh that [`crate::freshness::standing::judge`] (routed) or
//! [`crate::cache::policy`] (unrouted) does not call fresh now; what is served all the same says why.

use std::sync::Arc;

use http::Method;

use crate::cache::entry::{Entry, Hold, Routed};
use crate::cache::fill::{self, Ask, Failed, Filled, Fills, Got, Of, Routing, Share};
use crate::cache::key::{KeyBuffer, Representation, Seed};
use crate::cache::policy::{self, Asked, Way};
use crate::cache::store::Store;
use crate::clock::{Clock, Moment};
use crate::config::Config;
use crate::config::router::{Matched, Router};
use crate::freshness::Freshness;
use crate::freshness::record::Record;
use crate::freshness::standing::{self, Use};
use crate::freshness::words::RecordId;
use crate::identity::{Churn, Held, Keyring};
use crate::origin::race::Tally;
use crate::origin::region::Purpose;
use crate::origin::region::Regions;
use crate::request::Admitted;
use crate::response::{Attempted, Blame, Bound, CacheLine, Detail, Fwd, Outcome, Shown};
use crate::tasks::Tasks;
use crate::telemetry::metrics::Metrics;

mod pass;
mod unrouted;

/// What every request shares.
pub struct Sidecar {
    /// The settings.
    pub config: Config,
    /// Which path is which route's.
    pub router: Router,
    /// The process's hash keys.
    pub keyring: Arc<Keyring>,
    /// The hash key of representations.
    pub seed: Seed,
    /// Per route, the sidecar's own credentials.
    pub credentials: Vec<Option<Held>>,
    /// What is kept.
    pub store: Store,
    /// Who asks for what.
    pub fills: Fills,
    /// The protocol.
    pub freshness: Arc<Freshness>,
    /// Who is asked.
    pub regions: Arc<Regions>,
    /// Callers that mint a token per request.
    pub churn: Churn,
    /// What time it is.
    pub clock: Clock,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Where fills run.
    pub tasks: Tasks,
    /// The regions' names.
    pub names: Vec<String>,
    /// Carries out what freshness asks of subscriptions; set by `app`.
    pub subscriptions: std::sync::OnceLock<crate::announce::subscription::Subscriptions>,
}

/// Decides one request.
pub async fn serve(sidecar: &Arc<Sidecar>, admitted: Admitted) -> Outcome {
    let matched = sidecar.router.find(admitted.path());
    let way = policy::way(&admitted.method, &admitted.headers);
    if way != Way::Cached || !admitted.body.is_empty() {
        return pass::pass(sidecar, &admitted, matched.as_ref()).await;
    }
    match matched {
        Some(matched) => routed(sidecar, &admitted, &matched).await,
        None => unrouted::serve(sidecar, &admitted).await,
    }
}

/// A routed path: announcements keep it fresh.
async fn routed(sidecar: &Arc<Sidecar>, admitted: &Admitted, matched: &Matched<'_>) -> Outcome {
    let started = sidecar.clock.now();
    let route = matched.route;
    let wish = Asked::of(&admitted.headers);
    let identity = sidecar.keyring.identity(&route.identity, &admitted.headers);
    let mut buffer = KeyBuffer::new(sidecar.seed);
    let key = buffer.routed(Representation {
        route: matched.index,
        path_and_query: &admitted.path_and_query,
        headers: &admitted.headers,
        forward: &route.forward,
        identity: identity.0,
    });
    let stored = sidecar.store.get(key);
    let now = started;
    let mut usable = None;
    if let Some(entry) = &stored
        && let Hold::Routed(routed) = &entry.hold
    {
        let horizon = sidecar.freshness.horizon();
        let found = standing::judge(routed, entry.sent, &horizon, now, sidecar.config.cache.soft_ttl);
        routed.shows.iter().for_each(|shown| sidecar.freshness.read(&shown.record, now));
        let provisional = match found {
            Use::Fresh if !wish.no_cache => Some(None),
            Use::Provisional if !wish.no_cache => Some(Some("provisional")),
            Use::Below if !wish.no_cache && sidecar.in_grace(routed, now) => Some(Some("grace")),
            _ => None,
        };
        if let Some(detail) = provisional {
            sidecar.metrics.hit(sidecar.clock.now() - started);
            return Outcome::Shown(sidecar.hit(admitted, entry, now, detail));
        }
        usable = Some(found);
    }
    if wish.only_if_cached {
        return Outcome::NotStored;
    }
    let records = sidecar.records_of(matched, now);
    for (id, _) in &records {
        if sidecar.churn.note(*id, identity, now) {
            sidecar.warn_of_churn(&route.path.text);
        }
    }
    let ask = Ask {
        key: key.to_key(),
        request: Arc::new(fill::ask::routed_request(admitted, route)),
        of: Of::Route(Routing { route: matched.index, records }),
        previous: stored.clone(),
        purpose: Purpose::Foreground,
        no_cache: wish.no_cache,
        alone: wish.no_store,
    };
    let fwd = match (&stored, wish.no_cache) {
        (_, true) => Fwd::Request,
        (Some(_), _) => Fwd::Stale,
        (None, _) => Fwd::UriMiss,
    };
    let (filled, share) = sidecar.filled(ask).await;
    let outcome = match filled {
        Filled::Got(got) => sidecar.shown(admitted, &got, share, fwd),
        Filled::TooLarge => pass::pass(sidecar, admitted, Some(matched)).await,
        Filled::Busy => Outcome::Busy,
        Filled::Failed(failed) => sidecar.failed(admitted, stored, usable, &failed, fwd),
    };
    sidecar.count_miss(&outcome, started);
    outcome
}

impl Sidecar {
    /// Fills, and again alone when the shared reply turns out to be nobody else's.
    async fn filled(self: &Arc<Self>, ask: Ask) -> (Filled, Share) {
        if ask.alone {
            return (self.fills.fill_alone(self, ask).await, Share::Began);
        }
        let again = ask.clone();
        let (filled, share) = self.fills.fill(self, ask).await;
        if share == Share::Joined {
            self.metrics.fill_shared();
            if matches!(&filled, Filled::Got(got) if !got.shareable) {
                return (self.fills.fill_alone(self, again).await, Share::Began);
            }
        }
        (filled, share)
    }

    /// The live cells of the records that a path shows, each noted as read.
    fn records_of(&self, matched: &Matched<'_>, now: Moment) -> Vec<(RecordId, Arc<Record>)> {
        let records = matched.records().filter_map(|(record_type, key)| {
            let id = self.keyring.record(record_type, &key)?;
            let record = self.freshness.pin(id);
            self.freshness.read(&record, now);
            Some((id, record))
        });
        records.collect()
    }

    /// What to ask again for a stored entry.
    pub fn routing_of(&self, entry: &Entry) -> Option<Routing> {
        let Hold::Routed(routed) = &entry.hold else { return None };
        let records = routed.shows.iter().map(|shown| (shown.id, shown.record.clone())).collect();
        Some(Routing { route: usize::from(routed.route), records })
    }

    /// For `freshness.grace` after an announcement the previous value may be served while its refetch runs.
    fn in_grace(&self, routed: &Routed, now: Moment) -> bool {
        let grace = self.config.freshness.grace;
        let recent = |at: Moment| now.since(at) <= grace;
        !grace.is_zero()
            && routed.shows.iter().all(|shown| shown.record.snapshot().marker.is_some_and(|marker| recent(marker.at)))
    }

    /// How old a routed entry's answer can at most be.
    fn bound(&self, entry: &Entry, now: Moment) -> Option<Bound> {
        let Hold::Routed(routed) = &entry.hold else { return None };
        let seconds = standing::bound(routed, &self.freshness.horizon(), now);
        Some(seconds.map_or(Bound::None, Bound::Seconds))
    }

    /// A stored routed entry, served without asking.
    fn hit(&self, admitted: &Admitted, entry: &Arc<Entry>, now: Moment, detail: Option<&'static str>) -> Shown {
        let ttl = match &entry.hold {
            Hold::Routed(routed) => seconds_left(routed.ttl, now.since(entry.sent)),
            _ => 0,
        };
        let line = CacheLine {
            hit: true,
            ttl: Some(ttl),
            bound: self.bound(entry, now),
            detail: detail.map(Detail::Word),
            ..CacheLine::default()
        };
        shown(admitted, entry, Some(entry.age(now).as_secs()), line)
    }

    /// What a fill brought.
    fn shown(&self, admitted: &Admitted, got: &Got, share: Share, fwd: Fwd) -> Outcome {
        let line = CacheLine {
            fwd: Some(fwd),
            fwd_status: Some(got.fwd_status),
            stored: got.stored,
            collapsed: share == Share::Joined,
            detail: Some(got.label.map_or(Detail::Region(got.entry.region), Detail::Word)),
            ..CacheLine::default()
        };
        if let Some(label) = got.label {
            self.metrics.stale(label);
        }
        let age = match got.entry.age(self.clock.now()).as_secs() {
            0 => None,
            age => Some(age),
        };
        Outcome::Shown(shown(admitted, &got.entry, age, line))
    }

    /// Every region failed: the stored reply, labelled, while it may be; else the best real error; else our own words.
    fn failed(
        &self,
        admitted: &Admitted,
        stored: Option<Arc<Entry>>,
        usable: Option<Use>,
        failed: &Failed,
        fwd: Fwd,
    ) -> Outcome {
        let now = self.clock.now();
        let strict = self.config.freshness.strict && usable == Some(Use::Below);
        if let Some(entry) = stored
            && let Hold::Routed(routed) = &entry.hold
            && !strict
            && now.since(entry.sent) <= routed.ttl + self.config.cache.stale_if_error
        {
            self.metrics.stale("stale-if-error");
            let line = CacheLine {
                hit: true,
                ttl: Some(seconds_left(routed.ttl, now.since(entry.sent))),
                bound: self.bound(&entry, now),
                detail: Some(Detail::Word("stale-if-error")),
                ..CacheLine::default()
            };
            return Outcome::Shown(shown(admitted, &entry, Some(entry.age(now).as_secs()), line));
        }
        if failed.below_floor || strict {
            return Outcome::BelowFloor(failed.asked.clone());
        }
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

    /// What became of each region in a race that gave nothing.
    pub fn attempted(&self, tally: &Tally) -> Vec<Attempted> {
        tally
            .legs
            .iter()
            .map(|leg| Attempted {
                region: self.names[leg.region.index()].clone(),
                outcome: match &leg.outcome {
                    Ok(reply) => format!("{} {}", leg.word(), reply.status.as_u16()),
                    Err(failure) => failure.word().to_owned(),
                },
                blame: leg.outcome.as_ref().err().map_or(Blame::Unusable, Blame::of),
            })
            .collect()
    }

    fn count_miss(&self, outcome: &Outcome, started: Moment) {
        let took = self.clock.now() - started;
        let (verdict, region) = match outcome {
            Outcome::Shown(shown) if shown.line.hit => ("stale", None),
            Outcome::Shown(shown) if shown.entry.status.is_success() => ("good", Some(shown.entry.region)),
            Outcome::Shown(shown) if shown.entry.status.is_server_error() => ("worthless", Some(shown.entry.region)),
            Outcome::Shown(shown) if shown.entry.status.as_u16() == 404 => ("absent", Some(shown.entry.region)),
            Outcome::Shown(shown) => ("refused", Some(shown.entry.region)),
            Outcome::Streamed { .. } => ("streamed", None),
            Outcome::BelowFloor(_) => ("too-old", None),
            _ => ("none", None),
        };
        self.metrics.miss(verdict, region, took);
    }

    fn warn_of_churn(&self, path: &str) {
        tracing::warn!(
            route = %path,
            "many identities ask for one record: callers seem to send a new token with every request, so they never \
             hit; set identity = \"sidecar\" on this route, or name in identity_headers what stays the same"
        );
        self.metrics.churn();
    }
}

/// A representation for this caller: its validators answered, its HEAD honoured.
fn shown(admitted: &Admitted, entry: &Arc<Entry>, age: Option<u64>, line: CacheLine) -> Shown {
    let not_modified = policy::not_modified(&admitted.headers, entry);
    Shown { entry: entry.clone(), age, not_modified, head: admitted.method == Method::HEAD, line }
}

/// Whole seconds of `ttl` left after `age`, rounded down; negative when it is over.
fn seconds_left(ttl: std::time::Duration, age: std::time::Duration) -> i64 {
    ttl.as_secs() as i64 - age.as_secs_f64().ceil() as i64
}
