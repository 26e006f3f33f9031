//! A commit that is being put together: what several transactions write, each seeing those before
//! it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;

use redb::{Error, ReadableTable, TableDefinition, WriteTransaction};

use super::super::{Item, ItemKey, ItemWrite, Stream, Table};
use super::layout::{self, COMMITS, Due, EXPIRIES, Entry, Key, Place, Unreadable, Value};
use crate::model::time::Wall;

pub(super) struct Draft<'txn> {
    transaction: &'txn WriteTransaction,
    /// Time of every change in it.
    written: Wall,
    /// Number of changes that a feed keeps.
    feed_changes: u64,
    tables: BTreeMap<(Place, Table), redb::Table<'txn, Key, Value>>,
    feeds: BTreeMap<(Place, Stream), FeedEnd<'txn>>,
    expiries: Option<redb::Table<'txn, Due, ()>>,
}

/// Why one transaction is not in the commit.
pub(super) enum NotWritten {
    /// The places of the parts whose conditions do not hold.
    Conflict(Vec<usize>),
    /// An item that a condition asks about cannot be read.
    Unreadable(Unreadable),
}

/// The end of a feed, to which changes are added.
struct FeedEnd<'txn> {
    table: redb::Table<'txn, u64, Entry>,
    first: u64,
    /// The number that the next change gets.
    next: u64,
}

impl<'txn> Draft<'txn> {
    pub(super) const fn new(transaction: &'txn WriteTransaction, written: Wall, feed_changes: u64) -> Self {
        Self { transaction, written, feed_changes, tables: BTreeMap::new(), feeds: BTreeMap::new(), expiries: None }
    }

    /// Writes a transaction, or says why not: then nothing of it is in the commit.
    pub(super) fn write(&mut self, place: &Place, writes: &[ItemWrite]) -> Result<Result<(), NotWritten>, Error> {
        let mut refused = Vec::new();
        for (at, write) in writes.iter().enumerate() {
            let kept = self.table(place, write.table())?.get(key(write.key()))?;
            let version = match kept.map(|bytes| layout::version(bytes.value())).transpose() {
                Ok(version) => version,
                Err(unreadable) => return Ok(Err(NotWritten::Unreadable(unreadable))),
            };
            if !write.condition().holds(version) {
                refused.push(at);
            }
        }
        if !refused.is_empty() {
            return Ok(Err(NotWritten::Conflict(refused)));
        }
        for write in writes {
            match write {
                ItemWrite::Put(table, item, _) => self.put(place, *table, item)?,
                ItemWrite::Delete(table, key, _) => self.remove(place, *table, key)?,
                ItemWrite::Check(..) => {}
            }
        }
        Ok(Ok(()))
    }

    fn put(&mut self, place: &Place, table: Table, item: &Item) -> Result<(), Error> {
        let bytes = layout::encode(item);
        self.table(place, table)?.insert(key(&item.key), bytes.as_slice())?;
        if let Some(expires) = item.expires {
            let ItemKey { partition, sort } = &item.key;
            self.expiries()?.insert((expires.as_millis(), &**place, table.into_str(), &**partition, &**sort), ())?;
        }
        self.tell(place, table, &item.key, &bytes)
    }

    fn remove(&mut self, place: &Place, table: Table, item: &ItemKey) -> Result<(), Error> {
        let was_there = self.table(place, table)?.remove(key(item))?.is_some();
        if was_there { self.tell(place, table, item, &[]) } else { Ok(()) }
    }

    /// Adds a change to the table's feed, if it has one.
    fn tell(&mut self, place: &Place, table: Table, key: &ItemKey, item: &[u8]) -> Result<(), Error> {
        let Some(stream) = table.stream() else { return Ok(()) };
        let (written, most) = (self.written.as_millis(), self.feed_changes);
        let feed = match self.feeds.entry((place.clone(), stream)) {
            Slot::Occupied(open) => open.into_mut(),
            Slot::Vacant(slot) => {
                let name = layout::feed_name(place, stream);
                let table = self.transaction.open_table(TableDefinition::new(&name))?;
                let (first, next) = layout::numbers(&table)?;
                slot.insert(FeedEnd { table, first, next })
            }
        };
        feed.table.insert(feed.next, (written, &*key.partition, &*key.sort, item))?;
        feed.next += 1;
        while feed.next - feed.first > most {
            feed.table.pop_first()?;
            feed.first += 1;
        }
        Ok(())
    }

    /// Removes up to `most` of what is due at `now`. Returns how many rows it has looked at.
    pub(super) fn expire(&mut self, now: Wall, most: usize) -> Result<usize, Error> {
        let end = (now.as_millis().saturating_add(1), "", "", "", "");
        let mut due = Vec::new();
        for row in self.expiries()?.range(..end)?.take(most) {
            let row = row?;
            let (at, place, table, partition, sort) = row.0.value();
            due.push((at, Place::from(place), table.to_owned(), ItemKey::new(partition, sort)));
        }
        for (at, place, word, item) in &due {
            self.expiries()?.remove((*at, &**place, word.as_str(), &*item.partition, &*item.sort))?;
            let Ok(table) = word.parse::<Table>() else { continue };
            let kept = self.table(place, table)?.get(key(item))?;
            // What cannot be read stays where it is.
            let kept = kept.and_then(|bytes| layout::decode(item.clone(), bytes.value()).ok());
            if kept.and_then(|kept| kept.expires).is_some_and(|expires| expires <= now) {
                self.remove(place, table, item)?;
            }
        }
        Ok(due.len())
    }

    fn table(&mut self, place: &Place, table: Table) -> Result<&mut redb::Table<'txn, Key, Value>, Error> {
        match self.tables.entry((place.clone(), table)) {
            Slot::Occupied(open) => Ok(open.into_mut()),
            Slot::Vacant(slot) => {
                let name = layout::table_name(place, table);
                Ok(slot.insert(self.transaction.open_table(TableDefinition::new(&name))?))
            }
        }
    }

    fn expiries(&mut self) -> Result<&mut redb::Table<'txn, Due, ()>, Error> {
        match &mut self.expiries {
            Some(open) => Ok(open),
            closed => Ok(closed.insert(self.transaction.open_table(EXPIRIES)?)),
        }
    }

    /// Gives the commit its number, by which the file says whether it has it.
    pub(super) fn number(&self) -> Result<u64, Error> {
        let mut table = self.transaction.open_table(COMMITS)?;
        let number = table.get(())?.map_or(0, |last| last.value()) + 1;
        table.insert((), number)?;
        Ok(number)
    }

    /// The feeds that have changes in it, and their new ends.
    pub(super) fn ends(self) -> Vec<((Place, Stream), u64)> {
        self.feeds.into_iter().map(|(feed, end)| (feed, end.next)).collect()
    }
}

fn key(key: &ItemKey) -> (&str, &str) {
    (&key.partition, &key.sort)
}
