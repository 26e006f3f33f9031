//! Bounds of the cache module.

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
/// Largest body that is stored and sent together with its head, in bytes. A larger one is sent from
/// where it lies.
pub const COPIED_BODY_BYTES: usize = 16 * KIB;
/// Longest key whose memory is kept for the next one, in bytes.
pub const SPARE_KEY_BYTES: usize = 2 * KIB;
/// Representations that one unrouted URI may have under its `Vary`; the oldest is dropped first.
pub const VARIANTS_PER_URI: usize = 64;
/// Sets of header names by which one unrouted URI's replies may vary; the oldest is dropped first.
pub const VARY_SETS_PER_URI: usize = 4;
/// Header names that one `Vary` may nominate; a reply with more is not stored.
pub const VARY_NAMES: usize = 16;
/// Largest body that is copied out of its read buffer, in bytes: the most that one read of a
/// connection returns.
pub const READ_BODY_BYTES: usize = 64 * KIB;
/// Places in the table of request header lines that entries share.
pub const SHARED_REQUESTS: usize = 64;
/// Largest set of request header lines that is shared, in bytes.
pub const SHARED_REQUEST_BYTES: usize = 4 * KIB;
/// Shards of the store, each with its own lock.
pub const STORE_SHARDS: usize = 64;
/// Slots that one shard's hand inspects, at most, before the next shard's turn.
pub const STORE_HAND: usize = 16;
/// New arrivals may take one in this many bytes of the capacity before they push out established
/// entries.
pub const PROBATION: u64 = 5;
/// Places that remember when an unrouted URI was last invalidated. Two URIs that share one cost a
/// stored reply, no more.
pub const INVALIDATIONS: usize = 4096;
/// The cache's share of memory when the settings do not say: one in this many bytes of a cgroup's
/// limit, and of a machine without one.
pub const CACHE_SHARE: (u64, u64) = (2, 16);
/// The least that the cache is given, in bytes.
pub const LEAST_CAPACITY: u64 = 16 * MIB as u64;
/// Bytes that the process needs besides the cache and everything that has a budget of its own:
/// stacks, tables, connections to regions, running races, what the allocator retains. 10 MiB were
/// measured with 64 callers at some thousand misses a second.
pub const PROCESS_BYTES: u64 = 16 * MIB as u64;
/// Under a cgroup's limit, connections and what peers make us hold by them may take one in this many
/// of its bytes, half of it for idle connections and half for what is half sent or under way.
pub const PEERS_SHARE: u64 = 8;
/// Never less than this.
pub const LEAST_PEERS_BYTES: u64 = 8 * MIB as u64;
/// Peers who take nothing of what waits for them are closed when the kernel buffers more than one
/// in this many bytes of the limit.
pub const SOCKETS_SHARE: u64 = 4;
/// The least memory that a container may have, in bytes.
pub const LEAST_CONTAINER: u64 = 64 * MIB as u64;
/// Under a cgroup's limit, one undecided race is allowed per this many bytes of it. Three replies of
/// 100 KiB, the buffers of their connections and what the allocator keeps of them take an eighth
/// of that: 32 at once stayed below the least container's limit, 48 did not.
pub const BYTES_PER_RACE: u64 = 4 * MIB as u64;
/// Never fewer than this.
pub const LEAST_RACES: usize = 16;
/// Under a cgroup's limit, one request to each region may be under way per this many bytes of it,
/// but never fewer than [`LEAST_PERMITS`].
pub const BYTES_PER_PERMIT: u64 = 256 * KIB as u64;
/// See [`BYTES_PER_PERMIT`].
pub const LEAST_PERMITS: usize = 64;
/// Assumed memory of a machine that does not say, in bytes.
pub const LEAST_MEMORY: u64 = 64 * MIB as u64;
/// Shares of a cgroup's limit above which background work is put off, and above which entries are
/// evicted.
pub const MEMORY_PRESSURE: (f64, f64) = (0.85, 0.92);
/// While entries are evicted for lack of memory, each check gives up one in this many bytes of what
/// is kept.
pub const GIVEN_UP: u64 = 20;
/// Giving up entries is interrupted after this many bytes to report the records that lost their
/// last entry. That keeps them fewer than [`UNTOLD_RELEASES`].
pub const GIVEN_UP_STEP: u64 = MIB as u64;
/// Shards of the index from records to keys, each with its own lock.
pub const INDEX_SHARDS: usize = 64;
/// Records that have lost their last entry and wait to be reported; any more are not noted. More
/// than the number of smallest entries that make room for the largest body.
pub const UNTOLD_RELEASES: usize = 32_768;
/// Freshness lifetimes are capped at this many seconds (RFC 9111, 1.2.2).
pub const DELTA_SECONDS: u64 = 1 << 31;
/// Entity tags of a caller's `If-None-Match` that are compared.
pub const ENTITY_TAGS: usize = 256;
/// Targets that one unsafe request may invalidate: its own, and two readings each of `Location` and
/// `Content-Location`.
pub const INVALIDATED_TARGETS: usize = 5;
/// Entries that one record may be indexed under. Any more are served but not stored.
pub const ENTRIES_PER_RECORD: usize = 4096;
/// Fills running at once.
pub const FILLS: usize = 8192;
/// Most bytes taken by all remembered failures. Each holds the error that is passed on.
pub const REMEMBERED_ERROR_BYTES: usize = 32 * MIB;
/// Under a cgroup's limit, remembered failures may take one in this many of its bytes, if that is
/// less.
pub const REMEMBERED_ERRORS_SHARE: u64 = 32;
/// Largest SNS envelope, in bytes. SNS allows 256 KiB of message and attributes. If the text is
/// JSON itself, escaped quotes and line ends at most double it; text outside ASCII triples when it
/// is escaped.
pub const ENVELOPE_BYTES: usize = MIB;
/// Envelopes that the announcement endpoint holds at once, in bytes: room for one small envelope
/// per connection, and for large ones besides. Beyond it SNS is asked to try again.
pub const ENVELOPES_BYTES: usize = ENDPOINT_CONNECTIONS * SMALL_ENVELOPE_BYTES + 2 * ENVELOPE_BYTES;
/// Largest envelope that always has room, in bytes.
pub const SMALL_ENVELOPE_BYTES: usize = 16 * KIB;
/// Bytes of a slot of the floor table. Under a cgroup's limit the table may take one in
/// [`FLOORS_SHARE`] of its bytes, but there are always at least [`LEAST_FLOOR_SLOTS`] slots.
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
        + LEAST_PEERS_BYTES
        + ENVELOPES_BYTES as u64
        + LEAST_CONTAINER / REMEMBERED_ERRORS_SHARE
        <= LEAST_CONTAINER,
    "everything together fits into the least container"
);
const _: () = assert!(LEAST_RACES <= FILLS && LEAST_RACES <= LEAST_PERMITS && LEAST_PERMITS <= PERMITS_PER_REGION);
const _: () = assert!(BYTES_PER_PERMIT <= BYTES_PER_RACE, "a race always has its permits");
const _: () = assert!(REQUEST_BODY_BYTES + SMALL_BODIES_BYTES <= LEAST_BODIES_BYTES as usize, "the largest has room");
const _: () = assert!(REPLY_BODY_BYTES + SMALL_BODIES_BYTES <= LEAST_BODIES_BYTES as usize, "the largest has room");
const _: () = assert!(FIRST_BODY_BYTES <= HEAP_BODY_BYTES && HEAP_BODY_BYTES <= SMALL_ENVELOPE_BYTES);
const _: () = assert!(SMALL_ENVELOPE_BYTES <= SMALL_BODY_BYTES && SMALL_BODY_BYTES <= BODY_STEP_BYTES);
const _: () = assert!(COPIED_BODY_BYTES <= SMALL_BODY_BYTES && 8 * SMALL_BODY_BYTES <= SMALL_BODIES_BYTES);
const _: () = assert!(3 * 256 * KIB <= ENVELOPE_BYTES, "what SNS lets publish, escaped");
const _: () = assert!(LEAST_FLOOR_SLOTS.is_power_of_two() && LEAST_FLOOR_SLOTS <= FLOOR_SLOTS);
const _: () = assert!((FLOOD_RECORDS as usize) < LEAST_FLOOR_SLOTS, "a flood is seen before the table overflows");
const _: () = assert!(INVALIDATIONS.is_power_of_two());
const _: () = assert!(INDEX_SHARDS.is_power_of_two());
const _: () = assert!(READ_BODY_BYTES >= REPLY_HEAD_BYTES, "the buffer a head is read into holds no more");
const _: () = assert!(COPIED_BODY_BYTES <= READ_BODY_BYTES);
const _: () = assert!(VARY_SETS_PER_URI <= VARIANTS_PER_URI);
