//! Bounds of the engines. The first group is DynamoDB's, Kinesis's and SNS's own.

use std::time::Duration;

use crate::model::size::KIB;

/// Parts of a transaction.
pub const TRANSACTION_ITEMS: usize = 100;
/// Items of a transaction together.
pub const TRANSACTION_BYTES: usize = 4 << 20;
pub const PARTITION_BYTES: usize = 2048;
pub const SORT_BYTES: usize = 1024;
/// Messages of one call to SNS.
pub const PUBLISH_BATCH: usize = 10;
/// Most bytes of one call to SNS.
pub const PUBLISH_BYTES: usize = 256 * KIB;

/// A body. A change travels with the item before and after it, in base64, and must stay below
/// 1 MiB, or the stream leaves it out.
pub const BODY_BYTES: usize = 256 * KIB;
/// A note.
pub const NOTE_BYTES: usize = 16 * KIB;
/// Bytes that an item takes besides its content.
pub const ITEM_OVERHEAD_BYTES: usize = 100;
/// Buckets over which the items of a type are spread.
pub const BUCKETS: u16 = 256;

/// The first wait before a retry, and the longest.
pub const RETRY_FIRST: Duration = Duration::from_millis(50);
pub const RETRY_MOST: Duration = Duration::from_secs(5);

/// Changes that the memory engine's feed keeps.
pub const MEMORY_FEED_CHANGES: usize = 200_000;
/// Changes in one batch of the embedded feeds.
pub const FEED_BATCH: usize = 500;
/// An embedded feed that has nothing to say says so this often.
pub const FEED_IDLE: Duration = Duration::from_secs(1);

/// A lease whose item has not changed for this long may be taken over.
pub const LEASE: Duration = Duration::from_secs(10);
/// Interval at which the holder renews the lease.
pub const LEASE_RENEWAL: Duration = Duration::from_secs(3);
/// Interval at which a candidate looks at the lease.
pub const LEASE_LOOK: Duration = Duration::from_secs(1);
/// Items of a lease, and some room for what is not ours.
pub const LEASE_ITEMS: usize = 10;
const _: () = assert!(LEASE_RENEWAL.as_millis() * 3 < LEASE.as_millis());

/// Least interval between checkpoints, those of all shards together.
pub const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);
/// Positions of one transaction, beside the check of the lease.
pub const CHECKPOINTS_AT_ONCE: usize = TRANSACTION_ITEMS - 1;
/// Time before the beginning of a scan from which the feed is read: by so much clocks may differ. A
/// feed must keep more than that; Kinesis keeps a day.
pub const BEGIN_MARGIN: Duration = Duration::from_secs(120);
/// Before a reader of a feed that was trimmed begins again.
pub const BEGIN_PAUSE: Duration = Duration::from_secs(5);
/// Bytes that redb keeps in memory; below it lies the system's own cache.
pub const REDB_CACHE_BYTES: usize = 64 << 20;
/// Transactions that wait for redb's one writer, together; they become one commit.
pub const REDB_QUEUE_BYTES: usize = 32 << 20;
/// Longest wait of a transaction for its part of that before it is refused, with nothing written.
pub const REDB_ROOM_WAIT: Duration = Duration::from_secs(10);
/// Writes that a follower has under way, each a call of its own.
pub const WRITES_AT_ONCE: usize = 32;
/// Writes that a follower has under way with redb, where what is under way together is one commit.
/// A view takes one or two, one after the other: so of two views of a record a third of these are
/// records in each commit, and more writers than that at once would run away. All followers'
/// largest writes are some ten queues of [`REDB_QUEUE_BYTES`], which a writer can wait for.
pub const REDB_WRITES_AT_ONCE: usize = 256;
/// Commits that follow one another before the turn to write is passed on, to what needs the file for
/// itself.
pub const REDB_COMMITS_AT_ONCE: usize = 16;
/// Reads of a redb file at once.
pub const REDB_READS: usize = 8;
/// Changes that a feed in redb keeps for readers that are behind, or away.
pub const REDB_FEED_CHANGES: u64 = 1_000_000;
/// Bytes of one page or one batch of redb, about.
pub const REDB_PAGE_BYTES: usize = 1 << 20;
/// Items or changes that one commit removes: others wait for it.
pub const REDB_REMOVED_AT_ONCE: usize = 2_000;
/// Between two such commits: writers come first.
pub const REDB_PACE: Duration = Duration::from_millis(50);
/// Interval of the search for what nobody needs any more.
pub const REDB_HOUSEKEEPING_EVERY: Duration = Duration::from_secs(60);
/// A feed keeps what is younger, even if all its readers have it: another one may begin.
pub const REDB_FEED_KEPT: Duration = Duration::from_secs(900);
const _: () = assert!(REDB_FEED_KEPT.as_millis() > 2 * BEGIN_MARGIN.as_millis());
/// A subscription counts as dead after this long without an event. Kinesis sends one at least every
/// five seconds.
pub const EVENT_GAP: Duration = Duration::from_secs(8);
/// Longest time from a subscription to its first event.
pub const SUBSCRIBE_WAIT: Duration = Duration::from_secs(10);
/// Silence of a subscription after which nothing is waiting in its connection.
pub const QUIET: Duration = Duration::from_millis(100);
/// Taken off the time that a shard was read through: for the way, and for clocks that differ.
pub const FEED_MARGIN: Duration = Duration::from_secs(1);
/// Between two reads of a shard that is polled. Kinesis allows five a second, for all its readers.
pub const POLL_EVERY: Duration = Duration::from_millis(250);
/// Records of one such read.
pub const POLL_RECORDS: i32 = 1_000;
/// Longest time until a table, stream or consumer is ready, and how often that is asked.
pub const CREATE_WAIT: Duration = Duration::from_secs(180);
pub const CREATE_LOOK: Duration = Duration::from_millis(250);

const _: () = assert!(TRANSACTION_BYTES <= REDB_QUEUE_BYTES, "else such a one would wait for ever");
const _: () = assert!(FEED_IDLE.as_millis() >= QUIET.as_millis());
const _: () = assert!(FEED_IDLE.as_millis() < EVENT_GAP.as_millis());
