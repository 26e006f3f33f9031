//! Follows a feed: every shard, children after their parents, from where the last process stopped.
//!
//! A batch is applied before its position is written down, so a crash repeats work and loses none.
//! Positions are written in a transaction that checks the lease. [`FeedProgress`] says through when
//! everything that arrived at the feed has been applied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::StreamExt;

use super::guard::{Guard, is_on};
use super::lease::Lease;
use super::{
    Change, Condition, EngineError, Feed, FeedBatch, FeedShard, Item, ItemKey, ItemWrite, Position, ShardId, Table,
    Tables, WriteError, limits, retry_delay,
};
use crate::model::time::{Clock, Moment, Wall};
use crate::tasks::TaskGroup;

/// Why following ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowEnd {
    /// Another process holds the lease.
    LeaseLost,
    /// What was not read yet is no longer in the feed: begin again with a scan.
    Trimmed,
}

/// What is read, and where positions are written down.
#[derive(Clone)]
pub struct Follower {
    pub feed: Arc<dyn Feed>,
    pub tables: Arc<dyn Tables>,
    pub table: Table,
    /// The last part of the checkpoints' partition: `changes`, `views`.
    pub name: &'static str,
    pub clock: Clock,
    pub progress: Arc<FeedProgress>,
}

/// Takes what the feed brings.
pub trait Apply: Send + Sync + 'static {
    /// Returns once each change is dealt with for good, or written down as work to be done. It may
    /// get the same changes again, and older ones. Fails only with what may pass; then it is
    /// called again with the same batch.
    fn apply(&self, changes: Vec<Change>) -> futures_util::future::BoxFuture<'_, Result<(), EngineError>>;
}

/// How far each shard has been applied.
#[derive(Debug, Default)]
pub struct FeedProgress {
    state: Mutex<Reached>,
}

#[derive(Debug, Default)]
struct Reached {
    /// Of every shard that is not read to its end; `None` before its first batch.
    shards: BTreeMap<ShardId, Option<Wall>>,
    /// The last failure, and since when there have been only failures.
    failing: Option<(Moment, EngineError)>,
}

impl FeedProgress {
    /// Everything that arrived at the feed by then has been applied. `None` while some shard has
    /// said nothing.
    pub fn through(&self) -> Option<Wall> {
        let state = self.locked();
        let through = state.shards.values().copied();
        if is_on(Guard::ThroughIsLeast) { through.min().flatten() } else { through.max().flatten() }
    }

    /// Since when nothing but this has come of reading or applying, if that is so.
    pub fn failing(&self) -> Option<(Moment, EngineError)> {
        self.locked().failing.clone()
    }

    /// Claims nothing any more.
    pub fn reset(&self) {
        *self.locked() = Reached::default();
    }

    pub fn shards(&self) -> usize {
        self.locked().shards.len()
    }

    fn locked(&self) -> MutexGuard<'_, Reached> {
        // Each change is a few plain stores.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, now: Moment, error: EngineError) {
        let mut state = self.locked();
        let since = state.failing.as_ref().map_or(now, |(since, _)| *since);
        state.failing = Some((since, error));
    }

    /// Time never goes backwards: a batch that is read again claims no less than before.
    fn applied(&self, shard: &ShardId, through: Wall) {
        let mut state = self.locked();
        state.failing = None;
        let known = state.shards.entry(shard.clone()).or_default();
        *known = (*known).max(Some(through));
    }

    /// The children of a shard hold the time at its end until they are read.
    fn ended(&self, shard: &ShardId, children: &[FeedShard]) {
        let mut state = self.locked();
        let through = state.shards.remove(shard).flatten();
        for child in children {
            state.shards.entry(child.id.clone()).or_insert(through);
        }
    }
}

/// What is written down about the shards.
#[derive(Clone, Debug, Default)]
struct Checkpoints {
    /// When the scan began with which the first reader made up for what the feed did not bring.
    begun: Option<Wall>,
    shards: BTreeMap<ShardId, Checkpoint>,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Checkpoint {
    After(String),
    At(u64),
    Oldest,
    Ended,
}

/// The sort key under which it is written that this reader has begun; no shard is called so.
const BEGUN: &str = " begun";

/// Where it lies that the reader of this name has begun.
pub fn begun_key(name: &str) -> ItemKey {
    ItemKey::new(format!("checkpoint#{name}"), BEGUN)
}

impl Follower {
    /// When the reader began, if it has: its scan is complete, and the feed brings the rest.
    pub async fn begun(&self) -> Result<Option<Wall>, EngineError> {
        let item = self.tables.get(self.table, &self.key(BEGUN)).await?;
        Ok(item.map(|item| Wall::from_millis(item.version)))
    }

    /// Writes down that a scan that began at `at` is complete.
    ///
    /// # Errors
    /// When the lease is lost.
    pub async fn begin(&self, lease: &Lease, at: Wall) -> Result<(), FollowEnd> {
        let item = Item::new(self.key(BEGUN), at.as_millis());
        self.write(lease, vec![ItemWrite::Put(self.table, item, Condition::Any)]).await
    }

    /// Forgets all positions, before a new scan.
    ///
    /// # Errors
    /// When the lease is lost.
    pub async fn forget(&self, lease: &Lease) -> Result<(), FollowEnd> {
        let sorts = self.insist("reading positions", || self.sorts()).await;
        // First that it has begun: a crash in between leaves positions that mean nothing.
        for sort in std::iter::once(BEGUN.to_owned()).chain(sorts) {
            self.write(lease, vec![ItemWrite::Delete(self.table, self.key(&sort), Condition::Any)]).await?;
        }
        self.progress.reset();
        Ok(())
    }

    /// Reads and applies until the lease is lost or the feed has forgotten what was not read.
    /// Dropping it is a crash, as far as anybody can tell.
    ///
    /// The reader must have [`begun`](Self::begun).
    pub async fn follow(&self, lease: &Arc<Lease>, apply: &Arc<dyn Apply>) -> FollowEnd {
        let mut known = self.insist("reading positions", || self.checkpoints()).await;
        let mut reading: BTreeSet<ShardId> = BTreeSet::new();
        let mut readers = TaskGroup::new();
        loop {
            let shards = self.insist("listing shards", || self.feed.shards()).await;
            if known.any_lost(&shards) {
                return FollowEnd::Trimmed;
            }
            // Before anything is read: a shard that has said nothing holds the time.
            self.hold(&shards, &known);
            for shard in ready(&shards, &known, &reading) {
                let from = known.from(&shard.id);
                reading.insert(shard.id.clone());
                let reader = ShardReader {
                    follower: self.clone(),
                    lease: lease.clone(),
                    apply: apply.clone(),
                    shard: shard.id.clone(),
                };
                readers.start(async move { reader.read(from).await });
            }
            match readers.next().await {
                Some(Ok(ended)) => {
                    reading.remove(&ended);
                    known = self.insist("reading positions", || self.checkpoints()).await;
                }
                Some(Err(end)) => return end,
                // There are no shards at all, which passes.
                None => tokio::time::sleep(limits::FEED_IDLE).await,
            }
        }
    }

    /// Shards that wait for their parents hold the time too.
    fn hold(&self, shards: &[FeedShard], known: &Checkpoints) {
        let mut state = self.progress.locked();
        for shard in shards.iter().filter(|shard| known.shards.get(&shard.id) != Some(&Checkpoint::Ended)) {
            state.shards.entry(shard.id.clone()).or_default();
        }
    }

    /// Tries until it succeeds, and says meanwhile that it does not.
    pub async fn insist<T, F>(&self, what: &str, attempt: impl Fn() -> F) -> T
    where
        F: Future<Output = Result<T, EngineError>>,
    {
        let mut failures = 0;
        loop {
            match attempt().await {
                Ok(done) => return done,
                Err(error) => failures = self.failed(what, error, failures).await,
            }
        }
    }

    /// Writes in a transaction that checks the lease, until it succeeds or the lease is lost.
    async fn write(&self, lease: &Lease, writes: Vec<ItemWrite>) -> Result<(), FollowEnd> {
        let mut failures = 0;
        loop {
            let guard = is_on(Guard::CheckpointFenced).then(|| lease.guard());
            let error = match self.tables.write(guard.into_iter().chain(writes.iter().cloned()).collect()).await {
                Ok(()) => return Ok(()),
                Err(WriteError::Conflict(places)) if !places.is_empty() => return Err(FollowEnd::LeaseLost),
                Err(WriteError::Conflict(_)) => EngineError::Throttled { what: "a position".to_owned() },
                Err(WriteError::Engine(error)) => error,
            };
            failures = self.failed("writing a position", error, failures).await;
        }
    }

    /// Notes a failure and waits; returns how many there have been in a row.
    async fn failed(&self, what: &str, error: EngineError, before: u32) -> u32 {
        tracing::warn!(feed = self.name, what, %error, "trying again");
        self.progress.failed(self.clock.now(), error);
        tokio::time::sleep(retry_delay(before + 1)).await;
        before + 1
    }

    fn key(&self, sort: &str) -> ItemKey {
        ItemKey::new(format!("checkpoint#{}", self.name), sort)
    }

    async fn items(&self) -> Result<Vec<Item>, EngineError> {
        let partition = self.key(BEGUN).partition;
        let (mut items, mut after) = (Vec::new(), None);
        loop {
            let page = self.tables.query(self.table, &partition, after.as_deref(), limits::FEED_BATCH).await?;
            items.extend(page.items);
            match page.next {
                Some(next) => after = Some(next.sort),
                None => return Ok(items),
            }
        }
    }

    async fn sorts(&self) -> Result<Vec<String>, EngineError> {
        Ok(self.items().await?.into_iter().map(|item| item.key.sort).collect())
    }

    async fn checkpoints(&self) -> Result<Checkpoints, EngineError> {
        let mut known = Checkpoints::default();
        for item in self.items().await? {
            if item.key.sort == BEGUN {
                known.begun = Some(Wall::from_millis(item.version));
            } else if let Some(checkpoint) = item.note.and_then(|note| serde_json::from_str(&note).ok()) {
                known.shards.insert(ShardId(item.key.sort), checkpoint);
            }
        }
        Ok(known)
    }
}

impl Checkpoints {
    /// Whether a shard that was not read to its end is no longer there.
    fn any_lost(&self, shards: &[FeedShard]) -> bool {
        let unread = self.shards.iter().filter(|(_, checkpoint)| **checkpoint != Checkpoint::Ended);
        unread.map(|(id, _)| id).any(|id| !shards.iter().any(|shard| shard.id == *id))
    }

    fn from(&self, shard: &ShardId) -> Position {
        match self.shards.get(shard) {
            Some(Checkpoint::After(place)) => Position::After(place.clone()),
            Some(Checkpoint::At(wall)) => Position::At(Wall::from_millis(*wall)),
            Some(Checkpoint::Oldest | Checkpoint::Ended) => Position::Oldest,
            // What came before the scan is in it.
            None => self.begun.map_or(Position::Oldest, Position::At),
        }
    }
}

impl From<Position> for Checkpoint {
    fn from(position: Position) -> Self {
        match position {
            Position::After(place) => Self::After(place),
            Position::At(wall) => Self::At(wall.as_millis()),
            Position::Oldest => Self::Oldest,
        }
    }
}

/// The shards to be read now: not read yet, and no parent that still has to be read before.
fn ready<'a>(shards: &'a [FeedShard], known: &Checkpoints, reading: &BTreeSet<ShardId>) -> Vec<&'a FeedShard> {
    let ended = |id: &ShardId| known.shards.get(id) == Some(&Checkpoint::Ended);
    let waits: BTreeSet<&ShardId> = shards.iter().map(|shard| &shard.id).filter(|id| !ended(id)).collect();
    let is_ready = |shard: &&FeedShard| {
        waits.contains(&shard.id)
            && !reading.contains(&shard.id)
            && !shard.parents.iter().any(|parent| waits.contains(parent))
    };
    shards.iter().filter(is_ready).collect()
}

/// Reads one shard to its end.
struct ShardReader {
    follower: Follower,
    lease: Arc<Lease>,
    apply: Arc<dyn Apply>,
    shard: ShardId,
}

impl ShardReader {
    async fn read(&self, from: Position) -> Result<ShardId, FollowEnd> {
        let Follower { feed, clock, progress, .. } = &self.follower;
        let (mut at, mut written, mut failures) = (from, clock.now(), 0);
        let mut last = at.clone();
        loop {
            let mut batches = feed.open(&self.shard, at.clone());
            while let Some(batch) = batches.next().await {
                let batch = match batch {
                    Ok(batch) => batch,
                    Err(EngineError::Trimmed { .. }) => return Err(FollowEnd::Trimmed),
                    Err(error) => {
                        failures += 1;
                        tracing::warn!(feed = self.follower.name, %error, "a shard cannot be read; trying again");
                        progress.failed(clock.now(), error);
                        break;
                    }
                };
                failures = 0;
                let FeedBatch { changes, next, through, ended } = batch;
                if !is_on(Guard::ThroughAfterApply) {
                    progress.applied(&self.shard, through);
                }
                if !is_on(Guard::CheckpointAfterApply) {
                    self.follower
                        .write(&self.lease, vec![self.checkpoint(&self.shard, &next.clone().into())])
                        .await?;
                }
                if !changes.is_empty() {
                    // Until it succeeds: nothing behind it counts before.
                    self.follower.insist("applying changes", || self.apply.apply(changes.clone())).await;
                }
                // A shard that ended may have done so long ago: its children begin where it was before.
                if ended.is_none() || !is_on(Guard::ChildrenHoldTime) {
                    progress.applied(&self.shard, through);
                }
                at = next;
                let is_due = clock.now().since(written) >= limits::CHECKPOINT_EVERY;
                if let Some(children) = ended {
                    self.write_end(&children).await?;
                    progress.ended(&self.shard, &children);
                    return Ok(self.shard.clone());
                }
                if at != last && is_due {
                    self.follower.write(&self.lease, vec![self.checkpoint(&self.shard, &at.clone().into())]).await?;
                    (last, written) = (at.clone(), clock.now());
                }
            }
            let pause = if failures > 0 { retry_delay(failures) } else { Duration::ZERO };
            tokio::time::sleep(pause).await;
        }
    }

    fn checkpoint(&self, shard: &ShardId, checkpoint: &Checkpoint) -> ItemWrite {
        let note = serde_json::to_string(checkpoint).expect("an enum of plain fields is JSON");
        let item = Item::new(self.follower.key(&shard.0), self.lease.token()).with_note(note);
        ItemWrite::Put(self.follower.table, item, Condition::Any)
    }

    /// The children are written down with the end: should they vanish unread, that is noticed.
    async fn write_end(&self, children: &[FeedShard]) -> Result<(), FollowEnd> {
        let children = children.iter().map(|child| self.checkpoint(&child.id, &Checkpoint::Oldest));
        let end = self.checkpoint(&self.shard, &Checkpoint::Ended);
        self.follower.write(&self.lease, std::iter::once(end).chain(children).collect()).await
    }
}

#[cfg(test)]
mod tests;
