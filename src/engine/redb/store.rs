//! The tables of one place.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use redb::{Error, ReadableDatabase, TableDefinition, TableError};
use tokio::sync::Semaphore;

use super::layout::{self, Key, Place, Value};
use super::writer::Writer;
use crate::engine::memory::is_in;
use crate::engine::{EngineError, Item, ItemKey, ItemWrite, Page, ScanSegment, Table, Tables, WriteError, limits};
use crate::tasks;

/// The tables of one place; clones share them.
#[derive(Clone)]
pub struct RedbStore {
    pub(super) writer: Arc<Writer>,
    pub(super) reads: Arc<Semaphore>,
    pub(super) place: Place,
}

type ReadTable = redb::ReadOnlyTable<Key, Value>;

impl RedbStore {
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Writer) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let room = self.reads.clone().acquire_owned().await.expect("nobody closes it");
        let writer = self.writer.clone();
        let outcome = tasks::on_disk(move || {
            let _room = room;
            work(&writer)
        });
        outcome.await.unwrap_or_else(|| Err(self.writer.disk.panicked()))
    }

    /// Reads a table, unless nothing was ever written to it.
    async fn read_table<T: Default + Send + 'static>(
        &self,
        table: Table,
        work: impl FnOnce(&ReadTable, &Writer) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, EngineError> {
        let name = layout::table_name(&self.place, table);
        let outcome = self.read(move |writer| {
            writer.disk.with(|database| match database.begin_read()?.open_table(TableDefinition::new(&name)) {
                Ok(table) => work(&table, writer),
                Err(TableError::TableDoesNotExist(_)) => Ok(T::default()),
                Err(error) => Err(error.into()),
            })
        });
        outcome.await
    }
}

impl Tables for RedbStore {
    fn skipped(&self) -> u64 {
        self.writer.skipped.count()
    }

    fn writes_at_once(&self) -> usize {
        limits::REDB_WRITES_AT_ONCE
    }

    fn get<'a>(&'a self, table: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        async move {
            let key = key.clone();
            let found = self.read_table(table, move |table, _| {
                let found = table.get((key.partition.as_str(), key.sort.as_str()))?;
                Ok(found.map(|bytes| layout::decode(key, bytes.value())))
            });
            found.await?.transpose().map_err(|unreadable| self.writer.disk.unreadable(unreadable))
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

    fn last<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        through: &'a str,
    ) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        async move {
            let (partition, through) = (partition.to_owned(), through.to_owned());
            let found = self.read_table(table, move |rows, _| {
                let last = rows.range::<(&str, &str)>((&*partition, "")..=(&*partition, &*through))?.next_back();
                let Some((key, item)) = last.transpose()? else { return Ok(None) };
                let key = ItemKey::new(key.value().0, key.value().1);
                Ok(Some(layout::decode(key, item.value())))
            });
            found.await?.transpose().map_err(|unreadable| self.writer.disk.unreadable(unreadable))
        }
        .boxed()
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
