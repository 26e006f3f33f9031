//! A feed that brings everything late by a region's lag: whole batches, so that the time through
//! which they were read is late too, and the region claims no more than it has.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use nearside::engine::{EngineError, Feed, FeedBatch, FeedShard, Position, ShardId};
use nearside::model::time::{Clock, Moment, Wall};
use tokio::sync::watch;

use crate::chaos_server::knobs::Knobs;
use crate::limits;

pub(super) struct LateFeed {
    pub(super) feed: Arc<dyn Feed>,
    pub(super) knobs: watch::Receiver<Knobs>,
    pub(super) clock: Clock,
    /// Nobody reads from before this: a reader's first scan has it. On one machine there are no
    /// clocks that differ, for which readers begin earlier.
    pub(super) not_before: Wall,
}

impl Feed for LateFeed {
    fn shards(&self) -> BoxFuture<'_, Result<Vec<FeedShard>, EngineError>> {
        self.feed.shards()
    }

    fn open(&self, shard: &ShardId, from: Position) -> BoxStream<'static, Result<FeedBatch, EngineError>> {
        let from = match from {
            Position::At(at) => Position::At(at.max(self.not_before)),
            known => known,
        };
        let late = Late {
            batches: Some(self.feed.open(shard, from)),
            waiting: VecDeque::new(),
            knobs: self.knobs.clone(),
            clock: self.clock.clone(),
        };
        stream::unfold(late, |mut late| async { late.next().await.map(|batch| (batch, late)) }).boxed()
    }
}

type Batch = Result<FeedBatch, EngineError>;

struct Late {
    /// `None` at its end.
    batches: Option<BoxStream<'static, Batch>>,
    /// With when they came.
    waiting: VecDeque<(Moment, Batch)>,
    knobs: watch::Receiver<Knobs>,
    clock: Clock,
}

impl Late {
    async fn next(&mut self) -> Option<Batch> {
        loop {
            let lag = self.knobs.borrow_and_update().lag;
            let due = self.waiting.front().map(|(came, _)| *came + lag);
            let now = self.clock.now();
            if due.is_some_and(|due| now >= due) {
                return self.waiting.pop_front().map(|(_, batch)| batch);
            }
            if due.is_none() && self.batches.is_none() {
                return None;
            }
            let has_room = self.waiting.len() < limits::LATE_BATCHES;
            let came = async {
                match &mut self.batches {
                    Some(batches) if has_room => batches.next().await,
                    _ => std::future::pending().await,
                }
            };
            let ripe = async {
                match due {
                    Some(due) => tokio::time::sleep(due - now).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                batch = came => match batch {
                    Some(batch) => self.waiting.push_back((self.clock.now(), batch)),
                    None => self.batches = None,
                },
                () = ripe => {}
                // An error means that the server is gone, and then the lag stays as it is.
                Ok(()) = self.knobs.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::chaos_server::chaos::{Latency, Mode};
    use nearside::engine::memory::MemoryStore;
    use nearside::engine::{Condition, Item, ItemKey, ItemWrite, Stream, Table, Tables};

    const HOUR: Duration = Duration::from_secs(3600);

    fn knobs(lag: Duration) -> Knobs {
        Knobs { mode: Mode::Healthy, latency: Latency::millis(0, 0), lag, held: false }
    }

    async fn write(store: &MemoryStore, version: u64) {
        let item = Item::new(ItemKey::new("limits#00", "k"), version);
        store.write(vec![ItemWrite::Put(Table::Views, item, Condition::Any)]).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn whole_batch_waits_until_lag_ends() {
        let clock = Clock::simulated(Wall::from_millis(1_000_000));
        let store = MemoryStore::new(clock.clone());
        write(&store, 1).await;
        let reported = watch::Sender::new(knobs(Duration::from_secs(3)));
        let feed = LateFeed {
            feed: Arc::new(store.feed(Stream::Views)),
            knobs: reported.subscribe(),
            clock: clock.clone(),
            not_before: Wall::from_millis(0),
        };
        let shard = feed.shards().await.unwrap().remove(0).id;
        let mut batches = feed.open(&shard, Position::Oldest);
        let began = clock.now();
        let first = batches.next().await.unwrap().unwrap();
        assert_eq!((first.changes.len(), clock.now() - began), (1, Duration::from_secs(3)));
        assert!(
            first.through.is_some_and(|through| clock.wall().since(through) >= Duration::from_secs(3)),
            "it claims no more than it has"
        );

        reported.send_modify(|knobs| knobs.lag = HOUR);
        write(&store, 2).await;
        let change = async { while batches.next().await.unwrap().unwrap().changes.is_empty() {} };
        let mut change = std::pin::pin!(change);
        assert!(tokio::time::timeout(HOUR / 2, &mut change).await.is_err());
        reported.send_modify(|knobs| knobs.lag = Duration::ZERO);
        let healed = clock.now();
        change.await;
        assert!(clock.now() - healed < Duration::from_millis(10));
    }

    #[tokio::test]
    async fn changes_before_first_scan_are_unread() {
        let store = MemoryStore::new(Clock::System);
        write(&store, 1).await;
        let not_before = Clock::System.wall() + Duration::from_millis(1);
        let feed = LateFeed {
            feed: Arc::new(store.feed(Stream::Views)),
            knobs: watch::Sender::new(knobs(Duration::ZERO)).subscribe(),
            clock: Clock::System,
            not_before,
        };
        let shard = feed.shards().await.unwrap().remove(0).id;
        let mut batches = feed.open(&shard, Position::At(Wall::from_millis(0)));
        assert!(batches.next().await.unwrap().unwrap().changes.is_empty());
    }
}
