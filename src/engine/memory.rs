//! The engine that keeps everything in memory: for tests, the simulator and a quick look. A write
//! and its place in the feed happen together, so its feed is exact; [`super::faulty`] adds what
//! the real ones get wrong.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt, ready};
use futures_util::stream::{self, BoxStream, StreamExt};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::sizes::check_size;
use super::{
    Change, EngineError, Feed, FeedBatch, FeedShard, Item, ItemKey, ItemWrite, Page, Position, ScanSegment, ShardId,
    Stream, Table, Tables, WriteError, bucket, limits,
};
use crate::model::time::{Clock, Wall};

/// The tables of one place; clones share them.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    state: Mutex<State>,
    /// Number of changes of each stream, for those who wait for the next.
    ends: [watch::Sender<u64>; 2],
}

#[derive(Default)]
struct State {
    tables: BTreeMap<(Table, ItemKey), Item>,
    streams: [Log; 2],
}

/// The newest changes of a stream, in order.
#[derive(Default)]
struct Log {
    changes: VecDeque<Change>,
    /// Number of changes so far.
    end: u64,
    /// Time at which the newest change that is no longer here was written.
    dropped: Option<Wall>,
}

const fn place(stream: Stream) -> usize {
    match stream {
        Stream::Changes => 0,
        Stream::Views => 1,
    }
}

impl MemoryStore {
    pub fn new(clock: Clock) -> Self {
        let ends = [watch::Sender::new(0), watch::Sender::new(0)];
        Self { shared: Arc::new(Shared { clock, state: Mutex::default(), ends }) }
    }

    /// Feed with the changes of a streamed table: one shard.
    pub fn feed(&self, stream: Stream) -> MemoryFeed {
        MemoryFeed { store: self.clone(), stream }
    }

    /// Loses a table, as if somebody had deleted it and made it anew; nothing of it is in the feed.
    pub fn lose(&self, table: Table) {
        self.locked().tables.retain(|(kept, _), _| *kept != table);
    }

    /// Lets a feed forget all but its newest `keep` changes.
    pub fn trim(&self, stream: Stream, keep: usize) {
        let mut state = self.locked();
        let log = &mut state.streams[place(stream)];
        let changes = &mut log.changes;
        let surplus = changes.len().saturating_sub(keep);
        let dropped = changes.drain(..surplus).next_back().map(|change| change.written);
        log.dropped = dropped.or(log.dropped);
    }

    /// Changes an item behind everybody's back, as an operator's hands or a faulty disk would:
    /// without conditions, and without a word in the feed. `None` removes it.
    pub fn tamper(&self, table: Table, key: &ItemKey, item: Option<Item>) {
        let mut state = self.locked();
        match item {
            Some(item) => state.tables.insert((table, key.clone()), item),
            None => state.tables.remove(&(table, key.clone())),
        };
    }

    /// Everything in a table, for checkers.
    pub fn dump(&self, table: Table) -> Vec<Item> {
        let state = self.locked();
        state.tables.iter().filter(|((kept, _), _)| *kept == table).map(|(_, item)| item.clone()).collect()
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics between two changes that belong together.
        self.shared.state.lock()
    }

    fn commit(&self, writes: Vec<ItemWrite>) -> Result<(), WriteError> {
        check_size(&writes)?;
        let mut state = self.locked();
        let refused = refused(&writes, |table, key| state.tables.get(&(table, key.clone())).map(|item| item.version));
        if !refused.is_empty() {
            return Err(WriteError::Conflict(refused));
        }
        let written = self.shared.clock.wall();
        for write in writes {
            let (table, key) = (write.table(), write.key().clone());
            let item = match write {
                ItemWrite::Check(..) => continue,
                ItemWrite::Put(_, item, _) => Some(item),
                ItemWrite::Delete(..) => None,
            };
            match &item {
                Some(item) => state.tables.insert((table, key.clone()), item.clone()),
                None => state.tables.remove(&(table, key.clone())),
            };
            if let Some(stream) = table.stream() {
                state.streams[place(stream)].push(Change { key, item, written });
            }
        }
        for (log, end) in state.streams.iter().zip(&self.shared.ends) {
            // Under the lock, so that the end never goes backwards.
            end.send_if_modified(|known| std::mem::replace(known, log.end) != log.end);
        }
        Ok(())
    }
}

impl Log {
    fn push(&mut self, change: Change) {
        self.changes.push_back(change);
        self.end += 1;
        if self.changes.len() > limits::MEMORY_FEED_CHANGES {
            self.dropped = self.changes.pop_front().map(|change| change.written);
        }
    }

    fn first(&self) -> u64 {
        self.end - self.changes.len() as u64
    }

    /// The number of the first change at `from`.
    fn number(&self, from: &Position) -> Result<u64, EngineError> {
        let known = self.first();
        match from {
            Position::Oldest => Ok(known),
            Position::At(wall) if self.dropped.is_some_and(|dropped| dropped >= *wall) => {
                Err(EngineError::Trimmed { what: "the feed".to_owned() })
            }
            Position::At(wall) => {
                let before = self.changes.iter().take_while(|change| change.written < *wall).count();
                Ok(known + before as u64)
            }
            Position::After(number) => match number.parse::<u64>() {
                Ok(number) if number > self.end => Err(unknown_position()),
                Ok(number) if number < known => Err(EngineError::Trimmed { what: "the feed".to_owned() }),
                Ok(number) => Ok(number),
                Err(_) => Err(unknown_position()),
            },
        }
    }
}

fn unknown_position() -> EngineError {
    EngineError::Refused { what: "the feed".to_owned(), why: "a position that it never gave".to_owned() }
}

/// The places of the parts whose condition does not hold.
pub(super) fn refused(writes: &[ItemWrite], version: impl Fn(Table, &ItemKey) -> Option<u64>) -> Vec<usize> {
    let failed =
        writes.iter().enumerate().filter(|(_, write)| !write.condition().holds(version(write.table(), write.key())));
    failed.map(|(place, _)| place).collect()
}

/// True if a partition belongs to a segment of a scan.
pub(super) fn is_in(segment: ScanSegment, partition: &str) -> bool {
    segment.of <= 1 || bucket::part(partition, segment.of as u16) == segment.number as u16
}

impl Tables for MemoryStore {
    fn get<'a>(&'a self, table: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        ready(Ok(self.locked().tables.get(&(table, key.clone())).cloned())).boxed()
    }

    fn write(&self, writes: Vec<ItemWrite>) -> BoxFuture<'_, Result<(), WriteError>> {
        ready(self.commit(writes)).boxed()
    }

    fn query<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, EngineError>> {
        let from = (table, ItemKey::new(partition, after.unwrap_or_default()));
        let state = self.locked();
        let found = state.tables.range((Bound::Excluded(from), Bound::Unbounded));
        let own = found.take_while(|((kept, key), _)| *kept == table && key.partition == partition);
        ready(Ok(page(own.map(|(_, item)| item.clone()), limit))).boxed()
    }

    fn last<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        through: &'a str,
    ) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        let [from, to] = ["", through].map(|sort| (table, ItemKey::new(partition, sort)));
        ready(Ok(self.locked().tables.range(from..=to).next_back().map(|(_, item)| item.clone()))).boxed()
    }

    fn scan(
        &self,
        table: Table,
        segment: ScanSegment,
        after: Option<ItemKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, EngineError>> {
        let from = (table, after.unwrap_or_else(|| ItemKey::new("", "")));
        let state = self.locked();
        let found = state.tables.range((Bound::Excluded(from), Bound::Unbounded));
        let own =
            found.take_while(|((kept, _), _)| *kept == table).filter(|((_, key), _)| is_in(segment, &key.partition));
        ready(Ok(page(own.map(|(_, item)| item.clone()), limit))).boxed()
    }
}

/// The first `limit` of `items`, and whether there are more.
pub(super) fn page(mut items: impl Iterator<Item = Item>, limit: usize) -> Page {
    let first: Vec<Item> = items.by_ref().take(limit).collect();
    let next = items.next().and(first.last()).map(|item| item.key.clone());
    Page { items: first, next }
}

/// The changes of one table; clones share them.
#[derive(Clone)]
pub struct MemoryFeed {
    store: MemoryStore,
    stream: Stream,
}

const ONLY_SHARD: &str = "shard-0";

impl MemoryFeed {
    fn read(&self, from: &Position) -> Result<FeedBatch, EngineError> {
        let now = self.store.shared.clock.wall();
        let state = self.store.locked();
        let log = &state.streams[place(self.stream)];
        let number = log.number(from)?;
        let skipped = (number - log.first()) as usize;
        let changes: Vec<Change> = log.changes.iter().skip(skipped).take(limits::FEED_BATCH).cloned().collect();
        let next = number + changes.len() as u64;
        let following = log.changes.get(skipped + changes.len());
        // Another change may still come in the current millisecond.
        let through = following.map_or(now, |change| change.written).as_millis().saturating_sub(1);
        Ok(FeedBatch {
            changes,
            next: Position::After(next.to_string()),
            through: Some(Wall::from_millis(through)),
            ended: None,
        })
    }
}

impl Feed for MemoryFeed {
    fn shards(&self) -> BoxFuture<'_, Result<Vec<FeedShard>, EngineError>> {
        ready(Ok(vec![FeedShard { id: ShardId(ONLY_SHARD.to_owned()), parents: Vec::new() }])).boxed()
    }

    fn open(&self, _shard: &ShardId, from: Position) -> BoxStream<'static, Result<FeedBatch, EngineError>> {
        let end = self.store.shared.ends[place(self.stream)].subscribe();
        // Whether the last batch had changes: then the next may be there already.
        let state = (self.clone(), end, Some(from), true);
        stream::unfold(state, |(feed, mut end, from, at_once)| async move {
            let from = from?;
            if !at_once {
                // Silence is worth a batch too: it says through when nothing came.
                let _ = tokio::time::timeout(limits::FEED_IDLE, end.changed()).await;
            }
            end.mark_unchanged();
            let batch = feed.read(&from);
            let next = batch.as_ref().ok().map(|batch| batch.next.clone());
            let more = batch.as_ref().is_ok_and(|batch| batch.changes.len() == limits::FEED_BATCH);
            Some((batch, (feed, end, next, more)))
        })
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::super::contract;
    use super::*;

    #[tokio::test]
    async fn it_keeps_the_contract_of_stores() {
        let store = MemoryStore::new(Clock::System);
        contract::store(&store).await;
    }

    #[tokio::test(start_paused = true)]
    async fn it_keeps_the_contract_of_feeds() {
        let store = MemoryStore::new(Clock::simulated(Wall::from_millis(1_000_000)));
        contract::feed(&store, &store.feed(Stream::Changes)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn trimmed_position_is_reported() {
        let store = MemoryStore::new(Clock::simulated(Wall::from_millis(1_000_000)));
        let feed = store.feed(Stream::Changes);
        for version in 1..=10 {
            let item = Item::new(ItemKey::new("t#00", "k"), version);
            store.write(vec![ItemWrite::Put(Table::Records, item, super::super::Condition::Any)]).await.unwrap();
        }
        store.trim(Stream::Changes, 2);
        let first = feed.open(&ShardId(ONLY_SHARD.to_owned()), Position::After("3".to_owned())).next().await.unwrap();
        assert!(matches!(first, Err(EngineError::Trimmed { .. })));
        let since = Position::At(Wall::from_millis(1_000_000));
        let first = feed.open(&ShardId(ONLY_SHARD.to_owned()), since).next().await.unwrap();
        assert!(matches!(first, Err(EngineError::Trimmed { .. })), "a time may be trimmed away too");
        let first = feed.open(&ShardId(ONLY_SHARD.to_owned()), Position::Oldest).next().await.unwrap().unwrap();
        assert_eq!(first.changes.len(), 2);
    }
}
