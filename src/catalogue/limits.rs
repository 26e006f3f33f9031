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
/// What of a body that does not fit its type's schema is listed.
pub const VIOLATIONS: usize = 10;
/// A JSON Pointer in that list; the rest of a longer one is cut off.
pub const POINTER_BYTES: usize = 256;

/// How often a write is tried while others change the same record.
pub const WRITE_ATTEMPTS: u32 = 7;
/// How long an idempotency key is remembered.
pub const REMEMBERED: Duration = Duration::from_secs(24 * 3600);
/// An idempotency key, and a writer's name.
pub const IDEMPOTENCY_KEY_BYTES: usize = 255;
pub const WRITER_BYTES: usize = 255;
/// What a caller is told to wait after a refusal that may pass by itself, in seconds.
pub const RETRY_AFTER_SECONDS: u32 = 1;

/// Records on a page: without a `limit`, and at most.
pub const PAGE_RECORDS: usize = 50;
pub const PAGE_MOST_RECORDS: usize = 200;
/// Bodies on a page together, from which on it ends.
pub const PAGE_BYTES: usize = MIB;
/// Items that a page asks the store for at a time; each may hold a whole body.
pub const PAGE_STEP: usize = 16;
/// How often one page of a listing asks the store: enough for every bucket of a small type, so that
/// it fits on one page. A bucket may also hold many tombstones.
pub const PAGE_QUERIES: usize = 300;
/// Versions that one look at the end of a history reads.
pub const HISTORY_STEP: usize = 100;

/// Bytes of requests, and of pages being read, that are held at once; beyond it callers get 503.
pub const HELD_BYTES: u64 = 64 * MIB as u64;
/// What a page takes of it while it is read.
pub const PAGE_HELD_BYTES: u64 = (PAGE_BYTES + (PAGE_STEP + 1) * RECORD_BYTES) as u64;

const _: () = assert!(RECORD_BYTES <= BODY_BYTES);
const _: () = assert!(2 * BATCH_RECORDS < TRANSACTION_ITEMS, "records, their history, an idempotency key");
const _: () = assert!(PAGE_QUERIES > BUCKETS as usize);
const _: () = assert!(KEY_BYTES <= SORT_BYTES && IDEMPOTENCY_KEY_BYTES <= SORT_BYTES);
const _: () = {
    let item = 2 * (NAME_BYTES + KEY_BYTES) + ITEM_OVERHEAD_BYTES;
    let remembered = BATCH_RECORDS * 64 + WRITER_BYTES + IDEMPOTENCY_KEY_BYTES + KIB;
    assert!(2 * (BATCH_BYTES + BATCH_RECORDS * item) + remembered < TRANSACTION_BYTES);
};
