//! The world's tables, feeds and topics: what happens there is reported to the checker at once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, BoxStream, StreamExt};

use nearside::engine::memory::{MemoryFeed, MemoryStore};
use nearside::engine::{
    EngineError, Feed, FeedBatch, FeedShard, Item, ItemKey, ItemWrite, Page, Position, ScanSegment, ShardId, Stream,
    Table, Tables, Topic, WriteError, bucket,
};
use nearside::model::time::{Clock, Wall};
use nearside::protocol::announcement::decode;

use super::check::Shared;
use super::deliveries::Deliveries;
use super::plan::between;

/// Home, or a region by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Home,
    Region(usize),
}

/// A store whose writes the checker sees, each with what was there before.
#[derive(Clone)]
pub(crate) struct Watched {
    pub(crate) store: MemoryStore,
    pub(crate) place: Place,
    pub(crate) checker: Shared,
}

impl Tables for Watched {
    fn get<'a>(&'a self, table: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        async move {
            let item = self.store.get(table, key).await;
            if table == Table::Contexts {
                // What a read finds was so a moment before it is reported.
                let delay = between(Duration::from_millis(1), Duration::from_millis(12));
                tokio::time::sleep(delay).await;
            }
            item
        }
        .boxed()
    }

    fn write(&self, writes: Vec<ItemWrite>) -> BoxFuture<'_, Result<(), WriteError>> {
        async move {
            // Nothing in here waits, so nothing comes between.
            let mut before = Vec::with_capacity(writes.len());
            for write in &writes {
                before.push(self.store.get(write.table(), write.key()).await?);
            }
            self.store.write(writes.clone()).await?;
            let mut checker = self.checker.lock();
            for (write, before) in writes.iter().zip(&before) {
                checker.wrote(self.place, write, before.as_ref(), &self.store);
            }
            Ok(())
        }
        .boxed()
    }

    fn query<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, EngineError>> {
        self.store.query(table, partition, after, limit)
    }

    fn last<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        through: &'a str,
    ) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.store.last(table, partition, through)
    }

    fn scan(
        &self,
        table: Table,
        segment: ScanSegment,
        after: Option<ItemKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, EngineError>> {
        // A small page, so that much can happen during a scan.
        self.store.scan(table, segment, after, limit.min(7))
    }
}

/// A stream that leaves changes out for all its readers, takes its time, and may split its shard.
#[derive(Clone)]
pub(crate) struct StreamFeed {
    pub(crate) feed: MemoryFeed,
    pub(crate) stream: Stream,
    pub(crate) checker: Shared,
    /// The number of changes after which the first shard ended, and two others began.
    pub(crate) split: Arc<Mutex<Option<u64>>>,
}

const PARENT: &str = "shard-0";
const CHILDREN: [&str; 2] = ["shard-1", "shard-2"];

impl StreamFeed {
    fn split(&self) -> Option<u64> {
        *self.split.lock().expect("a plain store")
    }

    fn children() -> Vec<FeedShard> {
        let child =
            |name: &str| FeedShard { id: ShardId(name.to_owned()), parents: vec![ShardId(PARENT.to_owned())] };
        CHILDREN.iter().map(|name| child(name)).collect()
    }

    /// Changes that a read returns at once.
    async fn read(&self, shard: &str, from: Position) -> Result<FeedBatch, EngineError> {
        let from = match (self.split(), &from) {
            (Some(split), Position::Oldest) if shard != PARENT => Position::After(split.to_string()),
            _ => from,
        };
        let mut batch =
            self.feed.open(&ShardId(PARENT.to_owned()), from).next().await.expect("it says at least this")?;
        let Position::After(next) = &batch.next else { return Ok(batch) };
        let next: u64 = next.parse().expect("the memory engine's positions are numbers");
        let first = next - batch.changes.len() as u64;
        let numbered = std::mem::take(&mut batch.changes).into_iter().zip(first + 1..);
        let split = self.split().unwrap_or(u64::MAX);
        let is_parent = shard == PARENT;
        let checker = self.checker.lock();
        let kept = numbered.filter(|(change, number)| {
            if is_parent {
                *number <= split
            } else {
                *number > split && CHILDREN[usize::from(bucket::part(&change.key.sort, 2))] == shard
            }
        });
        let kept = kept.map(|(change, _)| change).filter(|change| !checker.is_skipped(self.stream, change));
        batch.changes = kept.collect();
        if is_parent && next >= split {
            batch.ended = Some(Self::children());
            batch.next = Position::After(split.to_string());
        }
        Ok(batch)
    }
}

impl Feed for StreamFeed {
    fn shards(&self) -> BoxFuture<'_, Result<Vec<FeedShard>, EngineError>> {
        let parent = FeedShard { id: ShardId(PARENT.to_owned()), parents: Vec::new() };
        let mut shards = vec![parent];
        if self.split().is_some() {
            shards.extend(Self::children());
        }
        std::future::ready(Ok(shards)).boxed()
    }

    fn open(&self, shard: &ShardId, from: Position) -> BoxStream<'static, Result<FeedBatch, EngineError>> {
        let state = (self.clone(), shard.0.clone(), Some(from));
        stream::unfold(state, |(feed, shard, from)| async move {
            let from = from?;
            let mut quiet = Duration::ZERO;
            loop {
                let pause = Duration::from_millis(fastrand::u64(50..400));
                tokio::time::sleep(pause).await;
                quiet += pause;
                match feed.read(&shard, from.clone()).await {
                    Err(error) => return Some((Err(error), (feed, shard, None))),
                    Ok(batch) if !batch.changes.is_empty() || batch.ended.is_some() || quiet.as_millis() > 1_000 => {
                        let next = batch.ended.is_none().then(|| batch.next.clone());
                        return Some((Ok(batch), (feed, shard, next)));
                    }
                    Ok(_) => {}
                }
            }
        })
        .boxed()
    }
}

/// A region's topic; each subscriber receives all of it.
#[derive(Clone)]
pub(crate) struct WorldTopic {
    pub(crate) region: usize,
    pub(crate) own: MemoryStore,
    pub(crate) checker: Shared,
    pub(crate) clock: Clock,
    pub(crate) deliveries: Arc<Deliveries>,
}

impl Topic for WorldTopic {
    fn publish(&self, messages: Vec<String>) -> BoxFuture<'_, Result<Vec<usize>, EngineError>> {
        let mut checker = self.checker.lock();
        for message in messages {
            self.deliveries.publish(&message, self.clock.wall());
            match decode(&message) {
                Ok(announcement) => checker.announced(self.region, &announcement, &self.own),
                Err(_) => checker.violated("Decoded", "a region announces what nobody can read".to_owned()),
            }
        }
        std::future::ready(Ok(Vec::new())).boxed()
    }
}

/// The calendar when a simulation starts.
pub(crate) const EPOCH: Wall = Wall::from_millis(1_800_000_000_000);
