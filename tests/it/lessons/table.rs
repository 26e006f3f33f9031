//! A region's table as one node sees it: its reads are counted by key, and may take their time.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use nearside::engine::faulty::Faulty;
use nearside::engine::memory::MemoryStore;
use nearside::engine::{EngineError, Item, ItemKey, ItemWrite, Page, ScanSegment, Table, Tables, WriteError};

pub(super) struct WatchedTable {
    table: Faulty<Faulty<MemoryStore>>,
    /// Milliseconds that each read takes, drawn evenly; the same for all nodes of a region.
    latency: Latency,
    reads: Mutex<BTreeMap<String, u64>>,
    failed: AtomicU64,
}

/// Shared, so that a test can change it.
pub(super) type Latency = Arc<Mutex<RangeInclusive<u64>>>;

impl WatchedTable {
    pub(super) fn new(table: Faulty<Faulty<MemoryStore>>, latency: Latency) -> Arc<Self> {
        Arc::new(Self { table, latency, reads: Mutex::default(), failed: AtomicU64::new(0) })
    }

    /// Reads by key since the last call.
    pub(super) fn reads(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.reads.lock().unwrap())
    }

    /// Those that failed, so far.
    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

impl Tables for WatchedTable {
    fn get<'a>(&'a self, table: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        if table == Table::Contexts {
            *self.reads.lock().unwrap().entry(key.sort.clone()).or_default() += 1;
        }
        let latency = Duration::from_millis(fastrand::u64(self.latency.lock().unwrap().clone()));
        async move {
            if !latency.is_zero() {
                tokio::time::sleep(latency).await;
            }
            let read = self.table.get(table, key).await;
            self.failed.fetch_add(u64::from(read.is_err()), Ordering::Relaxed);
            read
        }
        .boxed()
    }

    fn write(&self, writes: Vec<ItemWrite>) -> BoxFuture<'_, Result<(), WriteError>> {
        self.table.write(writes)
    }

    fn query<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, EngineError>> {
        self.table.query(table, partition, after, limit)
    }

    fn last<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        through: &'a str,
    ) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.table.last(table, partition, through)
    }

    fn scan(
        &self,
        table: Table,
        segment: ScanSegment,
        after: Option<ItemKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, EngineError>> {
        self.table.scan(table, segment, after, limit)
    }
}
