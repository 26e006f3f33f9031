//! The embedded engine on one machine: a redb file in a directory serves home and all regions. A
//! record, its history and its place in the feed are one commit, which is on the disk before a
//! write is acknowledged; readers see the last commit.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use redb::{Database, Error, ReadableDatabase, ReadableTable, TableDefinition, TableError, TableHandle};
use tokio::sync::{Mutex, Semaphore};

use super::memory::is_in;
use super::{
    EngineError, Item, ItemKey, ItemWrite, Page, Position, ScanSegment, Stream, Table, Tables, WriteError, limits,
};
use crate::model::time::{Clock, Wall};
use crate::tasks;

mod disk;
mod draft;
mod feed;
mod housekeeping;
mod layout;
mod writer;

pub use feed::RedbFeed;

use disk::Disk;
use layout::{Entry, Key, Place, Value};
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
        let probe = move || {
            let _turn = turn;
            writer.disk.probe_room()
        };
        tasks::on_disk(probe).await.unwrap_or_else(|| Err(self.writer.disk.panicked()))
    }

    /// Removes some of what was due at `now`, in all places. Returns whether there may be more.
    ///
    /// # Errors
    /// What the disk says.
    pub async fn expire(&self, now: Wall) -> Result<bool, EngineError> {
        Ok(self.writer.expire(now).await? == limits::REDB_REMOVED_AT_ONCE)
    }
}

/// When the last change in any feed was written.
fn last_written(database: &Database) -> Result<Wall, Error> {
    let transaction = database.begin_read()?;
    let mut latest = 0;
    for table in transaction.list_tables()?.filter(|table| table.name().starts_with(layout::FEEDS)) {
        let feed = transaction.open_table(TableDefinition::<u64, Entry>::new(table.name()))?;
        latest = latest.max(feed.last()?.map_or(0, |(_, entry)| entry.value().0));
    }
    Ok(Wall::from_millis(latest))
}

/// The tables of one place; clones share them.
#[derive(Clone)]
pub struct RedbStore {
    writer: Arc<Writer>,
    reads: Arc<Semaphore>,
    place: Place,
}

type ReadTable = redb::ReadOnlyTable<Key, Value>;

impl RedbStore {
    /// What carries the changes of a streamed table: one shard.
    pub fn feed(&self, stream: Stream) -> RedbFeed {
        RedbFeed::new(self.clone(), stream)
    }

    /// Lets a feed forget what lies before the first of these positions.
    ///
    /// # Errors
    /// When the feed never gave one of them; else what the disk says.
    pub async fn trim(&self, stream: Stream, before: &[Position]) -> Result<(), EngineError> {
        self.feed(stream).trim(before).await
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Writer) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let room = self.reads.clone().acquire_owned().await.expect("nobody closes it");
        let writer = self.writer.clone();
        let read = move || {
            let _room = room;
            work(&writer)
        };
        tasks::on_disk(read).await.unwrap_or_else(|| Err(self.writer.disk.panicked()))
    }

    /// Reads a table, unless nothing was ever written to it.
    async fn read_table<T: Default + Send + 'static>(
        &self,
        table: Table,
        work: impl FnOnce(&ReadTable, &Writer) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, EngineError> {
        let name = layout::table_name(&self.place, table);
        let read = move |writer: &Writer, database: &Database| match database
            .begin_read()?
            .open_table(TableDefinition::new(&name))
        {
            Ok(table) => work(&table, writer),
            Err(TableError::TableDoesNotExist(_)) => Ok(T::default()),
            Err(error) => Err(error.into()),
        };
        self.read(move |writer| writer.disk.with(|database| read(writer, database))).await
    }
}

impl Tables for RedbStore {
    fn passed_over(&self) -> u64 {
        self.writer.passed_over.count()
    }

    fn writes_at_once(&self) -> usize {
        limits::REDB_WRITES_AT_ONCE
    }

    fn get<'a>(&'a self, table: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        let get = |key: ItemKey| {
            move |table: &ReadTable, _: &Writer| {
                let found = table.get((key.partition.as_str(), key.sort.as_str()))?;
                Ok(found.map(|bytes| layout::decode(key, bytes.value())))
            }
        };
        async move {
            let found = self.read_table(table, get(key.clone())).await?;
            found.transpose().map_err(|unreadable| self.writer.disk.unreadable(unreadable))
        }
        .boxed()
    }

    fn write(&self, writes: Vec<ItemWrite>) -> BoxFuture<'_, Result<(), WriteError>> {
        self.writer.write(&self.place, writes).boxed()
    }

    fn query<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, EngineError>> {
        let from = ItemKey::new(partition, after.unwrap_or_default());
        let rows = Rows { of: table, from, end: Some(format!("{partition}\0")), segment: ScanSegment::WHOLE };
        self.read_table(table, move |table, writer| rows.page(table, writer, limit)).boxed()
    }

    fn scan(
        &self,
        table: Table,
        segment: ScanSegment,
        after: Option<ItemKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, EngineError>> {
        let from = after.unwrap_or_else(|| ItemKey::new("", ""));
        let rows = Rows { of: table, from, end: None, segment };
        self.read_table(table, move |table, writer| rows.page(table, writer, limit)).boxed()
    }
}

/// The rows of a table behind `from` and before the partition `end`.
struct Rows {
    of: Table,
    from: ItemKey,
    end: Option<String>,
    segment: ScanSegment,
}

impl Rows {
    /// The first of them, without what cannot be read.
    fn page(&self, table: &ReadTable, writer: &Writer, limit: usize) -> Result<Page, Error> {
        use std::ops::Bound::{Excluded, Unbounded};
        let start = Excluded((self.from.partition.as_str(), self.from.sort.as_str()));
        let end = self.end.as_deref().map_or(Unbounded, |end| Excluded((end, "")));
        let (mut page, mut bytes, mut last) = (Page::default(), 0, None);
        for row in table.range::<(&str, &str)>((start, end))? {
            let (key, item) = row?;
            let (partition, sort) = key.value();
            if !is_in(self.segment, partition) {
                continue;
            }
            if page.items.len() == limit || bytes >= limits::REDB_PAGE_BYTES {
                page.next = last;
                break;
            }
            bytes += item.value().len();
            let key = ItemKey::new(partition, sort);
            last = Some(key.clone());
            match layout::decode(key.clone(), item.value()) {
                Ok(item) => page.items.push(item),
                Err(unreadable) => writer.pass_over(self.of, &key, unreadable),
            }
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests;
