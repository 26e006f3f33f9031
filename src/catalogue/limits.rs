//! Bounds of the catalogue.

use std::time::Duration;

use crate::engine::limits::{
    BODY_BYTES, BUCKETS, ITEM_OVERHEAD_BYTES, SORT_BYTES, TRANSACTION_BYTES, TRANSACTION_ITEMS,
};
use crate::model::names::{KEY_BYTES, NAME_BYTES};
use crate::model::size::{KIB, MIB};

/// The record types that a configuration may list.
pub const TYPES: usize = 256;
/// A record's body.
pub const RECORD_BYTES: usize = 256 * KIB;
/// Objects and arrays in each other, the body itself included.
pub const NESTING: usize = 32;
/// Records that one batch may write.
pub const BATCH_RECORDS: usize = 49;
/// A batch: its request's body, and so the bodies in it together.
pub const BATCH_BYTES: usize = 1_800_000;
/// Subschemas that one request's bodies are evaluated against, all in all; each may take a
/// microsecond. A large record of an ordinary type takes some thousands.
pub const CHECK_STEPS: u64 = 1_000_000;
/// Those that a thread which serves other requests evaluates itself.
pub const QUICK_STEPS: u64 = 5_000;
/// Those that go into a list of what is wrong.
pub const LISTED_STEPS: u64 = 50_000;
/// Longest wait of a check for its turn on a thread of its own.
pub const CHECK_WAIT: Duration = Duration::from_secs(5);
/// Upper bound on the violations that are listed of a body that does not fit its type's schema.
pub const VIOLATIONS: usize = 10;
/// A JSON Pointer in that list; the rest of a longer one is cut off.
pub const POINTER_BYTES: usize = 256;

/// Time after the first failure for which a record is read again that the store does not give: unlike
/// a region's reads, nobody sends a second one beside it. The last read may end a second later.
pub const READ_AGAIN: Duration = Duration::from_secs(1);
/// Number of tries of a write while others change the same record.
pub const WRITE_ATTEMPTS: u32 = 7;
/// Retention of an idempotency key.
pub const REMEMBERED: Duration = Duration::from_secs(24 * 3600);
pub const IDEMPOTENCY_KEY_BYTES: usize = 255;
/// `Retry-After` of a refusal that may pass by itself, in seconds.
pub const RETRY_AFTER_SECONDS: u32 = 1;

/// Records on a page: without a `limit`, and at most.
pub const PAGE_RECORDS: usize = 50;
pub const PAGE_MOST_RECORDS: usize = 200;
/// Bodies on a page together, from which on it ends.
pub const PAGE_BYTES: usize = MIB;
/// Items that a page asks the store for at a time, however many buckets they are from; each may
/// hold a whole body.
pub const PAGE_STEP: usize = 16;
/// Buckets that a listing reads at once, while they hold little.
pub const PAGE_BUCKETS: u16 = 8;
/// Queries of the store for one page of a listing: enough for every bucket of a small type, so that
/// it fits on one page. A bucket may also hold many tombstones.
pub const PAGE_QUERIES: usize = 300;
/// Records that one step of a walk over a type reads, each with its body.
pub const WALK_STEP: usize = 32;
/// Versions that one look at the end of a history reads.
pub const HISTORY_STEP: usize = 100;

/// Bytes of requests that are held at once; beyond it callers get 503.
pub const HELD_BYTES: u64 = 64 * MIB as u64;
/// Bytes of pages that are being read, or are on their way to their callers; of its own, so that
/// readers do not keep writers out.
pub const PAGES_HELD_BYTES: u64 = 64 * MIB as u64;
/// The records of a page: the last one may go beyond its size. In JSON, an escaped byte of a key
/// takes six; 100 go to what is around a record.
pub const PAGE_MOST_BYTES: usize = PAGE_BYTES + RECORD_BYTES + PAGE_MOST_RECORDS * (6 * KEY_BYTES + 100);
/// Cost of a page in bytes while it is read: the store's items, the records, and their JSON. Then
/// its JSON alone counts.
pub const PAGE_HELD_BYTES: u64 = (PAGE_STEP * RECORD_BYTES + 2 * PAGE_MOST_BYTES) as u64;

/// Bytes of a reason that a writer gives.
pub const REASON_BYTES: usize = 256;
/// Bytes of a note in the history.
pub const CHANGE_NOTE_BYTES: usize = 4 * KIB;

const _: () = assert!(QUICK_STEPS < LISTED_STEPS && LISTED_STEPS < CHECK_STEPS);
const _: () = assert!(PAGES_HELD_BYTES / PAGE_HELD_BYTES >= 8);
const _: () = assert!(PAGE_STEP >= PAGE_BUCKETS as usize && BUCKETS.is_multiple_of(PAGE_BUCKETS));
const _: () = assert!(RECORD_BYTES <= BODY_BYTES);
const _: () = assert!(2 * BATCH_RECORDS < TRANSACTION_ITEMS, "records, their history, an idempotency key");
const _: () = assert!(PAGE_QUERIES > BUCKETS as usize);
const _: () = assert!(KEY_BYTES <= SORT_BYTES && IDEMPOTENCY_KEY_BYTES <= SORT_BYTES);
const _: () = {
    let item = 2 * (NAME_BYTES + KEY_BYTES) + ITEM_OVERHEAD_BYTES;
    let remembered = BATCH_RECORDS * 64 + 2 * (NAME_BYTES + IDEMPOTENCY_KEY_BYTES) + KIB;
    let notes = BATCH_RECORDS * CHANGE_NOTE_BYTES;
    assert!(2 * (BATCH_BYTES + BATCH_RECORDS * item) + notes + remembered < TRANSACTION_BYTES);
};
/// Interval between two looks at the grants.
pub const GRANTS_EVERY: Duration = Duration::from_secs(5);
