//! The changes of a streamed table, numbered one by one and written with what they tell. The
//! newest is never removed, so that no number is given twice.

use futures_util::future::{BoxFuture, FutureExt, ready};
use futures_util::stream::{self, BoxStream, StreamExt};
use redb::{Database, Error, ReadableDatabase, ReadableTable, TableDefinition};

use super::super::{Change, EngineError, Feed, FeedBatch, FeedShard, ItemKey, Position, ShardId, Stream, limits};
use super::RedbStore;
use super::disk::Keep;
use super::layout::{self, Entry, numbers};
use super::writer::Calendar;
use crate::model::time::Wall;

/// The changes of one table; clones share them.
#[derive(Clone)]
pub struct RedbFeed {
    store: RedbStore,
    stream: Stream,
}

const ONLY_SHARD: &str = "shard-0";

impl RedbFeed {
    pub(super) const fn new(store: RedbStore, stream: Stream) -> Self {
        Self { store, stream }
    }

    async fn read(&self, from: Position) -> Result<(FeedBatch, bool), EngineError> {
        let name = layout::feed_name(&self.store.place, self.stream);
        self.store
            .read(move |writer| writer.disk.with(|database| batch(database, &name, &from, &writer.calendar))?)
            .await
    }

    /// Removes what lies before a position, except for the newest change.
    pub(super) async fn trim(&self, position: &Position) -> Result<(), EngineError> {
        let name = layout::feed_name(&self.store.place, self.stream);
        loop {
            let (name, position) = (name.clone(), position.clone());
            let some = move |transaction: &redb::WriteTransaction| {
                let mut table = transaction.open_table(TableDefinition::new(&name))?;
                let (first, next) = numbers(&table)?;
                let number = match number(&table, &position)? {
                    Ok(number) => number.min(next.saturating_sub(1)),
                    Err(EngineError::Trimmed { .. }) => first,
                    Err(error) => return Ok((Err(error), Keep::Nothing)),
                };
                let end = number.min(first + limits::REDB_REMOVED_AT_ONCE as u64);
                table.retain_in(..end, |_, _| false)?;
                Ok((Ok(end >= number), if end > first { Keep::All } else { Keep::Nothing }))
            };
            if self.store.writer.alone(move |writer| writer.disk.change(some)?).await? {
                return Ok(());
            }
        }
    }
}

/// What a feed says that has had no change yet.
fn nothing(from: &Position, through: Wall) -> Result<(FeedBatch, bool), EngineError> {
    let start = "0".to_owned();
    match from {
        Position::After(number) if *number != start => Err(unknown_position()),
        _ => Ok((FeedBatch { changes: Vec::new(), next: Position::After(start), through, ended: None }, false)),
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
        Position::At(wall) => match search(table, (first, next), *wall)? {
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

/// The first change that was written at `wall` or later: numbers have no gaps, and times never go
/// back.
fn search(table: &impl ReadableTable<u64, Entry>, within: (u64, u64), wall: Wall) -> Result<u64, Error> {
    let (mut low, mut high) = within;
    while low < high {
        let middle = low + (high - low) / 2;
        let written = table.get(middle)?.map_or(0, |entry| entry.value().0);
        if written < wall.as_millis() { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}

/// What lies at a position, and whether more does.
fn batch(
    database: &Database,
    name: &str,
    from: &Position,
    calendar: &Calendar,
) -> Result<Result<(FeedBatch, bool), EngineError>, Error> {
    // Before the read begins: what is written later has a later time.
    let mut through = calendar.through();
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
        let item = if item.is_empty() { None } else { Some(layout::decode(key.clone(), item)?) };
        changes.push(Change { key, item, written });
        next += 1;
    }
    Ok(Ok((FeedBatch { changes, next: Position::After(next.to_string()), through, ended: None }, more)))
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
