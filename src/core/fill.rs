//! A fill asks the regions for a representation and is shared by all who want it. [`routed`] and
//! [`unrouted`] say what a fill does; this file says who shares it. A fill is a task of the
//! process, not of the caller who began it: a caller who hangs up cancels nothing.
//!
//! For a key, a generation and a reading of the configuration, at most two shared fills are under
//! way, one of them end to end. A reader who arrives after an announcement never joins an older
//! fill (R3), and a reader who said `no-cache` never joins one that began before it came; at a
//! region's node it may, if it states what it has heard of and that is what comes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SetOnce};
use tokio_util::sync::CancellationToken;

use crate::cache::key::Key;
use crate::cache::limits::{FILLS, REMEMBERED_ERROR_BYTES};
use crate::core::Core;
use crate::core::race::region::Purpose;
use crate::engine::guard::{self, Guard};
use crate::model::ids::Generation;
use crate::model::time::Moment;
use crate::protocol::switch::{Rule, is_on};

pub(crate) mod ask;
pub mod audit;
pub(crate) mod background;
pub mod comparison;
mod errors;
pub(crate) mod orders;
mod outcome;
mod routed;
mod unrouted;

pub use ask::{Ask, Of, Routing};
pub use outcome::{BestError, Failed, Filled, Got, Role};

use outcome::best_error;

/// After this many deadlines a fill is overdue: one to wait for its turn and one for its race. If
/// it takes longer, the whole process stood still.
const OVERDUE: u32 = 2;

#[derive(Clone, PartialEq, Eq, Hash)]
struct FillKey {
    key: Key,
    generation: Generation,
    /// Regions are asked past any cache in front of them.
    end_to_end: bool,
    /// Whose settings and credentials it asks with ([`Core::reading`]).
    reading: u64,
}

impl FillKey {
    fn of(core: &Core, ask: &Ask) -> Self {
        // All reads of a table are alike.
        let authoritative = core.config.service.authoritative;
        let end_to_end = authoritative || if is_on(Rule::R3) { ask.is_end_to_end() } else { ask.no_cache };
        Self { key: ask.key.clone(), generation: ask.generation(), end_to_end, reading: core.reading }
    }
}

/// The result, and on whose behalf it was asked for.
#[derive(Clone)]
struct FillResult {
    filled: Filled,
    purpose: Purpose,
}

/// Set once, by the fill's leader, however the fill ends.
type ResultCell = Arc<SetOnce<FillResult>>;
type Shard = HashMap<FillKey, InFlight>;

/// A fill under way, as its followers see it.
struct InFlight {
    cell: ResultCell,
    /// Its position among all arrivals of readers and beginnings of fills.
    began: u64,
    /// When it is over at the latest, unless the process stood still. After that, its result is too
    /// old for newcomers.
    until: Moment,
    /// Set for a background fill: cancelled when a reader starts to wait for it.
    wanted: Option<CancellationToken>,
}

/// What a reader finds when it comes to be served by a fill.
enum Join {
    Follow(ResultCell, Role),
    /// One is under way that began before the reader came, but the reader asked for a later one: it
    /// waits for this one and then comes again. All who wait so share the next.
    Next(ResultCell),
    /// The bound on fills is reached.
    Full,
}

/// The fills under way, and the failures of the last seconds.
pub struct Fills {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    under_way: AtomicUsize,
    /// Counts arrivals of readers and beginnings of fills, to tell which came first.
    arrivals: AtomicU64,
    /// Permits for undecided races: where memory is small, a burst of misses takes turns.
    turns: Arc<Semaphore>,
    errors: errors::Errors,
    pending: background::Pending,
}

impl Default for Fills {
    fn default() -> Self {
        Self::new(FILLS, REMEMBERED_ERROR_BYTES)
    }
}

impl Fills {
    /// At most `races` undecided fills at once, and `error_bytes` of remembered failures.
    pub fn new(races: usize, error_bytes: usize) -> Self {
        Self {
            shards: (0..64).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            under_way: AtomicUsize::new(0),
            arrivals: AtomicU64::new(0),
            turns: Arc::new(Semaphore::new(races)),
            errors: errors::Errors::new(error_bytes),
            pending: background::Pending::default(),
        }
    }
}

impl Fills {
    fn shard(&self, fill_key: &FillKey) -> MutexGuard<'_, Shard> {
        // Both fills of a key and a generation are in one shard.
        let shard = self.hasher.hash_one((&fill_key.key, fill_key.generation)) as usize % self.shards.len();
        // A fill is inserted or removed whole: a panic elsewhere cannot leave half of one.
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks again for what failed moments ago, because the settings have changed.
    pub fn forget_errors(&self) {
        self.errors.forget_all();
    }

    pub fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }

    /// Joins the fill that `ask` wants, or begins it. Resolves when there is something to serve, or
    /// when nothing can be.
    ///
    /// A failure of the last seconds is answered from memory, so that a storm of misses does not
    /// become a storm of races.
    pub async fn fill(&self, core: &Arc<Core>, ask: &Ask) -> (Filled, Role) {
        if let Some(failed) = self.errors.of(&ask.key, ask.generation(), core.clock.now()) {
            ask.withdraw();
            return (failed, Role::Remembered);
        }
        let mut ask = Cow::Borrowed(ask);
        let arrived = self.arrivals.fetch_add(1, Ordering::Relaxed);
        loop {
            let (cell, share) = match self.join(core, &ask, arrived) {
                Join::Follow(cell, share) => (cell, share),
                Join::Next(before) => {
                    ask.withdraw();
                    before.wait().await;
                    continue;
                }
                Join::Full => {
                    ask.withdraw();
                    return (Filled::Busy, Role::Leader);
                }
            };
            if share == Role::Follower {
                ask.withdraw();
            }
            let FillResult { filled, purpose } = cell.wait().await.clone();
            let follows_floor = share == Role::Follower && ask.floor.is_some();
            let floor = follows_floor.then(|| ask.to_mut().floor.take()).flatten();
            if floor.is_some_and(|floor| !filled.meets(&floor)) && guard::is_on(Guard::FollowersCompare) {
                // It may have asked before what the reader has heard of was there.
                ask.to_mut().no_cache = true;
                continue;
            }
            // A background fill may have asked fewer regions than a reader is entitled to.
            let settled = matches!(&filled, Filled::Got(got) if got.label.is_none());
            let kept_short = purpose == Purpose::Background && ask.purpose == Purpose::Foreground;
            if settled || share == Role::Leader || !kept_short {
                return (filled, share);
            }
        }
    }

    /// A fill for one reader, shared with nobody: the shared one brought a reply that belongs to
    /// another.
    pub async fn fill_alone(&self, core: &Arc<Core>, ask: &Ask) -> (Filled, Role) {
        if let Some(failed) = self.errors.of(&ask.key, ask.generation(), core.clock.now()) {
            return (failed, Role::Remembered);
        }
        let Some((leader, cell)) = self.lead(core, ask, None) else {
            return (Filled::Busy, Role::Leader);
        };
        // A task like any other fill: the reader gets its reply as soon as there is one, not when
        // the slowest leg has ended.
        core.tasks.spawn("fill", run(leader, ask.clone()).boxed());
        (cell.wait().await.filled.clone(), Role::Leader)
    }

    /// Begins the fill that `ask` wants, unless it is under way, without waiting.
    pub fn begin(&self, core: &Arc<Core>, ask: &Ask) {
        if self.errors.of(&ask.key, ask.generation(), core.clock.now()).is_none() {
            self.join(core, ask, self.arrivals.load(Ordering::Relaxed));
        }
    }

    /// Joins or begins a fill for a reader who came at `arrived`, without waiting.
    fn join(&self, core: &Arc<Core>, ask: &Ask, arrived: u64) -> Join {
        let fill_key = FillKey::of(core, ask);
        let mut shard = self.shard(&fill_key);
        // An end-to-end reply also serves those who did not ask for one.
        let better = FillKey { end_to_end: true, ..fill_key.clone() };
        if let Some(current) = shard.get(&fill_key).or_else(|| shard.get(&better)) {
            if let (Purpose::Foreground, Some(wanted)) = (ask.purpose, &current.wanted) {
                wanted.cancel();
            }
            let overdue = core.clock.now() > current.until;
            let insists = ask.insists() && ask.floor.is_none() && guard::is_on(Guard::InsistingReadsAnew);
            return match insists && current.began < arrived || overdue {
                true => Join::Next(current.cell.clone()),
                false => Join::Follow(current.cell.clone(), Role::Follower),
            };
        }
        let wanted = (ask.purpose == Purpose::Background).then(CancellationToken::new);
        let Some((leader, cell)) = self.lead(core, ask, Some(wanted.clone())) else {
            return Join::Full;
        };
        let began = self.arrivals.fetch_add(1, Ordering::Relaxed);
        let until = core.clock.now() + OVERDUE * core.regions.deadline();
        shard.insert(fill_key, InFlight { cell: cell.clone(), began, until, wanted });
        drop(shard);
        // Boxed before it is handed around, because it is large.
        core.tasks.spawn("fill", run(leader, ask.clone()).boxed());
        Join::Follow(cell, Role::Leader)
    }

    /// `shared` is `None` for a fill that nobody else joins.
    fn lead(
        &self,
        core: &Arc<Core>,
        ask: &Ask,
        shared: Option<Option<CancellationToken>>,
    ) -> Option<(Leader, ResultCell)> {
        if self.under_way.fetch_add(1, Ordering::Relaxed) >= FILLS {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let cell = ResultCell::default();
        let leader = Leader {
            core: core.clone(),
            fill_key: FillKey::of(core, ask),
            cell: cell.clone(),
            purpose: ask.purpose,
            shared: shared.is_some(),
            wanted: shared.flatten(),
            counted: true,
            turn: None,
        };
        Some((leader, cell))
    }
}

/// Leads one fill: hands its result to the followers, and makes way for the next fill whatever
/// happens.
pub(crate) struct Leader {
    core: Arc<Core>,
    fill_key: FillKey,
    cell: ResultCell,
    purpose: Purpose,
    shared: bool,
    wanted: Option<CancellationToken>,
    counted: bool,
    /// Held until the race is decided.
    turn: Option<OwnedSemaphorePermit>,
}

impl Leader {
    /// Waits until a race may begin, but no longer than one may take; false if it may not begin.
    async fn take_turn(&mut self) -> bool {
        let turns = self.core.fills.turns.clone();
        self.turn = match turns.clone().try_acquire_owned() {
            Ok(turn) => Some(turn),
            Err(_) => {
                let within = self.core.regions.deadline();
                tokio::time::timeout(within, turns.acquire_owned()).await.ok().and_then(Result::ok)
            }
        };
        self.turn.is_some()
    }

    /// Resolves once, when a reader starts to wait for what began in the background.
    async fn wanted(&mut self) {
        match &self.wanted {
            Some(wanted) => wanted.cancelled().await,
            None => std::future::pending().await,
        }
        self.wanted = None;
        self.purpose = Purpose::Foreground;
    }

    fn is_background(&self) -> bool {
        self.purpose == Purpose::Background
    }

    /// Gives all readers the result. Whoever comes from now on finds the store or begins a new
    /// fill; but a failure with a reader waiting is remembered. It is not remembered that no region
    /// has what was announced, because one may have it in a moment.
    fn finish(&mut self, filled: Filled) {
        let fills = &self.core.fills;
        match &filled {
            Filled::Got(_) => fills.errors.forget(&self.fill_key.key),
            Filled::Failed(failed) if failed.below_floor => {}
            _ if self.purpose == Purpose::Background || !self.core.is_newest() => {}
            failed => fills.errors.note(&self.fill_key.key, self.fill_key.generation, failed, self.core.clock.now()),
        }
        self.clear();
        let purpose = self.purpose;
        // Nobody else sets it, and a leader finishes once.
        let _ = self.cell.set(FillResult { filled, purpose });
    }

    fn fail(&mut self, failed: Failed) {
        self.finish(Filled::Failed(Arc::new(failed)));
    }

    fn clear(&mut self) {
        self.turn = None;
        if std::mem::take(&mut self.counted) {
            if self.shared {
                self.core.fills.shard(&self.fill_key).remove(&self.fill_key);
            }
            self.core.fills.under_way.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Leader {
    /// The readers of a fill that broke get a result too.
    fn drop(&mut self) {
        self.clear();
        if !self.cell.initialized() {
            let _ = self.cell.set(FillResult { filled: Filled::broken(), purpose: self.purpose });
        }
    }
}

#[expect(clippy::manual_async_fn, reason = "an async fn's future has room for its arguments twice")]
fn run(mut leader: Leader, mut ask: Ask) -> impl Future<Output = ()> + Send {
    async move {
        if !leader.take_turn().await {
            leader.core.metrics.over_budget("races");
            return leader.finish(Filled::Busy);
        }
        match &ask.of {
            Of::Route(routing) => {
                let tally = routed::run(&mut leader, &ask, routing).await;
                if let Some(tally) = tally.filter(|tally| audit::is_disputed(&leader.core, &ask, routing, tally)) {
                    // Boxed, so that a miss that replaces nothing has no room for it.
                    Box::pin(audit::follow(&leader.core, &ask, routing, &tally)).await;
                }
            }
            Of::Path(_) => unrouted::run(&mut leader, &mut ask).await,
        }
    }
}

#[cfg(test)]
mod tests;
