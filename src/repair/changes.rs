//! Changes of a type since a time: how many, by whom, why and when.
//!
//! It reads the type's records, then the histories of those that have a version after the time's milliseconds: no
//! version is before its time, so the others were not changed since. What is written meanwhile may be counted or not.
//! To stop it, drop it.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};

mod count;

pub use count::{ChangeGroup, VersionCounts};

use crate::catalogue::{Catalogue, CatalogueError, RecordVersion};
use crate::engine::limits::BUCKETS;
use crate::model::time::Wall;
use crate::repair::limits::{BUCKETS_AT_ONCE, COUNTED_VERSIONS};
use crate::repair::reading::read_again;
use crate::repair::truth::changed_at;
use count::Tally;

/// Question about changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangesQuery {
    pub record_type: String,
    /// Changes of that millisecond are older.
    pub since: Wall,
    /// Only changes by this writer, such as `consumer/jira`; those without a note are by `unknown`.
    pub writer: Option<String>,
}

/// Answer to it. Keys stay out of it, but for hashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeReport {
    #[serde(rename = "type")]
    pub record_type: String,
    /// Milliseconds.
    pub since: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
    /// Records that were read, deleted ones included.
    pub records: u64,
    /// Those that were changed since.
    pub changed: u64,
    /// Those that have more versions since than the first that were counted.
    pub cut: u64,
    /// Counts by writer, reason and minute.
    pub groups: Vec<ChangeGroup>,
    /// Versions in further groups.
    pub more: VersionCounts,
    /// Hashes of the first keys, as `verify` shows them.
    pub examples: Vec<String>,
}

/// Progress of the work, for those who wait.
#[derive(Debug, Default)]
pub struct ChangesProgress {
    records: AtomicU64,
    changed: AtomicU64,
    buckets: AtomicU64,
}

impl ChangesProgress {
    /// Records that were read until now.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Those of them that were changed.
    pub fn changed(&self) -> u64 {
        self.changed.load(Ordering::Relaxed)
    }

    /// Percentage of the type that has been read.
    pub fn percent(&self) -> u64 {
        self.buckets.load(Ordering::Relaxed) * 100 / u64::from(BUCKETS)
    }
}

/// Counts the changes.
///
/// # Errors
/// [`CatalogueError::UnknownType`]; [`CatalogueError::Unread`] where a part could not be read, again and again.
pub async fn changes(
    catalogue: &Catalogue,
    query: &ChangesQuery,
    progress: &ChangesProgress,
) -> Result<ChangeReport, CatalogueError> {
    let buckets = stream::iter(0..BUCKETS).map(|bucket| of_bucket(catalogue, query, progress, bucket));
    // In their order, so that the examples are the same each time.
    let mut buckets = pin!(buckets.buffered(BUCKETS_AT_ONCE));
    let mut tally = Tally::default();
    while let Some(of_bucket) = buckets.next().await {
        tally.merge(of_bucket?);
    }
    Ok(ChangeReport {
        record_type: query.record_type.clone(),
        since: query.since.as_millis(),
        writer: query.writer.clone(),
        records: tally.records,
        changed: tally.changed,
        cut: tally.cut,
        groups: tally.groups(),
        more: tally.more,
        examples: tally.examples,
    })
}

async fn of_bucket(
    catalogue: &Catalogue,
    query: &ChangesQuery,
    progress: &ChangesProgress,
    bucket: u16,
) -> Result<Tally, CatalogueError> {
    let (mut tally, mut after) = (Tally::default(), None);
    loop {
        let page = read_again(|| catalogue.walk(&query.record_type, bucket, after.as_deref())).await?;
        tally.records += page.records.len() as u64;
        progress.records.fetch_add(page.records.len() as u64, Ordering::Relaxed);
        for record in page.records {
            if record.version > query.since.as_millis()
                && of_record(catalogue, query, &record.key, &mut tally).await?
            {
                progress.changed.fetch_add(1, Ordering::Relaxed);
            }
        }
        after = page.next;
        if after.is_none() {
            progress.buckets.fetch_add(1, Ordering::Relaxed);
            return Ok(tally);
        }
    }
}

/// Counts the changes of one record; true if there is one.
async fn of_record(
    catalogue: &Catalogue,
    query: &ChangesQuery,
    key: &str,
    tally: &mut Tally,
) -> Result<bool, CatalogueError> {
    let mut after = Some(query.since.as_millis().to_string());
    let (mut read, mut is_changed) = (0, false);
    'reading: while after.is_some() {
        // One more than are counted shows that there are more.
        let limit = COUNTED_VERSIONS + 1 - read;
        let page = read_again(|| catalogue.history(&query.record_type, key, limit, after.as_deref())).await?;
        for version in &page.records {
            if read == COUNTED_VERSIONS {
                tally.cut += 1;
                break 'reading;
            }
            read += 1;
            if query.asks_for(version) {
                tally.count(version, changed_at(version));
                is_changed = true;
            }
        }
        after = page.next;
    }
    if is_changed {
        tally.note_changed(key);
    }
    Ok(is_changed)
}

impl ChangesQuery {
    fn asks_for(&self, version: &RecordVersion) -> bool {
        let is_by = self.writer.as_deref().is_none_or(|writer| writer == count::writer_of(version));
        is_by && changed_at(version) > self.since
    }
}

#[cfg(test)]
mod tests;
