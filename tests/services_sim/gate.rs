//! Between a process and the world: it can be killed after any call, and paused, while its timers
//! and leases go on.

use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, BoxStream, StreamExt};
use tokio::sync::Notify;
use tokio::time::Instant;

use nearside::engine::{
    EngineError, Feed, FeedBatch, FeedShard, Item, ItemKey, ItemWrite, Page, Position, ScanSegment, ShardId, Table,
    Tables, Topic, WriteError,
};

/// One life of one process.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    died: Notify,
}

#[derive(Default)]
struct GateState {
    is_dead: bool,
    /// It dies when it has made so many more calls; what the last one did stands.
    calls_left: Option<u64>,
    paused_until: Option<Instant>,
}

impl Gate {
    pub(crate) fn dying_after(calls: Option<u64>) -> Arc<Self> {
        let state = GateState { calls_left: calls, ..GateState::default() };
        Arc::new(Self { state: Mutex::new(state), died: Notify::new() })
    }

    fn locked(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().expect("a few plain stores")
    }

    pub(crate) fn kill(&self) {
        self.locked().is_dead = true;
        self.died.notify_waiters();
    }

    pub(crate) fn pause(&self, until: Instant) {
        self.locked().paused_until = Some(until);
    }

    /// No more deaths and pauses.
    pub(crate) fn spare(&self) {
        let mut state = self.locked();
        (state.calls_left, state.paused_until) = (None, None);
    }

    pub(crate) async fn dead(&self) {
        loop {
            let died = self.died.notified();
            if self.locked().is_dead {
                return;
            }
            died.await;
        }
    }

    /// Waits while it is paused, and for ever once it is dead.
    pub(crate) async fn awake(&self) {
        loop {
            let until = {
                let state = self.locked();
                if state.is_dead { None } else { Some(state.paused_until) }
            };
            match until {
                None => std::future::pending().await,
                Some(Some(until)) if until > Instant::now() => tokio::time::sleep_until(until).await,
                Some(_) => return,
            }
        }
    }

    pub(crate) async fn pass<T>(&self, call: impl Future<Output = T>) -> T {
        self.awake().await;
        let answer = call.await;
        let dies = {
            let mut state = self.locked();
            state.calls_left = state.calls_left.map(|left| left.saturating_sub(1));
            state.calls_left == Some(0)
        };
        if dies {
            self.kill();
        }
        self.awake().await;
        answer
    }
}

/// A process's access to the world.
#[derive(Clone)]
pub(crate) struct Gated<T> {
    pub(crate) inner: T,
    pub(crate) gate: Arc<Gate>,
}

impl<T> Gated<T> {
    pub(crate) fn new(inner: T, gate: &Arc<Gate>) -> Arc<Self> {
        Arc::new(Self { inner, gate: gate.clone() })
    }
}

impl<S: Tables> Tables for Gated<S> {
    fn get<'a>(&'a self, table: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.gate.pass(self.inner.get(table, key)).boxed()
    }

    fn write(&self, writes: Vec<ItemWrite>) -> BoxFuture<'_, Result<(), WriteError>> {
        self.gate.pass(self.inner.write(writes)).boxed()
    }

    fn query<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, EngineError>> {
        self.gate.pass(self.inner.query(table, partition, after, limit)).boxed()
    }

    fn last<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        through: &'a str,
    ) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.gate.pass(self.inner.last(table, partition, through)).boxed()
    }

    fn scan(
        &self,
        table: Table,
        segment: ScanSegment,
        after: Option<ItemKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, EngineError>> {
        self.gate.pass(self.inner.scan(table, segment, after, limit)).boxed()
    }
}

impl<F: Feed> Feed for Gated<F> {
    fn shards(&self) -> BoxFuture<'_, Result<Vec<FeedShard>, EngineError>> {
        self.gate.pass(self.inner.shards()).boxed()
    }

    fn open(&self, shard: &ShardId, from: Position) -> BoxStream<'static, Result<FeedBatch, EngineError>> {
        let state = (self.inner.open(shard, from), self.gate.clone());
        stream::unfold(state, |(mut inner, gate)| async move {
            let batch = gate.pass(inner.next()).await?;
            Some((batch, (inner, gate)))
        })
        .boxed()
    }
}

impl<T: Topic> Topic for Gated<T> {
    fn publish(&self, messages: Vec<String>) -> BoxFuture<'_, Result<Vec<usize>, EngineError>> {
        self.gate.pass(self.inner.publish(messages)).boxed()
    }
}
