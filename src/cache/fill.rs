//! Stage 4 of a request, when asking is needed: the one fill per (representation, generation), shared by all who
//! want it.
//!
//! Before it: [`crate::serve`]. After it: [`crate::origin::race`] asks, the store keeps, and every reader gets the
//! same reply. A fill is a task of the process, not of the caller who began it: a caller who hangs up cancels
//! nothing. [`routed`] and [`unrouted`] say what a fill does; here is who shares it.
//!
//! Invariant: for a key and a generation there is at most one fill under way, and a reader who arrives after an
//! announcement never joins an older one (R3).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::entry::Entry;
use super::key::Key;
use crate::clock::Moment;
use crate::freshness::words::Generation;
use crate::limits;
use crate::origin::region::Purpose;
use crate::response::Attempted;
use crate::serve::Sidecar;

pub mod ask;
pub mod background;
mod routed;
mod unrouted;

pub use ask::{Ask, Of, Routing};

/// What a fill comes to, for each of its readers.
#[derive(Clone)]
pub enum Filled {
    /// A reply that may be served.
    Got(Got),
    /// Nothing that may.
    Failed(Arc<Failed>),
    /// A good reply that is too large to hold: each reader streams its own.
    TooLarge,
    /// The bound on fills is reached.
    Busy,
}

/// A reply and how it was come by.
#[derive(Clone)]
pub struct Got {
    /// What to serve.
    pub entry: Arc<Entry>,
    /// The region's status: 304 when it confirmed what was stored.
    pub fwd_status: u16,
    /// It was stored.
    pub stored: bool,
    /// It may be given to readers who joined; otherwise only to the first.
    pub shareable: bool,
    /// Why it cannot be called fresh, if it cannot.
    pub label: Option<&'static str>,
}

/// Why there is no reply.
pub struct Failed {
    /// The best real reply among the failures, to be passed on.
    pub best_error: Option<Arc<Entry>>,
    /// Who was asked, and what became of each.
    pub asked: Vec<Attempted>,
    /// There were replies, all below the floor, and strict mode forbids them.
    pub below_floor: bool,
}

/// How a reader came by its fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// It began the fill.
    Began,
    /// It joined one that was under way.
    Joined,
}

impl Filled {
    /// The fill itself broke: a defect, answered like regions that gave nothing.
    fn broken() -> Self {
        Self::Failed(Arc::new(Failed { best_error: None, asked: Vec::new(), below_floor: false }))
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Flight {
    key: Key,
    generation: Generation,
}

impl Flight {
    fn of(ask: &Ask) -> Self {
        Self { key: ask.key.clone(), generation: ask.generation() }
    }
}

/// What landed, and on whose behalf it was asked.
#[derive(Clone)]
struct Landed {
    filled: Filled,
    purpose: Purpose,
}

type Landing = watch::Receiver<Option<Landed>>;
type Shard = HashMap<Flight, Landing>;

/// The fills under way, and the failures of the last seconds.
pub struct Fills {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    under_way: AtomicUsize,
    errors: Mutex<HashMap<Key, Remembered>>,
    pending: background::Pending,
}

struct Remembered {
    failed: Arc<Failed>,
    generation: Generation,
    until: Moment,
    wait: Duration,
}

impl Default for Fills {
    fn default() -> Self {
        Self {
            shards: (0..64).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            under_way: AtomicUsize::new(0),
            errors: Mutex::default(),
            pending: background::Pending::default(),
        }
    }
}

impl Fills {
    fn shard(&self, flight: &Flight) -> MutexGuard<'_, Shard> {
        let shard = self.hasher.hash_one(flight) as usize % self.shards.len();
        // A flight is inserted or removed whole: a panic elsewhere cannot leave half of one.
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn errors(&self) -> MutexGuard<'_, HashMap<Key, Remembered>> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many fills are under way.
    pub fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// Joins the fill that `ask` wants, or begins it; resolves when there is something to serve, or nothing can be.
    ///
    /// A failure of the last seconds is answered from memory, so that a storm of misses is not a storm of races.
    pub async fn fill(&self, sidecar: &Arc<Sidecar>, ask: Ask) -> (Filled, Share) {
        if let Some(failed) = self.remembered(&ask, sidecar.clock.now()) {
            return (Filled::Failed(failed), Share::Joined);
        }
        loop {
            let (mut landing, share) = match self.board(sidecar, ask.clone()) {
                Some(boarded) => boarded,
                None => return (Filled::Busy, Share::Began),
            };
            // The sender sends before it goes, unless the fill itself broke.
            let landed = landing.wait_for(Option::is_some).await.ok().and_then(|landed| landed.clone());
            let Some(Landed { filled, purpose }) = landed else { return (Filled::broken(), share) };
            // A background fill may have asked fewer regions than a reader is entitled to.
            let settled = matches!(&filled, Filled::Got(got) if got.label.is_none());
            if settled || share == Share::Began || purpose == ask.purpose {
                return (filled, share);
            }
        }
    }

    /// A fill of one reader's own, shared with nobody: what a shared one brought was another's.
    pub async fn fill_alone(&self, sidecar: &Arc<Sidecar>, ask: Ask) -> Filled {
        let Some((pilot, mut landing)) = self.take_off(sidecar, &ask, false) else { return Filled::Busy };
        run(pilot, ask).await;
        let landed = landing.wait_for(Option::is_some).await.ok().and_then(|landed| landed.clone());
        landed.map_or_else(Filled::broken, |landed| landed.filled)
    }

    /// Joins or begins, without waiting; `None` when the bound on fills is reached.
    fn board(&self, sidecar: &Arc<Sidecar>, ask: Ask) -> Option<(Landing, Share)> {
        let flight = Flight::of(&ask);
        let mut shard = self.shard(&flight);
        if let Some(landing) = shard.get(&flight) {
            return Some((landing.clone(), Share::Joined));
        }
        let (pilot, landing) = self.take_off(sidecar, &ask, true)?;
        shard.insert(flight, landing.clone());
        drop(shard);
        sidecar.tasks.spawn("fill", run(pilot, ask));
        Some((landing, Share::Began))
    }

    fn take_off(&self, sidecar: &Arc<Sidecar>, ask: &Ask, shared: bool) -> Option<(Pilot, Landing)> {
        if self.under_way.fetch_add(1, Ordering::Relaxed) >= limits::FILLS {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let (sender, landing) = watch::channel(None);
        let flight = Flight::of(ask);
        let pilot = Pilot { sidecar: sidecar.clone(), flight, sender, purpose: ask.purpose, shared, aboard: true };
        Some((pilot, landing))
    }

    fn remembered(&self, ask: &Ask, now: Moment) -> Option<Arc<Failed>> {
        let errors = self.errors();
        let last = errors.get(&ask.key)?;
        (now < last.until && last.generation == ask.generation()).then(|| last.failed.clone())
    }

    /// Remembers a failure, longer each time in a row.
    fn remember(&self, key: &Key, generation: Generation, failed: &Arc<Failed>, now: Moment) {
        let (first, last) = limits::ERROR_MEMORY;
        let mut errors = self.errors();
        if errors.len() >= limits::REMEMBERED_ERRORS as usize {
            errors.retain(|_, error| now < error.until);
            if errors.len() >= limits::REMEMBERED_ERRORS as usize {
                return;
            }
        }
        let wait = errors.get(key).map_or(first, |error| (error.wait * 2).min(last));
        errors.insert(key.clone(), Remembered { failed: failed.clone(), generation, until: now + wait, wait });
    }

    /// A fill succeeded: the next failure is a first one again.
    fn forget(&self, key: &Key) {
        let mut errors = self.errors();
        if !errors.is_empty() {
            errors.remove(key);
        }
    }
}

/// Leads one fill: hands its result to the readers, and clears the way for the next whatever happens.
pub(super) struct Pilot {
    sidecar: Arc<Sidecar>,
    flight: Flight,
    sender: watch::Sender<Option<Landed>>,
    purpose: Purpose,
    shared: bool,
    aboard: bool,
}

impl Pilot {
    /// Gives all readers the result. Who comes from now on finds the store, or begins anew.
    fn land(&mut self, filled: Filled) {
        if let Filled::Got(_) = &filled {
            self.sidecar.fills.forget(&self.flight.key);
        }
        self.clear();
        let purpose = self.purpose;
        self.sender.send_replace(Some(Landed { filled, purpose }));
    }

    /// As `land`, for a failure, which is remembered.
    fn fail(&mut self, failed: Failed) {
        let failed = Arc::new(failed);
        if self.purpose == Purpose::Foreground {
            let now = self.sidecar.clock.now();
            self.sidecar.fills.remember(&self.flight.key, self.flight.generation, &failed, now);
        }
        self.land(Filled::Failed(failed));
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.aboard) {
            if self.shared {
                self.sidecar.fills.shard(&self.flight).remove(&self.flight);
            }
            self.sidecar.fills.under_way.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Pilot {
    fn drop(&mut self) {
        self.clear();
    }
}

async fn run(pilot: Pilot, ask: Ask) {
    match ask.of.clone() {
        Of::Route(routing) => routed::run(pilot, ask, routing).await,
        Of::Path => unrouted::run(pilot, ask).await,
    }
}
