//! Follows a feed: every shard, children after their parents, from where the last process stopped.
//!
//! A batch is applied before its position is written down, so a crash repeats work and loses none.
//! The positions of all shards are written in one transaction, which checks the lease.
//! [`FeedProgress`] says through when everything that arrived at the feed has been applied.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use tokio::time::MissedTickBehavior;

use super::lease::Lease;
use super::{Condition, EngineError, Item, ItemKey, ItemWrite, Position, ShardId, Table, Tables, WriteError, limits};
use crate::model::time::Wall;
use crate::switch::{Guard, is_on};
use crate::tasks::TaskGroup;

mod checkpoints;
mod follower;
mod progress;
mod reader;

pub use follower::{Apply, FollowEnd, Follower};
pub use progress::{Failing, FeedProgress};

use checkpoints::{Checkpoint, Checkpoints, Reached, ready};
use reader::{ShardEnd, ShardReader};

/// The sort key under which it is written that this reader has begun; no shard is called so.
const BEGUN: &str = " begun";

/// Key under which it is written that the reader of this name has begun.
pub fn begun_key(name: &str) -> ItemKey {
    ItemKey::new(format!("checkpoint#{name}"), BEGUN)
}

impl Follower {
    /// Time at which the reader began, if it has: its scan is complete, and the feed brings the
    /// rest.
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
        self.write(lease, &[ItemWrite::Put(self.table, item, Condition::Any)]).await
    }

    /// Forgets all positions, before a new scan.
    ///
    /// # Errors
    /// When the lease is lost.
    pub async fn forget(&self, lease: &Lease) -> Result<(), FollowEnd> {
        let sorts = self.insist("reading positions", || self.sorts()).await;
        // First that it has begun: a crash in between leaves positions that mean nothing.
        let all = std::iter::once(BEGUN.to_owned()).chain(sorts.into_iter().filter(|sort| sort != BEGUN));
        self.write_all(
            lease,
            all.map(|sort| ItemWrite::Delete(self.table, self.key(&sort), Condition::Any)).collect(),
        )
        .await?;
        self.progress.reset();
        Ok(())
    }

    /// Reads and applies until the lease is lost, the feed has forgotten what was not read, or a
    /// reader panics. Dropping it is a crash, as far as anybody can tell.
    ///
    /// The reader must have [`begun`](Self::begun).
    pub async fn follow(&self, lease: &Lease, apply: &Arc<dyn Apply>) -> FollowEnd {
        let Err(end) = self.read_all(lease, apply).await;
        end
    }

    async fn read_all(&self, lease: &Lease, apply: &Arc<dyn Apply>) -> Result<Infallible, FollowEnd> {
        let mut known = self.insist("reading positions", || self.checkpoints()).await;
        let (mut reading, mut readers): (BTreeSet<ShardId>, _) = (BTreeSet::new(), TaskGroup::new());
        let reached = Arc::new(Reached::default());
        loop {
            let shards = self.insist("listing shards", || self.feed.shards()).await;
            if known.any_lost(&shards) {
                return Err(FollowEnd::Trimmed);
            }
            // Before anything is read: a shard that has said nothing holds the time, and so does one
            // that waits for its parents.
            let open = shards.iter().filter(|shard| known.shards.get(&shard.id) != Some(&Checkpoint::Ended));
            self.progress.hold(open);
            for shard in ready(&shards, &known, &reading) {
                let (follower, apply, reached) = (self.clone(), apply.clone(), reached.clone());
                let reader = ShardReader { follower, apply, shard: shard.id.clone(), reached };
                readers.start(reader.read(known.from(&shard.id)));
                reading.insert(shard.id.clone());
            }
            if reading.is_empty() {
                // There are no shards at all, which passes.
                tokio::time::sleep(limits::FEED_IDLE).await;
                continue;
            }
            let end = self.until_one_ends(lease, &mut readers, &reached).await?;
            self.write_end(lease, &end, &reached).await?;
            self.progress.ended(&end.shard, &end.children);
            reading.remove(&end.shard);
            known = self.insist("reading positions", || self.checkpoints()).await;
        }
    }

    /// Writes positions down while shards are read, until one is read to its end.
    async fn until_one_ends(
        &self,
        lease: &Lease,
        readers: &mut TaskGroup<Result<ShardEnd, FollowEnd>>,
        reached: &Reached,
    ) -> Result<ShardEnd, FollowEnd> {
        let mut due = tokio::time::interval(limits::CHECKPOINT_EVERY);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                // One that panicked reported nothing: what it read is read again.
                end = readers.next_end() => return end.and_then(Result::ok).unwrap_or(Err(FollowEnd::Panicked)),
                _ = due.tick() => self.write_all(lease, self.positions(lease, reached)).await?,
            }
        }
    }

    fn positions(&self, lease: &Lease, reached: &Reached) -> Vec<ItemWrite> {
        let reached = reached.take().into_iter();
        reached.map(|(shard, position)| self.checkpoint(lease, &shard, &position.into())).collect()
    }

    /// The children are written down with the end: should they vanish unread, that is noticed.
    async fn write_end(&self, lease: &Lease, end: &ShardEnd, reached: &Reached) -> Result<(), FollowEnd> {
        let from = Checkpoint::from(end.before.map_or(Position::Oldest, Position::At));
        let children = end.children.iter().map(|child| self.checkpoint(lease, &child.id, &from));
        let own = self.checkpoint(lease, &end.shard, &Checkpoint::Ended);
        let others = self.positions(lease, reached).into_iter().filter(|other| other.key() != own.key());
        self.write_all(lease, std::iter::once(own.clone()).chain(children).chain(others).collect()).await
    }

    fn checkpoint(&self, lease: &Lease, shard: &ShardId, checkpoint: &Checkpoint) -> ItemWrite {
        let note = serde_json::to_string(checkpoint).expect("an enum of plain fields is JSON");
        let item = Item::new(self.key(&shard.0), lease.token()).with_note(note);
        ItemWrite::Put(self.table, item, Condition::Any)
    }

    /// As few transactions as take all of it, in order.
    async fn write_all(&self, lease: &Lease, writes: Vec<ItemWrite>) -> Result<(), FollowEnd> {
        for some in writes.chunks(limits::CHECKPOINTS_AT_ONCE) {
            self.write(lease, some).await?;
        }
        Ok(())
    }

    /// Writes in a transaction that checks the lease, until it succeeds or the lease is lost.
    async fn write(&self, lease: &Lease, writes: &[ItemWrite]) -> Result<(), FollowEnd> {
        self.insist("writing positions", || async {
            let guard = is_on(Guard::CheckpointFenced).then(|| lease.guard());
            match self.tables.write(guard.into_iter().chain(writes.iter().cloned()).collect()).await {
                Ok(()) => Ok(Ok(())),
                Err(WriteError::Conflict(places)) if !places.is_empty() => Ok(Err(FollowEnd::LeaseLost)),
                Err(WriteError::Conflict(_)) => Err(EngineError::Throttled { what: "a position".to_owned() }),
                Err(WriteError::Engine(error)) => Err(error),
            }
        })
        .await
    }

    fn key(&self, sort: &str) -> ItemKey {
        ItemKey::new(format!("checkpoint#{}", self.name), sort)
    }

    async fn sorts(&self) -> Result<Vec<String>, EngineError> {
        let items = items(&*self.tables, self.table, self.name).await?;
        Ok(items.into_iter().map(|item| item.key.sort).collect())
    }

    async fn checkpoints(&self) -> Result<Checkpoints, EngineError> {
        checkpoints(&*self.tables, self.table, self.name).await
    }
}

async fn items(tables: &dyn Tables, table: Table, name: &str) -> Result<Vec<Item>, EngineError> {
    let partition = begun_key(name).partition;
    let (mut items, mut after) = (Vec::new(), None);
    loop {
        let page = tables.query(table, &partition, after.as_deref(), limits::FEED_BATCH).await?;
        items.extend(page.items);
        match page.next {
            Some(next) => after = Some(next.sort),
            None => return Ok(items),
        }
    }
}

async fn checkpoints(tables: &dyn Tables, table: Table, name: &str) -> Result<Checkpoints, EngineError> {
    let mut known = Checkpoints::default();
    for item in items(tables, table, name).await? {
        if item.key.sort == BEGUN {
            known.begun = Some(Wall::from_millis(item.version));
        } else if let Some(checkpoint) = item.note.and_then(|note| serde_json::from_str(&note).ok()) {
            known.shards.insert(ShardId(item.key.sort), checkpoint);
        }
    }
    Ok(known)
}

/// From where the reader of this name would go on, shard by shard; nothing if it has not begun.
pub(super) async fn positions(tables: &dyn Tables, table: Table, name: &str) -> Result<Vec<Position>, EngineError> {
    let known = checkpoints(tables, table, name).await?;
    let begun = known.begun.filter(|_| known.shards.is_empty()).map(Position::At);
    Ok(known.shards.keys().map(|shard| known.from(shard)).chain(begun).collect())
}

#[cfg(test)]
mod tests;
