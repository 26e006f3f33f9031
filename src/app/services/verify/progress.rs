//! How far a comparison is. Its tables are counted as they are read, so what compares need not know
//! that somebody watches.

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

/// How it is shown, on standard error.
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
    /// How many buckets of views there are.
    buckets: u64,
    clock: Clock,
    began: Moment,
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

    /// The same tables, counted.
    pub(super) fn counting(&self, tables: Arc<dyn Tables>) -> Arc<dyn Tables> {
        Arc::new(CountedTables { tables, counts: self.counts.clone() })
    }

    /// Tells for as long as it is polled.
    pub(super) async fn tell(&self, shown: VerifyShown) -> Infallible {
        let (every, start, end) = match shown {
            VerifyShown::OnTerminal => (VERIFY_SHOW_EVERY, "\r\x1b[K", ""),
            VerifyShown::AsLines => (VERIFY_LINE_EVERY, "", "\n"),
        };
        let mut before = (0, 0);
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

    fn line(&self, (calls, items): (u64, u64), now: (u64, u64), every: Duration) -> String {
        let begun = self.counts.begun.load(Ordering::Relaxed).min(self.buckets);
        let rate = |more: u64| more as f64 / every.as_secs_f64();
        let (reads, records) = (rate(now.0 - calls), rate(now.1 - items));
        let took = humantime::format_duration(Duration::from_secs(self.clock.now().since(self.began).as_secs()));
        format!(
            "{begun} of {} buckets of views, {} items in {} reads, {records:.0} items in {reads:.0} reads a second, {took}",
            self.buckets, now.1, now.0
        )
    }
}

impl ReadCounts {
    /// Calls and items.
    fn now(&self) -> (u64, u64) {
        (self.calls.load(Ordering::Relaxed), self.items.load(Ordering::Relaxed))
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
    delegate_tables!(tables: passed_over, writes_at_once, write, scan);

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
    async fn what_is_read_shows_how_far_a_comparison_is() {
        let clock = Clock::System;
        let (store, progress) = (MemoryStore::new(clock.clone()), VerifyProgress::new(256, clock));
        let put = |key: &str| {
            let item = Item::new(ItemKey::new(bucket::of("tenant", 0), key), 1);
            ItemWrite::Put(Table::Records, item, Condition::Any)
        };
        store.write(vec![put("a"), put("b")]).await.unwrap();
        let tables = progress.counting(Arc::new(store));
        let partition = bucket::of("tenant", 0);
        for after in [None, Some("a")] {
            tables.query(Table::Records, &partition, after, 10).await.unwrap();
        }
        tables.get(Table::Views, &ItemKey::new("v", "a")).await.unwrap();
        assert_eq!(progress.counts.now(), (3, 2 + 1 + 1));
        let line = progress.line((1, 0), progress.counts.now(), Duration::from_secs(2));
        let told = "1 of 256 buckets of views, 4 items in 3 reads, 2 items in 1 reads a second, ";
        assert!(line.starts_with(told), "{line}");
    }
}
