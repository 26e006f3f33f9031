//! Owns the designs that people would build instead, to be held beside ours: same regions, same
//! topics, same faults.
//!
//! Both race all regions, share a fill among the readers of a path, and keep what they get for the
//! route's TTL.
//!
//! *Naive*: an announcement deletes, the first reply wins. *Middle*: what a careful engineer adds
//! who thinks of races and of order, but not of silence: a floor per record, below which nothing is
//! stored and nothing served while any region has better; a generation, so that no fill from before
//! an announcement is stored or joined after it; a short TTL for absence, and a 404 without a
//! version only when no region shows the record; a label on what is below the floor all the same.
//! It has no lease, no epochs and no rechecks: it believes that announcements arrive.
//!
//! Before it: [`super::subject`]. After it: answers whose staleness is counted, not judged.
//! Invariant: neither knows more than its readers, its topics and its regions have given it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, Shared};
use futures_util::stream::{FuturesUnordered, StreamExt};
use http::{HeaderMap, Method, StatusCode};
use nearside::http::exchange::{Origin, Outgoing, Reply};
use nearside::model::ids::{RecordId, RegionId, TypeId, Version};
use nearside::protocol::event::{Event, OperatorOrder, Says, Scope};

use super::plan::REGIONS;
use super::subject::{Got, read_shows};
use super::world::{Regions, SHOWS, World};

/// A design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Design {
    /// Ours.
    Nearside,
    /// TTL, delete on message, first reply wins.
    Naive,
    /// Floors without a lease.
    Middle,
}

impl Design {
    /// Name in tables.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Nearside => "Nearside",
            Self::Naive => "naive",
            Self::Middle => "middle",
        }
    }
}

/// TTL of an absence in a middle design.
const NEGATIVE_TTL: Duration = Duration::from_secs(30);

/// A sidecar that is only a map.
pub(crate) struct Simple {
    /// Which.
    pub(crate) design: Design,
    origin: Arc<Regions>,
    ttl: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept: HashMap<String, Kept>,
    records: HashMap<u64, Known>,
    /// Fills by path, and by the generations of its records where the design has them.
    fills: HashMap<(String, Vec<u64>), Shared<BoxFuture<'static, Got>>>,
}

/// State of a record.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The highest version announced or served.
    floor: u64,
    /// Number of announcements.
    generation: u64,
}

#[derive(Clone)]
struct Kept {
    asked: Duration,
    ttl: Duration,
    status: u16,
    /// Records and positions, as the region wrote them.
    text: String,
    keys: Vec<u64>,
    /// As many as keys, or none.
    versions: Vec<Version>,
}

impl Simple {
    /// An empty one.
    pub(crate) fn new(design: Design, origin: Arc<Regions>, ttl: Duration) -> Self {
        Self { design, origin, ttl, state: Mutex::default() }
    }

    /// The id of a record: its number.
    pub(crate) fn record(key: usize) -> RecordId {
        RecordId { record_type: TypeId(0), hash: key as u64 }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it was held")
    }

    /// An announcement deletes; in the middle design it leaves what is known to be as new.
    pub(crate) fn step(&self, event: &Event) {
        let says = match event {
            Event::Ordered(OperatorOrder::Reset(scope)) => &Says::Reset(*scope),
            Event::Message { says, .. } => says,
            _ => return,
        };
        if let Says::Reload(scope) | Says::Reset(scope) = says {
            return self.ordered(*scope, matches!(says, Says::Reset(_)));
        }
        let (id, version) = match says {
            Says::Changed(id, version) | Says::Deleted(id, version) => (*id, version.unwrap_or_default()),
            _ => return,
        };
        let careful = self.design == Design::Middle && version != Version::NONE;
        let State { kept, records, .. } = &mut *self.state();
        let known = records.entry(id.hash).or_default();
        if careful && version.0 < known.floor {
            return;
        }
        known.floor = known.floor.max(version.0);
        known.generation += 1;
        kept.retain(|_, kept| {
            let is_as_new = careful && kept.is_versioned() && kept.is_at_floor(records);
            !kept.keys.contains(&id.hash) || is_as_new
        });
    }

    /// Drops kept entries; a RESET takes the floors along.
    fn ordered(&self, scope: Scope, forgets: bool) {
        let State { kept, records, .. } = &mut *self.state();
        for (_, known) in records.iter_mut().filter(|(key, _)| covers(scope, **key)) {
            known.generation += 1;
            known.floor = if forgets { 0 } else { known.floor };
        }
        kept.retain(|_, kept| !kept.keys.iter().any(|key| covers(scope, *key)));
    }

    /// A hit, or a fill, shared.
    pub(crate) async fn ask(self: Arc<Self>, world: Arc<World>, path: String) -> Got {
        let asked = world.elapsed();
        if let Some(hit) = self.hit(&path, asked) {
            return hit;
        }
        let keys: Vec<u64> = world.records(&path).into_iter().map(|key| key as u64).collect();
        let generations = if self.design == Design::Middle { self.generations(&keys) } else { Vec::new() };
        let place = (path, generations);
        let fill = (self.state().fills.entry(place.clone()))
            .or_insert_with(|| self.clone().fill(asked, place, keys).boxed().shared())
            .clone();
        fill.await
    }

    fn hit(&self, path: &str, now: Duration) -> Option<Got> {
        let state = self.state();
        let kept = state.kept.get(path).filter(|kept| now.saturating_sub(kept.asked) < kept.ttl)?;
        let good = self.design == Design::Naive || kept.is_at_floor(&state.records);
        good.then(|| (kept.status, "nearside; hit".to_owned(), read_shows(&kept.text)))
    }

    async fn fill(self: Arc<Self>, asked: Duration, place: (String, Vec<u64>), keys: Vec<u64>) -> Got {
        let best = self.race(&place.0, &keys, asked).await;
        self.state().fills.remove(&place);
        let Some(best) = best else { return (502, "nearside; fwd=miss".to_owned(), None) };
        let (status, shown) = (best.status, read_shows(&best.text));
        let (path, generations) = place;
        let label = if self.keep(path, generations, best) { "" } else { "; detail=below-floor" };
        (status, format!("nearside; fwd=miss{label}"), shown)
    }

    /// The first reply that will do, or the best of all.
    async fn race(&self, path: &str, keys: &[u64], asked: Duration) -> Option<Kept> {
        let headers = HeaderMap::new();
        let request =
            Outgoing { method: Method::GET, path_and_query: path.to_owned(), headers, body: Default::default() };
        let (request, within) = (Arc::new(request), Duration::from_secs(2));
        let mut attempts: FuturesUnordered<_> =
            (0..REGIONS).map(|region| self.origin.ask(RegionId(region as u8), request.clone(), within)).collect();
        let mut best: Option<Kept> = None;
        while let Some(attempt) = attempts.next().await {
            let Ok(reply) = attempt else { continue };
            if !matches!(reply.status, StatusCode::OK | StatusCode::NOT_FOUND) {
                continue;
            }
            let next = self.kept(&reply, keys, asked);
            let records = self.state().records.clone();
            let enough = next.is_at_floor(&records) && (next.status == 200 || next.is_versioned());
            if self.design == Design::Naive || enough {
                return Some(next);
            }
            if best.as_ref().is_none_or(|best| next.worth(&records) > best.worth(&records)) {
                best = Some(next);
            }
        }
        best
    }

    fn kept(&self, reply: &Reply, keys: &[u64], asked: Duration) -> Kept {
        let text = reply.headers.get(&SHOWS).and_then(|shows| shows.to_str().ok()).unwrap_or_default().to_owned();
        let credible =
            reply.versions.len() == keys.len() && reply.versions.iter().all(|version| version.is_credible());
        let short = self.design == Design::Middle && reply.status == StatusCode::NOT_FOUND && !credible;
        Kept {
            asked,
            ttl: if short { self.ttl.min(NEGATIVE_TTL) } else { self.ttl },
            status: reply.status.as_u16(),
            text,
            keys: keys.to_vec(),
            versions: if credible { reply.versions.clone() } else { Vec::new() },
        }
    }

    /// Keeps what was got, if the design allows it; returns whether it is at the floor, as far as
    /// the design has one.
    fn keep(&self, path: String, generations: Vec<u64>, best: Kept) -> bool {
        if self.design == Design::Naive {
            self.state().kept.insert(path, best);
            return true;
        }
        let fenced = best.is_versioned() || generations == self.generations(&best.keys);
        let mut state = self.state();
        let good = best.is_at_floor(&state.records);
        for (key, version) in best.keys.iter().zip(&best.versions) {
            let known = state.records.entry(*key).or_default();
            known.floor = known.floor.max(version.0);
        }
        if good && fenced {
            state.kept.insert(path, best);
        }
        good
    }

    fn generations(&self, keys: &[u64]) -> Vec<u64> {
        let state = self.state();
        keys.iter().map(|key| state.records.get(key).map_or(0, |known| known.generation)).collect()
    }
}

impl Kept {
    fn is_versioned(&self) -> bool {
        self.versions.len() == self.keys.len()
    }

    /// Nothing that states no version is below a floor: generations answer for that.
    fn is_at_floor(&self, records: &HashMap<u64, Known>) -> bool {
        let mut stated = self.keys.iter().zip(&self.versions);
        stated.all(|(key, version)| records.get(key).is_none_or(|known| version.0 >= known.floor))
    }

    /// At the floor, then there rather than absent, then newer.
    fn worth(&self, records: &HashMap<u64, Known>) -> (bool, bool, u128) {
        let versions = self.versions.iter().map(|version| u128::from(version.0)).sum();
        (self.is_at_floor(records), self.status == 200, versions)
    }
}

/// True if a record lies within `scope`; all of them are of one type.
fn covers(scope: Scope, key: u64) -> bool {
    !matches!(scope, Scope::Record(id) if id.hash != key)
}
