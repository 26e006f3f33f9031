//! Storage of records and transport of changes: the narrow seams between catalogue, views and
//! regions and what holds their data. Two engines stand behind them: `embedded` (memory, or redb in
//! one directory) and `aws` (DynamoDB, Kinesis, SNS). The services run the same code on both.
//!
//! A [`Tables`] is one place's tables: the home region's or a region's own. A [`Feed`] carries what
//! was written to a streamed table, and promises little (decision 0017). A [`Topic`] takes
//! announcements.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use crate::model::time::Wall;

pub mod aws;
pub mod bucket;
mod condition;
pub mod counting;
mod delegate;
mod error;
pub mod faulty;
pub mod follow;
pub mod lease;
pub mod limits;
pub mod memory;
pub mod redb;
pub(crate) mod sizes;
pub mod skipped;

pub use condition::Condition;
pub use error::{EngineError, WriteError};

pub use crate::delegate_tables;

/// The tables. [`Table::Contexts`] and [`Table::Region`] lie in each region, the others at home.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumString,
)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Table {
    /// The catalogue's records, as they are now; streamed.
    Records,
    /// Every version of every record.
    History,
    /// Idempotency keys and what was answered to them; items expire.
    Requests,
    /// Views, as they are now; streamed.
    Views,
    /// Further data of the views service: vectors, references, jobs, failures, checkpoints.
    Mapping,
    /// Further data of operators and of what they limit: latches, allotments, plans, audit entries; some
    /// items expire.
    Operations,
    /// A region's copy of the views.
    Contexts,
    /// Further data of a region: its lease and its checkpoints.
    Region,
}

impl Table {
    /// The stream that carries its changes.
    pub const fn stream(self) -> Option<Stream> {
        match self {
            Self::Records => Some(Stream::Changes),
            Self::Views => Some(Stream::Views),
            _ => None,
        }
    }

    /// True if items of it may expire.
    pub const fn expires(self) -> bool {
        matches!(self, Self::Requests | Self::Operations)
    }

    pub const fn is_regional(self) -> bool {
        matches!(self, Self::Contexts | Self::Region)
    }
}

/// Carrier of the changes of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Stream {
    /// Changes of [`Table::Records`].
    Changes,
    /// Changes of [`Table::Views`].
    Views,
}

impl Stream {
    /// Whose changes it carries.
    pub const fn table(self) -> Table {
        match self {
            Self::Changes => Table::Records,
            Self::Views => Table::Views,
        }
    }
}

/// Place of an item in its table. Items of one partition are in the order of `sort`, by bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemKey {
    /// At most [`limits::PARTITION_BYTES`].
    pub partition: String,
    /// At most [`limits::SORT_BYTES`], not empty.
    pub sort: String,
}

impl ItemKey {
    pub fn new(partition: impl Into<String>, sort: impl Into<String>) -> Self {
        Self { partition: partition.into(), sort: sort.into() }
    }
}

/// Value that a table holds under a key. Its body and note are the services' own.
#[derive(Clone, PartialEq, Eq)]
pub struct Item {
    pub key: ItemKey,
    /// Number that conditions compare; of records and views, their version.
    pub version: u64,
    /// At most [`limits::BODY_BYTES`]; `None` is a tombstone, or an item that needs no body.
    pub body: Option<Bytes>,
    /// Small: what a service has to say about it besides, usually JSON.
    pub note: Option<String>,
    /// Time after which the engine may remove it. Readers compare it themselves.
    pub expires: Option<Wall>,
}

impl Item {
    pub fn new(key: ItemKey, version: u64) -> Self {
        Self { key, version, body: None, note: None, expires: None }
    }

    #[must_use]
    pub fn with_body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = Some(body.into());
        self
    }

    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    #[must_use]
    pub fn expiring(mut self, expires: Wall) -> Self {
        self.expires = Some(expires);
        self
    }

    /// Size in bytes, about as DynamoDB counts.
    pub fn weight(&self) -> usize {
        let body = self.body.as_ref().map_or(0, Bytes::len);
        let note = self.note.as_ref().map_or(0, String::len);
        self.key.partition.len() + self.key.sort.len() + body + note + limits::ITEM_OVERHEAD_BYTES
    }
}

/// Keys and contents stay out of logs: sizes alone.
impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = self.body.as_ref().map(Bytes::len);
        write!(f, "Item(version {}, body {body:?} bytes)", self.version)
    }
}

/// One part of a transaction. A transaction names each item once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemWrite {
    Put(Table, Item, Condition),
    Delete(Table, ItemKey, Condition),
    /// Writes nothing.
    Check(Table, ItemKey, Condition),
}

impl ItemWrite {
    pub const fn table(&self) -> Table {
        match self {
            Self::Put(table, ..) | Self::Delete(table, ..) | Self::Check(table, ..) => *table,
        }
    }

    pub const fn key(&self) -> &ItemKey {
        match self {
            Self::Put(_, item, _) => &item.key,
            Self::Delete(_, key, _) | Self::Check(_, key, _) => key,
        }
    }

    pub const fn condition(&self) -> Condition {
        match self {
            Self::Put(.., condition) | Self::Delete(.., condition) | Self::Check(.., condition) => *condition,
        }
    }
}

/// Some items, and where to go on.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub items: Vec<Item>,
    /// The key after which to go on; `None` at the end.
    pub next: Option<ItemKey>,
}

/// One of several parts of a table that are scanned side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanSegment {
    /// From 0.
    pub number: u32,
    pub of: u32,
}

impl ScanSegment {
    pub const WHOLE: Self = Self { number: 0, of: 1 };
}

/// The tables of one place. Reads are strongly consistent.
pub trait Tables: Send + Sync + 'static {
    fn get<'a>(&'a self, table: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>>;

    /// Number of items that scans and queries here have skipped because they are none of ours.
    fn skipped(&self) -> u64 {
        0
    }

    /// All or nothing: at most [`limits::TRANSACTION_ITEMS`] parts and
    /// [`limits::TRANSACTION_BYTES`].
    ///
    /// After [`EngineError::Unavailable`] nobody knows whether it took place.
    fn write(&self, writes: Vec<ItemWrite>) -> BoxFuture<'_, Result<(), WriteError>>;

    /// Number of writes that one follower of a feed shall have under way, to keep up with the
    /// writers of what it follows.
    fn writes_at_once(&self) -> usize {
        limits::WRITES_AT_ONCE
    }

    /// Up to `limit` items of a partition whose sort key is greater than `after`, in order. Like a
    /// scan, it passes over what cannot be read.
    fn query<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, EngineError>>;

    /// The item of a partition whose sort key is the greatest that is not greater than `through`, which is not
    /// empty. One that cannot be read is an error, as for [`Tables::get`]: the one before it is another answer.
    fn last<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        through: &'a str,
    ) -> BoxFuture<'a, Result<Option<Item>, EngineError>>;

    /// About `limit` items of a segment after a key that an earlier page gave, in no useful order.
    /// Not a snapshot: what is written meanwhile may be in it or not.
    fn scan(
        &self,
        table: Table,
        segment: ScanSegment,
        after: Option<ItemKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, EngineError>>;
}

/// A shard of a feed, under the feed's own name for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub String);

/// A part of a feed that is read in order, and the parts to be read before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedShard {
    pub id: ShardId,
    /// Those that still exist.
    pub parents: Vec<ShardId>,
}

/// From where a shard is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// From the oldest that the feed still has.
    Oldest,
    /// From what arrived at this time on.
    At(Wall),
    /// Behind the entry that the feed itself named.
    After(String),
}

/// Change of one item of a streamed table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub key: ItemKey,
    /// The item as it was then; `None` where it was removed, which is never a deletion.
    pub item: Option<Item>,
    /// Time of writing, on the engine's calendar.
    pub written: Wall,
}

/// Changes brought by one read of a shard.
#[derive(Clone, Debug)]
pub struct FeedBatch {
    pub changes: Vec<Change>,
    /// Behind all of it: where to go on after a restart.
    pub next: Position,
    /// Time by which everything that had arrived at the shard has been returned, here or before;
    /// `None` if the feed cannot say. With `ended` it means nothing: what came since is in the
    /// shards that follow.
    pub through: Option<Wall>,
    /// Nothing will follow; these shards do.
    pub ended: Option<Vec<FeedShard>>,
}

/// Transport of changes, at least once and roughly in order: it repeats, reorders, splits what was
/// written together, and skips.
pub trait Feed: Send + Sync + 'static {
    /// Those from which a reader that has read nothing begins: all that still exist.
    fn shards(&self) -> BoxFuture<'_, Result<Vec<FeedShard>, EngineError>>;

    /// Reads a shard for as long as the stream is polled. It ends after an error, or for no reason
    /// at all: then it is opened again behind the last batch. Where nothing comes, an empty batch
    /// comes every second or so.
    fn open(&self, shard: &ShardId, from: Position) -> BoxStream<'static, Result<FeedBatch, EngineError>>;
}

/// Takes a region's announcements, at least once each.
pub trait Topic: Send + Sync + 'static {
    /// Publishes up to [`limits::PUBLISH_BATCH`] messages in one call. Returns the places of those
    /// that were refused, which may be none: the others are on their way.
    fn publish(&self, messages: Vec<String>) -> BoxFuture<'_, Result<Vec<usize>, EngineError>>;

    /// Checks that it is there, without publishing anything.
    fn look(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Delay before the next attempt at something that failed transiently `failures` times in a row (at
/// least once), with up to half of it left to chance.
pub fn retry_delay(failures: u32) -> Duration {
    let ceiling = limits::RETRY_FIRST * 2u32.saturating_pow(failures.saturating_sub(1).min(16));
    let ceiling = ceiling.min(limits::RETRY_MOST);
    ceiling.mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
pub(crate) mod committing;
#[cfg(test)]
pub(crate) mod contract;
