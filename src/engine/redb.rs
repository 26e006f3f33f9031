//! The embedded engine on one machine: a redb file in a directory serves home and all regions. A
//! record, its history and its place in the feed are one commit, which is on the disk before a
//! write is acknowledged; readers see the last commit.

use std::path::Path;
use std::sync::Arc;

use redb::{Database, Error, ReadableDatabase, ReadableTable, TableDefinition, TableHandle};
use tokio::sync::{Mutex, Semaphore};

use super::{EngineError, limits};
use crate::model::time::{Clock, Wall};
use crate::tasks;

mod disk;
mod draft;
mod feed;
mod housekeeping;
mod layout;
mod store;
mod writer;

pub use feed::RedbFeed;
pub use store::RedbStore;

use disk::Disk;
use layout::Entry;
use writer::{Calendar, Writer};

/// A directory with one file, open in this process alone; clones share it.
#[derive(Clone)]
pub struct Embedded {
    writer: Arc<Writer>,
    reads: Arc<Semaphore>,
    room_probe: Arc<Mutex<()>>,
}

impl Embedded {
    /// Opens the directory, or makes it; blocks. After a crash this takes no longer.
    ///
    /// # Errors
    /// When the file is open elsewhere, may not be read and written, or is none of this version's.
    pub fn open(directory: &Path, clock: Clock) -> Result<Self, EngineError> {
        Self::bounded(directory, clock, limits::REDB_FEED_CHANGES)
    }

    /// With feeds that keep so many changes.
    fn bounded(directory: &Path, clock: Clock, feed_changes: u64) -> Result<Self, EngineError> {
        let disk = Disk::open(directory)?;
        let calendar = Calendar::new(clock, disk.with(last_written)?);
        let writer = Arc::new(Writer::new(disk, calendar, feed_changes));
        Ok(Self { writer, reads: Arc::new(Semaphore::new(limits::REDB_READS)), room_probe: Arc::default() })
    }

    /// The tables of home, or of a region.
    pub fn place(&self, name: &str) -> RedbStore {
        RedbStore { writer: self.writer.clone(), reads: self.reads.clone(), place: name.into() }
    }

    /// Takes room for the largest write on the disk for a moment.
    ///
    /// # Errors
    /// What the disk says, above all [`EngineError::Full`].
    pub async fn probe_room(&self) -> Result<(), EngineError> {
        // A disk that hangs keeps one thread, however often it is asked.
        let turn = self.room_probe.clone().lock_owned().await;
        let writer = self.writer.clone();
        let probed = tasks::on_disk(move || {
            let _turn = turn;
            writer.disk.probe_room()
        });
        probed.await.unwrap_or_else(|| Err(self.writer.disk.panicked()))
    }

    /// Removes some of what was due at `now`, in all places. Returns whether there may be more.
    ///
    /// # Errors
    /// What the disk says.
    pub async fn expire(&self, now: Wall) -> Result<bool, EngineError> {
        Ok(self.writer.expire(now).await? == limits::REDB_REMOVED_AT_ONCE)
    }
}

/// Time at which the last change in any feed was written.
fn last_written(database: &Database) -> Result<Wall, Error> {
    let transaction = database.begin_read()?;
    let mut latest = 0;
    for table in transaction.list_tables()?.filter(|table| table.name().starts_with(layout::FEEDS)) {
        let feed = transaction.open_table(TableDefinition::<u64, Entry>::new(table.name()))?;
        latest = latest.max(feed.last()?.map_or(0, |(_, entry)| entry.value().0));
    }
    Ok(Wall::from_millis(latest))
}

#[cfg(test)]
mod tests;
