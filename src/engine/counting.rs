//! Counts what a region's ingester asks of its tables and its topic: on AWS, each is a call, and
//! costs something.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::{BoxFuture, FutureExt};

use super::delegate_tables;
use super::{EngineError, Item, ItemKey, ItemWrite, Page, ScanSegment, Table, Tables, Topic, WriteError};

/// A write unit of DynamoDB, in bytes.
const UNIT_BYTES: usize = 1024;

/// Number of calls of each kind; clones share it.
#[derive(Clone, Debug, Default)]
pub struct CallCounts {
    shared: Arc<SharedCounts>,
}

#[derive(Debug, Default)]
struct SharedCounts {
    puts: AtomicU64,
    region_writes: AtomicU64,
    reads: AtomicU64,
    publishes: AtomicU64,
    messages: AtomicU64,
    units: AtomicU64,
}

/// Calls of each kind up to one moment, or between two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Writes of views into the region's table.
    pub puts: u64,
    /// Writes of positions and the lease.
    pub region_writes: u64,
    /// Reads of any kind, home's and the region's.
    pub reads: u64,
    /// Calls to SNS, and the messages in them.
    pub publishes: u64,
    pub messages: u64,
    /// Write units that DynamoDB charges for all writes.
    pub units: u64,
}

impl CallCounts {
    pub fn now(&self) -> Calls {
        let SharedCounts { puts, region_writes, reads, publishes, messages, units } = &*self.shared;
        let [puts, region_writes, reads, publishes, messages, units] =
            [puts, region_writes, reads, publishes, messages, units].map(|count| count.load(Ordering::Relaxed));
        Calls { puts, region_writes, reads, publishes, messages, units }
    }

    fn wrote(&self, writes: &[ItemWrite]) {
        let is_put = writes.iter().any(|write| write.table() == Table::Contexts);
        let count = if is_put { &self.shared.puts } else { &self.shared.region_writes };
        count.fetch_add(1, Ordering::Relaxed);
        self.shared.units.fetch_add(units(writes), Ordering::Relaxed);
    }

    fn read(&self) {
        self.shared.reads.fetch_add(1, Ordering::Relaxed);
    }
}

impl Calls {
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            puts: self.puts - before.puts,
            region_writes: self.region_writes - before.region_writes,
            reads: self.reads - before.reads,
            publishes: self.publishes - before.publishes,
            messages: self.messages - before.messages,
            units: self.units - before.units,
        }
    }

    #[must_use]
    pub const fn and(self, more: Self) -> Self {
        Self {
            puts: self.puts + more.puts,
            region_writes: self.region_writes + more.region_writes,
            reads: self.reads + more.reads,
            publishes: self.publishes + more.publishes,
            messages: self.messages + more.messages,
            units: self.units + more.units,
        }
    }
}

/// One for each KiB that was begun, two of them in a transaction.
fn units(writes: &[ItemWrite]) -> u64 {
    let together = if writes.len() > 1 { 2 } else { 1 };
    writes
        .iter()
        .map(|write| match write {
            ItemWrite::Put(_, item, _) => item.weight().div_ceil(UNIT_BYTES) as u64,
            ItemWrite::Delete(..) | ItemWrite::Check(..) => 1,
        })
        .sum::<u64>()
        * together
}

/// A table or a topic whose calls are counted.
#[derive(Clone)]
pub struct Counting<T> {
    pub inner: T,
    pub counts: CallCounts,
}

impl<S: Tables> Tables for Counting<S> {
    delegate_tables!(inner: skipped, writes_at_once);

    fn get<'a>(&'a self, table: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.counts.read();
        self.inner.get(table, key)
    }

    fn write(&self, writes: Vec<ItemWrite>) -> BoxFuture<'_, Result<(), WriteError>> {
        self.counts.wrote(&writes);
        self.inner.write(writes)
    }

    fn query<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, EngineError>> {
        self.counts.read();
        self.inner.query(table, partition, after, limit)
    }

    fn last<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        through: &'a str,
    ) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.counts.read();
        self.inner.last(table, partition, through)
    }

    fn scan(
        &self,
        table: Table,
        segment: ScanSegment,
        after: Option<ItemKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, EngineError>> {
        self.counts.read();
        self.inner.scan(table, segment, after, limit)
    }
}

impl Topic for Counting<Arc<dyn Topic>> {
    fn publish(&self, messages: Vec<String>) -> BoxFuture<'_, Result<Vec<usize>, EngineError>> {
        self.counts.shared.publishes.fetch_add(1, Ordering::Relaxed);
        self.counts.shared.messages.fetch_add(messages.len() as u64, Ordering::Relaxed);
        self.inner.publish(messages)
    }
}

/// A topic that takes everything at once.
#[derive(Clone, Copy, Debug)]
pub struct TakesAll;

impl Topic for TakesAll {
    fn publish(&self, _: Vec<String>) -> BoxFuture<'_, Result<Vec<usize>, EngineError>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Condition;
    use crate::engine::memory::MemoryStore;
    use crate::model::time::Clock;

    fn put(table: Table, bytes: usize) -> ItemWrite {
        ItemWrite::Put(table, Item::new(ItemKey::new("p", "s"), 1).with_body(vec![b'x'; bytes]), Condition::Any)
    }

    #[tokio::test]
    async fn calls_are_counted_in_dynamodb_units() {
        let counts = CallCounts::default();
        let tables = Counting { inner: MemoryStore::new(Clock::System), counts: counts.clone() };
        let topic: Arc<dyn Topic> = Arc::new(TakesAll);
        let topic = Counting { inner: topic, counts: counts.clone() };
        let before = counts.now();
        tables.write(vec![put(Table::Contexts, 1_000)]).await.unwrap();
        tables.write(vec![put(Table::Region, 10), put(Table::Mapping, 10)]).await.unwrap();
        tables.get(Table::Region, &ItemKey::new("p", "s")).await.unwrap();
        topic.publish(vec![String::new(); 10]).await.unwrap();
        let seen = counts.now().since(before);
        let wanted = Calls { puts: 1, region_writes: 1, reads: 1, publishes: 1, messages: 10, units: 2 + 2 * 2 };
        assert_eq!(seen, wanted);
        assert_eq!(seen.and(seen).since(seen), seen);
    }
}
