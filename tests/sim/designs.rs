//! Owns the designs that people would build instead, to be held beside ours: same regions, same topics, same faults.
//!
//! *Naive*: a TTL, an announcement deletes, the first reply wins. *Middle*: floors and generations too, but no lease, no
//! epochs and no rechecks. Before it: [`super::subject`]. After it: answers whose staleness is counted, not judged.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use http::{HeaderMap, Method, StatusCode};
use nearside::freshness::event::{Event, Says, Scope};
use nearside::freshness::words::{RecordId, RegionId, TypeId, Version};
use nearside::origin::reply::{Origin, Outgoing, Reply};

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
    /// What tables call it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Nearside => "Nearside",
            Self::Naive => "naive",
            Self::Middle => "middle",
        }
    }
}

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
    /// By record: the highest version announced or served, and how many announcements came.
    records: HashMap<u64, (u64, u64)>,
}

struct Kept {
    asked: Duration,
    text: String,
    status: u16,
    keys: Vec<u64>,
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

    /// An announcement deletes.
    pub(crate) fn step(&self, event: &Event) {
        let Event::Message { says, .. } = event else { return };
        let (id, version) = match says {
            Says::Changed(id, version) | Says::Deleted(id, version) => (*id, version.unwrap_or_default()),
            Says::Reload(Scope::Record(id)) => (*id, Version::NONE),
            _ => return,
        };
        let mut state = self.state();
        let (floor, moved) = state.records.entry(id.hash).or_default();
        if self.design == Design::Middle && version != Version::NONE && version.0 <= *floor {
            return;
        }
        *floor = (*floor).max(version.0);
        *moved += 1;
        state.kept.retain(|_, kept| !kept.keys.contains(&id.hash));
    }

    /// A hit, or the first reply that will do.
    pub(crate) async fn ask(self: Arc<Self>, world: Arc<World>, path: String) -> Got {
        let now = world.elapsed();
        let hit = self
            .state()
            .kept
            .get(&path)
            .filter(|kept| now.saturating_sub(kept.asked) < self.ttl)
            .map(|kept| (kept.status, "nearside; hit".to_owned(), read_shows(&kept.text)));
        if let Some(hit) = hit {
            return hit;
        }
        let keys: Vec<u64> = world.records(&path).into_iter().map(|key| key as u64).collect();
        let before = self.generations(&keys);
        let headers = HeaderMap::new();
        let request =
            Outgoing { method: Method::GET, path_and_query: path.clone(), headers, body: Default::default() };
        let (request, within) = (Arc::new(request), Duration::from_secs(2));
        let ask = |region| self.origin.ask(RegionId(region as u8), request.clone(), within);
        let mut legs: FuturesUnordered<_> = (0..REGIONS).map(ask).collect();
        let mut best: Option<Reply> = None;
        while let Some(leg) = legs.next().await {
            let Ok(reply) = leg else { continue };
            if !matches!(reply.status, StatusCode::OK | StatusCode::NOT_FOUND) {
                continue;
            }
            let enough = self.design == Design::Naive || self.is_at_floor(&keys, &reply);
            let newer = best.as_ref().is_none_or(|best| reply.versions > best.versions);
            if enough || newer {
                best = Some(reply);
            }
            if enough {
                break;
            }
        }
        let Some(reply) = best else { return (502, "nearside; fwd=miss".to_owned(), None) };
        let text = reply.headers.get(&SHOWS).and_then(|shows| shows.to_str().ok()).unwrap_or_default().to_owned();
        let (status, shown) = (reply.status.as_u16(), read_shows(&text));
        let stale = self.design == Design::Middle && before != self.generations(&keys);
        let mut state = self.state();
        if !stale {
            state.kept.insert(path, Kept { asked: now, text, status, keys: keys.clone() });
        }
        for (key, version) in keys.iter().zip(&reply.versions).filter(|(_, version)| version.is_credible()) {
            let floor = &mut state.records.entry(*key).or_default().0;
            *floor = (*floor).max(version.0);
        }
        (status, "nearside; fwd=miss".to_owned(), shown)
    }

    fn generations(&self, keys: &[u64]) -> Vec<u64> {
        let state = self.state();
        keys.iter().map(|key| state.records.get(key).map_or(0, |(_, moved)| *moved)).collect()
    }

    fn is_at_floor(&self, keys: &[u64], reply: &Reply) -> bool {
        let state = self.state();
        let floor = |key: &u64| state.records.get(key).map_or(0, |(floor, _)| *floor);
        reply.versions.is_empty() || keys.iter().zip(&reply.versions).all(|(key, version)| version.0 >= floor(key))
    }
}
