//! The bounds of this room. What a user may tune has its default and range here.

use crate::config::limits::PERMITS_PER_REGION;
use crate::http::limits::{
    BODIES_BYTES, BODY_STEP_BYTES, FIRST_BODY_BYTES, HEAP_BODY_BYTES, REPLY_BODY_BYTES, REPLY_HEAD_BYTES,
    REQUEST_BODY_BYTES, SMALL_BODIES_BYTES, SMALL_BODY_BYTES,
};
use crate::model::size::{KIB, MIB};
use crate::protocol::limits::{FLOOD_RECORDS, FLOOR_SLOTS};

/// See [`BODIES_BYTES`].
pub const LEAST_BODIES_BYTES: u64 = 9 * MIB as u64;
/// See [`BODIES_BYTES`].
pub const BODIES_SHARE: u64 = 8;
/// Largest body that is stored and sent as one with its head; a larger one is sent from where it lies, bytes.
pub const COPIED_BODY_BYTES: usize = 16 * KIB;
/// How long a key may be for its memory to be kept for the next one, bytes.
pub const SPARE_KEY_BYTES: usize = 2 * KIB;
/// Representations that one unrouted URI may have under its `Vary`; the oldest goes first.
pub const VARIANTS_PER_URI: usize = 64;
/// Sets of header names under which one unrouted URI's replies vary; the oldest goes first.
pub const VARY_SETS_PER_URI: usize = 4;
/// Header names that one `Vary` may nominate; a reply with more is not stored.
pub const VARY_NAMES: usize = 16;
/// Largest body that is copied out of the buffer it was read into, bytes: what one read of a connection brings at most.
pub const READ_BODY_BYTES: usize = 64 * KIB;
/// Places that remember the header lines of requests, for entries that ask alike to share; and the longest that are, bytes.
pub const SHARED_REQUESTS: usize = 64;
/// See [`SHARED_REQUESTS`].
pub const SHARED_REQUEST_BYTES: usize = 4 * KIB;
/// Locks over which what is kept is spread.
pub const STORE_SHARDS: usize = 64;
/// Slots that the hand of one shard looks at, at most, before another's moves.
pub const STORE_HAND: usize = 16;
/// What came lately may take one in so many bytes of the capacity before it pushes out what is established.
pub const PROBATION: u64 = 5;
/// Places that remember when an unrouted URI was last invalidated; two that share one cost a stored reply, no more.
pub const INVALIDATIONS: usize = 4096;
/// The cache's part of the memory there is, where the settings do not say: one in so many bytes of a cgroup's limit, and of
/// a machine without one.
pub const CACHE_SHARE: (u64, u64) = (2, 16);
/// The least that the cache is given, bytes.
pub const LEAST_CAPACITY: u64 = 16 * MIB as u64;
/// What the process takes beyond the cache and what has a budget of its own, bytes: stacks, tables, connections, races
/// under way, what the allocator keeps. 10 MiB were measured with 64 callers at some thousand misses a second.
pub const PROCESS_BYTES: u64 = 16 * MIB as u64;
/// The least memory that a container may have, bytes.
pub const LEAST_CONTAINER: u64 = 64 * MIB as u64;
/// Under a cgroup's limit there may be an undecided race for each so many of its bytes, and as many requests to each
/// region; but this many races always.
pub const BYTES_PER_RACE: u64 = 256 * KIB as u64;
/// See [`BYTES_PER_RACE`].
pub const LEAST_RACES: usize = 64;
/// What a machine has that does not say, bytes.
pub const LEAST_MEMORY: u64 = 64 * MIB as u64;
/// Shares of a cgroup's limit from which background work is put off, and from which entries go.
pub const MEMORY_PRESSURE: (f64, f64) = (0.85, 0.92);
/// What is given up with each look while entries go, as a share of what is kept: one in so many bytes.
pub const GIVEN_UP: u64 = 20;
/// Bytes of it between which the records are told of that have lost their last entry: fewer than [`UNTOLD_RELEASES`].
pub const GIVEN_UP_STEP: u64 = MIB as u64;
/// Locks over which the index from records to keys is spread.
pub const INDEX_SHARDS: usize = 64;
/// Records whose last entry has gone and that are not yet told of; beyond it the store stops to tell them. More than the
/// smallest entries that make room for the largest body.
pub const UNTOLD_RELEASES: usize = 32_768;
/// Longest freshness lifetime that is told apart, seconds (RFC 9111, 1.2.2).
pub const DELTA_SECONDS: u64 = 1 << 31;
/// Entity tags of a caller's `If-None-Match` that are compared.
pub const ENTITY_TAGS: usize = 256;
/// Targets that one unsafe request may invalidate: its own, and two readings each of `Location` and `Content-Location`.
pub const INVALIDATED_TARGETS: usize = 5;
/// Entries that one record may be indexed under; beyond it new ones are served but not stored.
pub const ENTRIES_PER_RECORD: usize = 4096;
/// Fills under way at once.
pub const FILLS: usize = 8192;
/// What remembered failures may take together, bytes: each holds the error that is passed on.
pub const REMEMBERED_ERROR_BYTES: usize = 32 * MIB;
/// Under a cgroup's limit: one in so many of its bytes, if that is less.
pub const REMEMBERED_ERRORS_SHARE: u64 = 32;
/// An SNS envelope, bytes: SNS allows 256 KiB of message and attributes. Quotes and line ends of a text that is JSON itself
/// double it at most, and text outside ASCII triples where it is escaped.
pub const ENVELOPE_BYTES: usize = MIB;
/// Envelopes held at once by the announcement endpoint, bytes: as many small ones as there are connections, and large
/// ones besides; beyond it SNS is asked to come again.
pub const ENVELOPES_BYTES: usize = ENDPOINT_CONNECTIONS * SMALL_ENVELOPE_BYTES + 2 * ENVELOPE_BYTES;
/// An envelope up to this always has room, bytes.
pub const SMALL_ENVELOPE_BYTES: usize = 16 * KIB;
/// What a slot takes, bytes; under a cgroup's limit the table may take one in so many of its bytes, but this many slots are
/// always there.
pub const FLOOR_SLOT_BYTES: u64 = 32;
/// See [`FLOOR_SLOT_BYTES`].
pub const FLOORS_SHARE: u64 = 16;
/// See [`FLOOR_SLOT_BYTES`].
pub const LEAST_FLOOR_SLOTS: usize = 1 << 17;
/// Connections open at once to the announcement endpoint.
pub const ENDPOINT_CONNECTIONS: usize = 256;

const _: () = assert!(LEAST_BODIES_BYTES <= BODIES_BYTES && BODIES_BYTES <= u32::MAX as u64);
const _: () = assert!(
    LEAST_CAPACITY
        + PROCESS_BYTES
        + LEAST_FLOOR_SLOTS as u64 * FLOOR_SLOT_BYTES
        + LEAST_BODIES_BYTES
        + ENVELOPES_BYTES as u64
        + LEAST_CONTAINER / REMEMBERED_ERRORS_SHARE
        <= LEAST_CONTAINER,
    "everything together fits into the least container"
);
const _: () = assert!(LEAST_RACES <= FILLS && LEAST_RACES <= PERMITS_PER_REGION);
const _: () = assert!(REQUEST_BODY_BYTES + SMALL_BODIES_BYTES <= LEAST_BODIES_BYTES as usize, "the largest has room");
const _: () = assert!(REPLY_BODY_BYTES + SMALL_BODIES_BYTES <= LEAST_BODIES_BYTES as usize, "the largest has room");
const _: () = assert!(FIRST_BODY_BYTES <= HEAP_BODY_BYTES && HEAP_BODY_BYTES <= SMALL_ENVELOPE_BYTES);
const _: () = assert!(SMALL_ENVELOPE_BYTES <= SMALL_BODY_BYTES && SMALL_BODY_BYTES <= BODY_STEP_BYTES);
const _: () = assert!(COPIED_BODY_BYTES <= SMALL_BODY_BYTES && 8 * SMALL_BODY_BYTES <= SMALL_BODIES_BYTES);
const _: () = assert!(3 * 256 * KIB <= ENVELOPE_BYTES, "what SNS lets publish, escaped");
const _: () = assert!(LEAST_FLOOR_SLOTS.is_power_of_two() && LEAST_FLOOR_SLOTS <= FLOOR_SLOTS);
const _: () = assert!((FLOOD_RECORDS as usize) < LEAST_FLOOR_SLOTS, "a flood is told before the table overflows");
const _: () = assert!(INVALIDATIONS.is_power_of_two());
const _: () = assert!(INDEX_SHARDS.is_power_of_two());
const _: () = assert!(READ_BODY_BYTES >= REPLY_HEAD_BYTES, "the buffer a head is read into holds no more");
const _: () = assert!(COPIED_BODY_BYTES <= READ_BODY_BYTES);
const _: () = assert!(VARY_SETS_PER_URI <= VARIANTS_PER_URI);
