//! Progress of a comparison. Its tables are counted as they are read, so what compares need not
//! know that somebody watches.

use std::convert::Infallible;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};

use crate::app::limits::{VERIFY_LINE_EVERY, VERIFY_SHOW_EVERY};
use crate::engine::delegate_tables;
use crate::engine::{EngineError, Item, ItemKey, Page, Table, Tables};
use crate::model::time::{Clock, Moment};

/// Display of the progress, on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyShown {
    /// One line, written over.
    OnTerminal,
    /// A line now and then.
    AsLines,
}

/// Clones count together.
#[derive(Clone)]
pub(super) struct VerifyProgress {
    counts: Arc<ReadCounts>,
    /// Number of buckets of views.
    buckets: u64,
    clock: Clock,
    began: Moment,
}

/// Calls so far, and the items that they read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reads {
    calls: u64,
    items: u64,
}

#[derive(Default)]
struct ReadCounts {
    /// Buckets of records that were begun.
    begun: AtomicU64,
    calls: AtomicU64,
    items: AtomicU64,
}

impl VerifyProgress {
    pub(super) fn new(buckets: usize, clock: Clock) -> Self {
        Self { counts: Arc::default(), buckets: buckets as u64, began: clock.now(), clock }
    }

    /// Wraps tables so that reads are counted.
    pub(super) fn counting(&self, tables: Arc<dyn Tables>) -> Arc<dyn Tables> {
        Arc::new(CountedTables { tables, counts: self.counts.clone() })
    }

    /// Tells for as long as it is polled.
    pub(super) async fn tell(&self, shown: VerifyShown) -> Infallible {
        let (every, start, end) = match shown {
            VerifyShown::OnTerminal => (VERIFY_SHOW_EVERY, "\r\x1b[K", ""),
            VerifyShown::AsLines => (VERIFY_LINE_EVERY, "", "\n"),
        };
        let mut before = Reads::default();
        // Whatever ends the comparison takes the line away.
        let _erased = if shown == VerifyShown::OnTerminal { Some(Erased) } else { None };
        loop {
            tokio::time::sleep(every).await;
            let now = self.counts.now();
            let line = self.line(before, now, every);
            before = now;
            // If standard error is closed, nobody is left to tell.
            let mut err = std::io::stderr().lock();
            let _ = write!(err, "{start}{line}{end}").and_then(|()| err.flush());
        }
    }

    fn line(&self, before: Reads, now: Reads, every: Duration) -> String {
        let begun = self.counts.begun.load(Ordering::Relaxed).min(self.buckets);
        let rate = |more: u64| more as f64 / every.as_secs_f64();
        let (reads, records) = (rate(now.calls - before.calls), rate(now.items - before.items));
        let took = humantime::format_duration(Duration::from_secs(self.clock.now().since(self.began).as_secs()));
        format!(
            "{begun} of {} buckets of views, {} items in {} reads, {records:.0} items in {reads:.0} reads a second, {took}",
            self.buckets, now.items, now.calls
        )
    }
}

impl ReadCounts {
    fn now(&self) -> Reads {
        Reads { calls: self.calls.load(Ordering::Relaxed), items: self.items.load(Ordering::Relaxed) }
    }
}

/// Leaves the terminal's line empty.
struct Erased;

impl Drop for Erased {
    fn drop(&mut self) {
        // If standard error is closed, nobody is left to tell.
        let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
    }
}

struct CountedTables {
    tables: Arc<dyn Tables>,
    counts: Arc<ReadCounts>,
}

impl CountedTables {
    fn read(&self, items: usize) {
        self.counts.calls.fetch_add(1, Ordering::Relaxed);
        self.counts.items.fetch_add(items as u64, Ordering::Relaxed);
    }
}

impl Tables for CountedTables {
    delegate_tables!(tables: skipped, writes_at_once, write, last, scan);

    fn get<'a>(&'a self, table: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.read(1);
        self.tables.get(table, key)
    }

    fn query<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, EngineError>> {
        if table == Table::Records && after.is_none() {
            self.counts.begun.fetch_add(1, Ordering::Relaxed);
        }
        let page = self.tables.query(table, partition, after, limit);
        page.inspect(|page| self.read(page.as_ref().map_or(0, |page| page.items.len()))).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::memory::MemoryStore;
    use crate::engine::{Condition, ItemWrite, bucket};

    #[tokio::test]
    async fn reads_advance_comparison_progress() {
        let clock = Clock::System;
        let (store, progress) = (MemoryStore::new(clock.clone()), VerifyProgress::new(256, clock));
        let puts = ["a", "b"].map(|key| {
            let item = Item::new(ItemKey::new(bucket::of("tenant", 0), key), 1);
            ItemWrite::Put(Table::Records, item, Condition::Any)
        });
        store.write(puts.into()).await.unwrap();
        let tables = progress.counting(Arc::new(store));
        let partition = bucket::of("tenant", 0);
        for after in [None, Some("a")] {
            tables.query(Table::Records, &partition, after, 10).await.unwrap();
        }
        tables.get(Table::Views, &ItemKey::new("v", "a")).await.unwrap();
        assert_eq!(progress.counts.now(), Reads { calls: 3, items: 2 + 1 + 1 });
        let line = progress.line(Reads { calls: 1, items: 0 }, progress.counts.now(), Duration::from_secs(2));
        let reported = "1 of 256 buckets of views, 4 items in 3 reads, 2 items in 1 reads a second, ";
        assert!(line.starts_with(reported), "{line}");
    }
}
