//! The catalogue: it owns the records, is the only one who writes them, and gives each change its
//! version. Reads are strongly consistent. [`api`] serves it over HTTP.
//!
//! A version is the greater of the last one plus 1 and the time in Unix milliseconds, given in the
//! write's own condition: it only grows, and a table that was lost and built anew does not give one
//! a second time. Every version is kept in the history.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::catalogue::counts::{ReadKind, StoreCall};
use crate::catalogue::limits::READ_AGAIN;
use crate::engine::skipped::Skipped;
use crate::engine::{EngineError, Item, ItemKey, Page, Table, Tables, bucket, retry_delay};
use crate::model::names::key_problem;
use crate::model::time::Clock;
use crate::telemetry::rate_limiter::RateLimiter;

pub mod api;
pub mod author;
mod budget;
mod counts;
mod error;
pub mod grants;
mod json;
pub mod limits;
pub mod note;
mod page;
mod preconditions;
mod problem_kind;
mod record;
mod recursion;
mod remembered;
mod types;
mod walk;
mod write;

pub use author::{Author, Reason, RequestId, Writer};
pub use counts::CatalogueCounts;
pub use error::{CatalogueError, SchemaViolation};
pub use preconditions::{Preconditions, Tags};
pub use record::{RecordPage, RecordVersion, RecordWrite, RecordWritten, WalkedPage, WalkedRecord, WriteAnswer};
pub use remembered::IdempotencyKey;
pub use types::{RecordTypes, TypeError};

/// The records behind one store.
pub struct Catalogue {
    store: Arc<dyn Tables>,
    clock: Clock,
    types: RecordTypes,
    counts: CatalogueCounts,
    /// A store that is down, or full, fails each write.
    failure_lines: RateLimiter,
    damaged: Skipped,
    /// Version of the grants that there was at the start, once that is known: none may be given up to it.
    grants_floor: OnceLock<u64>,
}

impl Catalogue {
    pub fn new(store: Arc<dyn Tables>, clock: Clock, types: RecordTypes) -> Self {
        let (counts, failure_lines) = (CatalogueCounts::default(), RateLimiter::new());
        Self {
            store,
            clock,
            types,
            counts,
            failure_lines,
            damaged: Skipped::default(),
            grants_floor: OnceLock::new(),
        }
    }

    pub const fn types(&self) -> &RecordTypes {
        &self.types
    }

    pub const fn counts(&self) -> &CatalogueCounts {
        &self.counts
    }

    /// The record as it is now.
    ///
    /// # Errors
    /// [`CatalogueError::NotFound`], with the tombstone's version where there is one;
    /// [`CatalogueError::Damaged`]; [`CatalogueError::Unread`].
    pub async fn get(&self, record_type: &str, key: &str) -> Result<(u64, Bytes), CatalogueError> {
        self.check_name(record_type, key)?;
        let item = self.item(Table::Records, &place(record_type, key)).await.map_err(CatalogueError::Unread)?;
        let version = item.as_ref().map(|item| item.version);
        if let Some(item) = item.as_ref().filter(|item| self.is_damaged(Table::Records, item)) {
            return Err(CatalogueError::Damaged { version: item.version });
        }
        let found = item.and_then(|item| item.body.map(|body| (item.version, body)));
        self.counts.read(ReadKind::Record);
        found.ok_or(CatalogueError::NotFound { version })
    }

    /// Tells whether an item holds something that is no record; counts and logs it then.
    fn is_damaged(&self, table: Table, item: &Item) -> bool {
        let is_damaged = item.body.as_deref().is_some_and(|body| !json::is_object(body));
        if is_damaged {
            self.counts.damaged();
            self.damaged.note(self.clock.now(), table, Some(&item.key), "its body is no JSON object");
        }
        is_damaged
    }

    fn check_name(&self, record_type: &str, key: &str) -> Result<(), CatalogueError> {
        self.types.check_known(record_type)?;
        key_problem(key).map_or(Ok(()), |problem| Err(CatalogueError::BadKey(problem)))
    }

    async fn item(&self, table: Table, key: &ItemKey) -> Result<Option<Item>, EngineError> {
        let (mut failures, mut first) = (0, None);
        loop {
            let read = self.timed(StoreCall::Get, self.store.get(table, key)).await;
            let now = self.clock.now();
            if !matches!(read, Err(EngineError::Unavailable { .. }))
                || now.since(*first.get_or_insert(now)) >= READ_AGAIN
            {
                return read;
            }
            failures += 1;
            tokio::time::sleep(retry_delay(failures)).await;
        }
    }

    async fn query(
        &self,
        table: Table,
        partition: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page, EngineError> {
        self.timed(StoreCall::Query, self.store.query(table, partition, after, limit)).await
    }

    async fn timed<T>(&self, call: StoreCall, work: impl Future<Output = T>) -> T {
        let began = self.clock.now();
        let done = work.await;
        self.counts.store_took(call, self.clock.now().since(began));
        done
    }
}

/// Item key of a record.
fn place(record_type: &str, key: &str) -> ItemKey {
    ItemKey::new(bucket::partition(record_type, key), key)
}

/// Partition of a record's versions, in their order.
fn history(record_type: &str, key: &str) -> String {
    format!("{record_type}#{key}")
}

/// A version as it sorts.
fn digits(version: u64) -> String {
    format!("{version:020}")
}

#[cfg(test)]
mod tests;
