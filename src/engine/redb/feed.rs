//! The changes of a streamed table, numbered one by one and written with what they tell. The
//! newest is never removed, so that no number is given twice.

use futures_util::future::{BoxFuture, FutureExt, ready};
use futures_util::stream::{self, BoxStream, StreamExt};
use redb::{Database, Error, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::super::{
    Change, EngineError, Feed, FeedBatch, FeedShard, ItemKey, Position, ShardId, Stream, Table, limits,
};
use super::disk::Keep;
use super::layout::{self, Entry, numbers};
use super::store::RedbStore;
use super::writer::Writer;
use crate::model::time::Wall;

/// The changes of one table; clones share them.
#[derive(Clone)]
pub struct RedbFeed {
    store: RedbStore,
    stream: Stream,
}

impl RedbStore {
    /// Feed with the changes of a streamed table: one shard.
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
}

const ONLY_SHARD: &str = "shard-0";

impl RedbFeed {
    pub(super) const fn new(store: RedbStore, stream: Stream) -> Self {
        Self { store, stream }
    }

    async fn read(&self, from: Position) -> Result<(FeedBatch, bool), EngineError> {
        let (name, table) = (layout::feed_name(&self.store.place, self.stream), self.stream.table());
        self.store
            .read(move |writer| writer.disk.with(|database| batch(database, &name, table, &from, writer))?)
            .await
    }

    /// Removes what lies before the first of these positions, except for the newest change, and for
    /// one before a time: by it a reader who begins at that time sees that it missed none.
    pub(super) async fn trim(&self, positions: &[Position]) -> Result<(), EngineError> {
        let name = layout::feed_name(&self.store.place, self.stream);
        loop {
            let (name, positions) = (name.clone(), positions.to_vec());
            let trimmed = self
                .store
                .writer
                .alone(move |writer| writer.disk.change(|transaction| trim_some(transaction, &name, &positions))?);
            if trimmed.await? {
                return Ok(());
            }
            tokio::time::sleep(limits::REDB_PACE).await;
        }
    }
}

/// Reply of a feed that has had no change yet.
fn nothing(from: &Position, through: Wall) -> Result<(FeedBatch, bool), EngineError> {
    let start = "0".to_owned();
    match from {
        Position::After(number) if *number != start => Err(unknown_position()),
        _ => {
            let (changes, next, through) = (Vec::new(), Position::After(start), Some(through));
            Ok((FeedBatch { changes, next, through, ended: None }, false))
        }
    }
}

fn unknown_position() -> EngineError {
    EngineError::Refused { what: "the feed".to_owned(), why: "a position that it never gave".to_owned() }
}

/// The number of the first change at a position.
fn number(table: &impl ReadableTable<u64, Entry>, from: &Position) -> Result<Result<u64, EngineError>, Error> {
    let (first, next) = numbers(table)?;
    let number = match from {
        Position::Oldest => first,
        Position::At(wall) => match search(table, first, next, *wall)? {
            // What was removed before the first may be from that time too.
            number if number == first && first > 0 => {
                return Ok(Err(EngineError::Trimmed { what: "the feed".to_owned() }));
            }
            number => number,
        },
        Position::After(number) => match number.parse::<u64>() {
            Ok(number) if number < first => {
                return Ok(Err(EngineError::Trimmed { what: "the feed".to_owned() }));
            }
            Ok(number) if number <= next => number,
            _ => return Ok(Err(unknown_position())),
        },
    };
    Ok(Ok(number))
}

/// The first change from `low` on, and before `high`, that was written at `wall` or later: numbers
/// have no gaps, and times never go back.
fn search(table: &impl ReadableTable<u64, Entry>, mut low: u64, mut high: u64, wall: Wall) -> Result<u64, Error> {
    while low < high {
        let middle = low + (high - low) / 2;
        let written = table.get(middle)?.map_or(0, |entry| entry.value().0);
        if written < wall.as_millis() { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}

/// Changes at a position, and whether more follow.
fn batch(
    database: &Database,
    name: &str,
    of: Table,
    from: &Position,
    writer: &Writer,
) -> Result<Result<(FeedBatch, bool), EngineError>, Error> {
    // Before the read begins: what is written later has a later time.
    let mut through = writer.calendar.through();
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(TableDefinition::<u64, Entry>::new(name)) {
        Ok(table) => table,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(nothing(from, through)),
        Err(error) => return Err(error.into()),
    };
    let mut next = match number(&table, from)? {
        Ok(number) => number,
        Err(error) => return Ok(Err(error)),
    };
    let (mut changes, mut bytes, mut more) = (Vec::new(), 0, false);
    for row in table.range(next..)? {
        let (_, entry) = row?;
        let (written, partition, sort, item) = entry.value();
        let written = Wall::from_millis(written);
        if changes.len() == limits::FEED_BATCH || bytes >= limits::REDB_PAGE_BYTES {
            more = true;
            through = through.min(Wall::from_millis(written.as_millis().saturating_sub(1)));
            break;
        }
        bytes += item.len();
        let key = ItemKey::new(partition, sort);
        next += 1;
        let item = match item {
            [] => None,
            bytes => match layout::decode(key.clone(), bytes) {
                Ok(item) => Some(item),
                Err(unreadable) => {
                    writer.pass_over(of, &key, unreadable);
                    continue;
                }
            },
        };
        changes.push(Change { key, item, written });
    }
    let next = Position::After(next.to_string());
    Ok(Ok((FeedBatch { changes, next, through: Some(through), ended: None }, more)))
}

/// Removes a part of what lies before the first of these positions; returns whether that was all.
fn trim_some(
    transaction: &WriteTransaction,
    name: &str,
    positions: &[Position],
) -> Result<(Result<bool, EngineError>, Keep), Error> {
    let mut table = transaction.open_table(TableDefinition::new(name))?;
    let (first, next) = numbers(&table)?;
    let mut number = next.saturating_sub(1);
    for position in positions {
        number = match self::number(&table, position)? {
            Ok(of) => number.min(of.saturating_sub(u64::from(matches!(position, Position::At(_))))),
            Err(EngineError::Trimmed { .. }) => first,
            Err(error) => return Ok((Err(error), Keep::Nothing)),
        };
    }
    let end = number.min(first + limits::REDB_REMOVED_AT_ONCE as u64);
    table.retain_in(..end, |_, _| false)?;
    Ok((Ok(end >= number), if end > first { Keep::All } else { Keep::Nothing }))
}

impl Feed for RedbFeed {
    fn shards(&self) -> BoxFuture<'_, Result<Vec<FeedShard>, EngineError>> {
        ready(Ok(vec![FeedShard { id: ShardId(ONLY_SHARD.to_owned()), parents: Vec::new() }])).boxed()
    }

    fn open(&self, _shard: &ShardId, from: Position) -> BoxStream<'static, Result<FeedBatch, EngineError>> {
        let end = self.store.writer.end(&self.store.place, self.stream);
        // Whether more is known to be there already.
        let state = (self.clone(), end, Some(from), true);
        stream::unfold(state, |(feed, mut end, from, at_once)| async move {
            let from = from?;
            if !at_once {
                // Silence is worth a batch too: it says through when nothing came.
                let _ = tokio::time::timeout(limits::FEED_IDLE, end.changed()).await;
            }
            end.mark_unchanged();
            let (batch, next, more) = match feed.read(from).await {
                Ok((batch, more)) => (Ok(batch.clone()), Some(batch.next), more),
                Err(error) => (Err(error), None, false),
            };
            Some((batch, (feed, end, next, more)))
        })
        .boxed()
    }
}
