//! Faults of real engines, put around any of them: calls that fail, take long, or fail after they
//! took place; a feed that repeats, reorders, splits and skips. What happens is drawn from
//! `fastrand`, so that a seed gives the same run again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, ready};
use futures_util::stream::{self, BoxStream, StreamExt};
use parking_lot::Mutex;

use super::delegate_tables;
use super::{
    Change, EngineError, Feed, FeedBatch, FeedShard, Item, ItemKey, ItemWrite, Page, Position, ScanSegment, ShardId,
    Table, Tables, Topic, WriteError,
};

/// Faults injected now; shared with the test that sets them.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    state: Arc<Mutex<FaultRates>>,
}

/// Probability of each fault, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultRates {
    /// A call fails and does nothing.
    pub fails: f64,
    /// A call is throttled.
    pub throttles: f64,
    /// A write takes place, and its caller hears that it failed.
    pub loses_answers: f64,
    /// A call takes [`FaultRates::slowness`] more.
    pub is_slow: f64,
    pub slowness: Duration,
    /// A change comes twice, the second time later.
    pub repeats: f64,
    /// Changes of one batch come in another order.
    pub reorders: f64,
    /// A change is left out of the feed for ever.
    pub skips: f64,
    /// Changes that were written together come in several batches.
    pub splits: f64,
    /// A message is refused by the topic while others of its call are taken.
    pub refuses: f64,
}

impl Faults {
    pub fn set(&self, rates: FaultRates) {
        *self.state.lock() = rates;
    }

    pub fn get(&self) -> FaultRates {
        *self.state.lock()
    }

    /// Takes its time, on the way there or on the way back, and perhaps fails.
    async fn call<T, E: From<EngineError>>(
        &self,
        what: &str,
        call: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        let rates = self.get();
        let slowness = if draw(rates.is_slow) { rates.slowness } else { Duration::ZERO };
        // What comes back late may no longer be so.
        let comes_late = !slowness.is_zero() && fastrand::bool();
        if !comes_late && !slowness.is_zero() {
            tokio::time::sleep(slowness).await;
        }
        if draw(rates.throttles) {
            return Err(EngineError::Throttled { what: what.to_owned() }.into());
        }
        if draw(rates.fails) {
            let why = "a planted fault".to_owned();
            return Err(EngineError::Unavailable { what: what.to_owned(), why }.into());
        }
        let answer = call.await;
        if comes_late {
            tokio::time::sleep(slowness).await;
        }
        answer
    }
}

fn draw(rate: f64) -> bool {
    rate > 0.0 && fastrand::f64() < rate
}

/// A store, a feed or a topic with faults.
#[derive(Clone)]
pub struct Faulty<T> {
    pub inner: T,
    pub faults: Faults,
}

impl<T> Faulty<T> {
    pub const fn new(inner: T, faults: Faults) -> Self {
        Self { inner, faults }
    }
}

impl<S: Tables> Tables for Faulty<S> {
    delegate_tables!(inner: skipped, writes_at_once);

    fn get<'a>(&'a self, table: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.faults.call("GetItem", self.inner.get(table, key)).boxed()
    }

    fn write(&self, writes: Vec<ItemWrite>) -> BoxFuture<'_, Result<(), WriteError>> {
        async move {
            self.faults.call("TransactWriteItems", self.inner.write(writes)).await?;
            if draw(self.faults.get().loses_answers) {
                let why = "the answer was lost".to_owned();
                Err(EngineError::Unavailable { what: "TransactWriteItems".to_owned(), why }.into())
            } else {
                Ok(())
            }
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
        self.faults.call("Query", self.inner.query(table, partition, after, limit)).boxed()
    }

    fn last<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        through: &'a str,
    ) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.faults.call("Query", self.inner.last(table, partition, through)).boxed()
    }

    fn scan(
        &self,
        table: Table,
        segment: ScanSegment,
        after: Option<ItemKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, EngineError>> {
        self.faults.call("Scan", self.inner.scan(table, segment, after, limit)).boxed()
    }
}

impl<F: Feed + Clone> Feed for Faulty<F> {
    fn shards(&self) -> BoxFuture<'_, Result<Vec<FeedShard>, EngineError>> {
        self.faults.call("ListShards", self.inner.shards()).boxed()
    }

    fn open(&self, shard: &ShardId, from: Position) -> BoxStream<'static, Result<FeedBatch, EngineError>> {
        let state = (self.inner.open(shard, from.clone()), self.faults.clone(), Vec::new(), from);
        stream::unfold(state, |(mut inner, faults, late, from)| async move {
            if let Err(error) = faults.call("SubscribeToShard", ready(Ok(()))).await {
                return Some((Err(error), (inner, faults, late, from)));
            }
            let batch = inner.next().await?;
            let Ok(batch) = batch else { return Some((batch, (inner, faults, late, from))) };
            let (batch, late) = spoiled(batch, late, &from, faults.get());
            let next = batch.next.clone();
            Some((Ok(batch), (inner, faults, late, next)))
        })
        .boxed()
    }
}

/// The batch as an unreliable feed brings it, and what it repeats later. What it holds back of the
/// batch's own changes comes late in every sense, so it does not say that it got that far.
fn spoiled(
    mut batch: FeedBatch,
    mut late: Vec<Change>,
    before: &Position,
    rates: FaultRates,
) -> (FeedBatch, Vec<Change>) {
    let mut changes = std::mem::take(&mut late);
    for change in batch.changes.drain(..) {
        if draw(rates.skips) {
            continue;
        }
        if draw(rates.repeats) {
            late.push(change.clone());
        }
        changes.push(change);
    }
    if draw(rates.reorders) {
        fastrand::shuffle(&mut changes);
    }
    if changes.len() > 1 && draw(rates.splits) {
        // The other half comes with the next batch; a reader that stops between reads both again.
        let rest = changes.split_off(changes.len() / 2);
        let through = rest.iter().map(|change| change.written.as_millis()).min().unwrap_or_default();
        let short = crate::model::time::Wall::from_millis(through.saturating_sub(1));
        batch.through = batch.through.map(|through| through.min(short));
        batch.next = before.clone();
        // A shard does not end before its last half has been read.
        batch.ended = None;
        late.extend(rest);
    }
    batch.changes = changes;
    (batch, late)
}

impl<T: Topic> Topic for Faulty<T> {
    fn publish(&self, messages: Vec<String>) -> BoxFuture<'_, Result<Vec<usize>, EngineError>> {
        let publish = async move {
            let refuses = self.faults.get().refuses;
            let (mut taken, mut refused) = (Vec::new(), Vec::new());
            for (place, message) in messages.into_iter().enumerate() {
                if draw(refuses) { refused.push(place) } else { taken.push(message) }
            }
            if !taken.is_empty() {
                self.inner.publish(taken).await?;
            }
            Ok(refused)
        };
        self.faults.call("PublishBatch", publish).boxed()
    }
}
