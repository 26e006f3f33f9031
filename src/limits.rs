//! Owns every bound in the program: sizes, counts, waits, concurrency.
//!
//! What a user may tune is in the configuration, whose defaults and ranges come from here. Invariant: the const
//! assertions at the end hold between them.

use std::time::Duration;

pub use self::announcement::*;
pub use self::bench::*;
pub use self::operator::*;
pub use self::protocol::*;
pub use self::world::*;

mod announcement;
mod bench;
mod operator;
mod protocol;
mod world;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

// -- the configuration --
/// Regions of one service: a [`crate::freshness::words::RegionSet`] has a bit for each.
pub const REGIONS: usize = 16;
/// Routes of one service.
pub const ROUTES: usize = 256;
/// A file of certificates, bytes: a bundle of all public CAs has a quarter of this.
pub const PEM_BYTES: u64 = MIB as u64;
/// How often files of secrets and certificates are looked at.
pub const WATCH_EVERY: Duration = Duration::from_secs(1);
/// Files that a reload reads are read within this, or the operator is told that they are not.
pub const RELOAD_WITHIN: Duration = Duration::from_secs(10);
/// Records whose entries are looked at before others run, when a reload took a route away.
pub const FORGOTTEN_AT_ONCE: usize = 64;
/// Record types that a process tells apart, those of routes that reloads took away included.
pub const RECORD_TYPES: usize = 8192;
/// Records that one path may name.
pub const RECORDS_PER_ROUTE: usize = 8;
/// Headers that one route may forward or hash.
pub const HEADERS_PER_ROUTE: usize = 16;
/// A configuration file, bytes.
pub const CONFIG_BYTES: u64 = MIB as u64;
/// Named segments of one path template.
pub const NAMES_PER_PATH: usize = 8;
/// Hosts that `listen.allowed_hosts` may name, and uids of `listen.unix_uids`.
pub const ALLOWED_CALLERS: usize = 64;
/// Tags that an operator may give the queues: AWS allows 50, of which Nearside sets five.
pub const QUEUE_TAGS: usize = 40;
/// The longest path of a Unix socket, bytes: `sun_path` less its end.
pub const SOCKET_PATH_BYTES: usize = 107;
/// A credentials or token file, bytes.
pub const TOKEN_BYTES: u64 = 16 * KIB as u64;

// -- a request --
/// Connections open at once over all listeners.
pub const CONNECTIONS: usize = 4096;
/// The most that `listen.max_connections` may ask for.
pub const CONNECTIONS_AT_MOST: usize = 65_536;
/// Streams open at once on one h2c connection.
pub const STREAMS_PER_CONNECTION: u32 = 256;
/// A request's line and headers together, bytes: more is 431.
pub const REQUEST_HEAD_BYTES: usize = 32 * KIB;
/// Headers of a request: more is 431.
pub const REQUEST_HEADERS: usize = 100;
/// A request's target, bytes: more is 414.
pub const REQUEST_TARGET_BYTES: usize = 8 * KIB;
/// A request's body, bytes: more is 413.
pub const REQUEST_BODY_BYTES: usize = 8 * MIB;
/// Bodies held in memory at once, of callers' requests and of regions' replies, bytes: the most, the least, and the part
/// of a cgroup's limit between the two. Beyond it a request is 503, and a reply is streamed unstored.
pub const BODIES_BYTES: u64 = 128 * MIB as u64;
/// See [`BODIES_BYTES`].
pub const LEAST_BODIES_BYTES: u64 = 9 * MIB as u64;
/// See [`BODIES_BYTES`].
pub const BODIES_SHARE: u64 = 8;
/// A body up to this is small, bytes, and so many bytes of the budget are for small ones alone.
pub const SMALL_BODY_BYTES: usize = 64 * KIB;
/// See [`SMALL_BODY_BYTES`].
pub const SMALL_BODIES_BYTES: usize = MIB;
/// What a body is first given, bytes; then as much as one on the heap may have, as a small one may have, and steps.
pub const FIRST_BODY_BYTES: usize = 4 * KIB;
/// A larger body lies in pages of its own while it comes, bytes.
pub const HEAP_BODY_BYTES: usize = 16 * KIB;
/// See [`FIRST_BODY_BYTES`].
pub const BODY_STEP_BYTES: usize = 256 * KIB;
/// A stored body from this on lies in pages of its own, bytes.
pub const MAPPED_BODY_BYTES: usize = 512 * KIB;
/// How long a new connection may stay silent before its first bytes show which protocol it speaks.
pub const SNIFF_WAIT: Duration = Duration::from_secs(5);
/// How long a request's line and headers may take to arrive.
pub const HEADER_WAIT: Duration = Duration::from_secs(10);
/// How long a request's body may take to arrive.
pub const REQUEST_BODY_WAIT: Duration = Duration::from_secs(30);
/// How long a kept-alive connection may idle between requests.
pub const IDLE_WAIT: Duration = Duration::from_secs(90);
/// What a connection's bytes are read into, bytes: a head beyond it is left to hyper.
pub const WIRE_BYTES: usize = 8 * KIB;
/// Header lines of a request that is answered without hyper.
pub const PLAIN_HEADERS: usize = 64;
/// Answers that are written together when their requests came together, bytes, before they are sent.
pub const ANSWERS_BYTES: usize = 64 * KIB;
/// Pieces of memory that a thread keeps for requests to come, and as many for their answers.
pub const SPARES: usize = 16;
/// The largest of them, bytes.
pub const SPARE_BYTES: usize = 2 * ANSWERS_BYTES;
/// Largest body that is stored and sent as one with its head; a larger one is sent from where it lies, bytes.
pub const COPIED_BODY_BYTES: usize = 16 * KIB;
/// The memory in which a thread writes the values of its answers' own headers, bytes; it serves again and again.
pub const HEADER_VALUES_BYTES: usize = 4 * KIB;
/// How much of it must be free for one value to be written without asking for more, bytes.
pub const HEADER_VALUE_ROOM: usize = 256;
/// How long a key may be for its memory to be kept for the next one, bytes.
pub const SPARE_KEY_BYTES: usize = 2 * KIB;

// -- the cache --
/// Largest body that is buffered and stored, bytes (DESIGN.md section 3).
pub const REPLY_BODY_BYTES: usize = 8 * MIB;
/// A reply's headers together, bytes.
pub const REPLY_HEAD_BYTES: usize = 64 * KIB;
/// What a compressed body may decode to for its digest, bytes.
pub const DECODED_BODY_BYTES: u64 = 64 * MIB as u64;
/// Content codings of one body that are taken off for its digest.
pub const CONTENT_CODINGS: usize = 4;
/// Largest zstd window, as a power of two: 8 MiB, what RFC 9659 allows the content coding.
pub const ZSTD_WINDOW_LOG: u32 = 23;
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
/// Times a reader's fill is begun anew when an announcement overtook its reply; then it is served, labelled.
pub const REFILLS: usize = 2;
/// Largest body whose digest is worked out where requests are served, bytes; larger ones go to a thread of their own.
pub const INLINE_DIGEST_BYTES: usize = 32 * KIB;
/// Such computations at once.
pub const COMPUTATIONS: usize = 2;
/// Fills under way at once.
pub const FILLS: usize = 8192;
/// Keys whose last fill failed and is remembered.
pub const REMEMBERED_ERRORS: usize = 65_536;
/// What remembered failures may take together, bytes: each holds the error that is passed on.
pub const REMEMBERED_ERROR_BYTES: usize = 32 * MIB;
/// Under a cgroup's limit: one in so many of its bytes, if that is less.
pub const REMEMBERED_ERRORS_SHARE: u64 = 32;
/// How often memory is looked at under a cgroup's limit, and how often entries go while it is short. What comes between
/// two looks is bounded: the store by its capacity, everything else by the budgets that the capacity leaves room for.
pub const MEMORY_TICK: Duration = Duration::from_millis(100);
/// How long a failed fill is remembered: doubling from the first to the second.
pub const ERROR_MEMORY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// A stored reply that was this old when it came is asked for end to end the next time.
pub const AGED: Duration = Duration::from_secs(2);
/// Rechecks that wait for their time at once; beyond it a provisional entry is rechecked by its next reader.
pub const PENDING_RECHECKS: usize = 1024;
/// Refetches after announcements, waiting out their jitter or under way; beyond it a changed entry waits for its reader.
pub const PENDING_REFETCHES: usize = 1024;
/// First and last wait before a provisional entry is rechecked (R5).
pub const RECHECK_WAIT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(60));
/// The audit's scales (R17): an entry is fresh within one when its change was announced that soon after first sight.
pub const AUDIT_WINDOWS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60)];
/// Between two steps of the audit: the period in this many, but no less and no more than these.
pub const AUDIT_STEP: (u32, Duration, Duration) = (600, Duration::from_millis(50), Duration::from_secs(1));
/// Entries that are due for their audit and wait for the background budget; what more comes due is skipped.
pub const AUDIT_BACKLOG: usize = 256;
/// Audits under way at once.
pub const AUDITS: usize = 32;
/// The audit's share of what background work may use: the rest is for rechecks and refetches.
pub const AUDIT_SHARE: f64 = 0.5;
/// Suspicions that are followed at once; at the least budget, fewer can be opened within the longest window.
pub const AUDIT_SUSPICIONS: usize = 1024;
/// Violations remembered; the oldest goes first.
pub const AUDIT_VIOLATIONS: usize = 64;
/// Identities per record beyond which callers seem to mint a new token per request.
pub const IDENTITIES_PER_RECORD: usize = 64;

// -- the race --
/// Requests under way at once to one region.
pub const PERMITS_PER_REGION: usize = 512;
/// The most that `race.permits` may ask for.
pub const PERMITS_PER_REGION_AT_MOST: usize = 4096;
/// Connections being opened at once to one region: 50 cold requests must not open 50 connections.
pub const CONNECTS_PER_REGION: usize = 8;
/// How long opening a connection to a region may take, TLS included.
pub const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// How long a connection to a region may idle before TCP and HTTP/2 ask whether the other side still lives.
pub const KEEPALIVE: Duration = Duration::from_secs(20);
/// Idle connections kept per region, and for how long.
pub const IDLE_PER_REGION: (usize, Duration) = (64, Duration::from_secs(55));
/// How long a connection is used before its region's name is resolved anew for the next one.
pub const CONNECTION_AGE: Duration = Duration::from_secs(300);
/// How long a connection that was opened ahead may wait for its first request; servers close silent ones after 60 s.
pub const READY_AGE: Duration = Duration::from_secs(45);
/// How often it is looked whether a region has a connection; doubles while none can be opened, up to the second.
pub const WARM_WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Longest wait for missing legs once all others answered below the floor.
pub const LATE_LEG_WAIT: Duration = Duration::from_millis(500);
/// What stands for the p95 of a region that has not answered yet.
pub const HEDGE_WAIT: Duration = Duration::from_millis(250);
/// Tokens for extra legs that a region holds at most.
pub const TOKENS_PER_REGION: f64 = 512.0;
/// Tokens that come back to a region per second whatever it answers.
pub const TOKENS_PER_SECOND: f64 = 2.0;
/// Latencies kept per region for its p50 and p95.
pub const LATENCIES: usize = 128;
/// Failures in a row that make a region an outlier.
pub const OUTLIER_FAILURES: u32 = 5;
/// The window in which a share of failures makes a region an outlier, and the fewest legs it takes.
pub const OUTLIER_WINDOW: (Duration, u32) = (Duration::from_secs(10), 20);
/// The share of failures in a window that makes a region an outlier.
pub const OUTLIER_SHARE: f64 = 0.5;
/// First and last wait before an outlier is probed again.
pub const PROBE_WAIT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// Longest Retry-After that is obeyed.
pub const RETRY_AFTER: Duration = Duration::from_secs(60);
/// Background legs per second and region, when a fifth of the foreground's is less.
pub const BACKGROUND_LEGS_PER_SECOND: u32 = 20;
/// Background legs as a share of foreground ones.
pub const BACKGROUND_SHARE: f64 = 0.2;
/// How long a streamed (too large to store) reply may pause between two chunks.
pub const STREAM_CHUNK_WAIT: Duration = Duration::from_secs(10);

const _: () = assert!(REGIONS <= 16, "a RegionSet has sixteen bits");
const _: () = assert!(REQUEST_TARGET_BYTES < REQUEST_HEAD_BYTES);
const _: () = assert!(ERROR_MEMORY.0.as_millis() < ERROR_MEMORY.1.as_millis());
const _: () = assert!(RECHECK_WAIT.0.as_millis() < RECHECK_WAIT.1.as_millis());
const _: () = assert!(REPLY_BODY_BYTES as u64 <= DECODED_BODY_BYTES);
const _: () = assert!(WORLD_KEY_BYTES <= RECORD_KEY_BYTES);
const _: () = assert!(ENDLESS_BYTES > REPLY_BODY_BYTES);
const _: () = assert!(2 * REGIONS <= CERTIFICATES);
const _: () = assert!(CERTIFICATE_FETCHES < UNKNOWN_CERTIFICATES, "fetches under way must leave room for others");
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
const _: () = assert!(CERTIFICATE_BYTES < ENVELOPE_BYTES);
const _: () = assert!(ENDLESS_BYTES > REPLY_BODY_BYTES);
const _: () = assert!(CONNECTIONS <= CONNECTIONS_AT_MOST);
const _: () = assert!(PERMITS_PER_REGION <= PERMITS_PER_REGION_AT_MOST);
const _: () = assert!(FLOOR_SLOTS.is_power_of_two());
const _: () = assert!(LEAST_FLOOR_SLOTS.is_power_of_two() && LEAST_FLOOR_SLOTS <= FLOOR_SLOTS);
const _: () = assert!((FLOOD_RECORDS as usize) < LEAST_FLOOR_SLOTS, "a flood is told before the table overflows");
const _: () = assert!(POLL_WAIT.as_secs() <= 20 && MESSAGES_PER_POLL <= 10, "SQS's own bounds");
const _: () = assert!(POLL_WAIT.as_millis() < POLL_ANSWER_WAIT.as_millis());
const _: () = assert!(CERTIFICATE_WAIT.as_millis() < VISIBILITY.as_millis(), "applied before it comes again");
const _: () = assert!(GATHER.as_millis() <= 50, "half of what promise 3 of FRESHNESS.md allows beside the lag");
const _: () = assert!(DELETE_WITHIN.as_millis() + AWS_CALL_WAIT.0.as_millis() < VISIBILITY.as_millis());
const _: () = assert!(VISIBILITY.as_millis() < RETENTION.as_millis(), "a message that failed comes again");
const _: () = assert!(
    ATTEST_EVERY.as_secs() + ATTEST_AGAIN.as_secs() * (1 + 2) * 3 / 2 < ATTESTED_FOR.as_secs(),
    "weak proof outlives two failed looks, each followed by its longest wait"
);
const _: () = assert!(
    ATTEST_FIRST.as_secs() + ATTEST_AGAIN.as_secs() * 3 / 2 < WEAK_PROOF_AFTER.as_secs() + WEAK_LEASE.as_secs(),
    "a new subscription outlives a first look that failed"
);
const _: () = assert!(
    ATTESTED_FLEET.0 * 8 / (7 * ATTEST_EVERY.as_secs()) < ATTESTED_FLEET.1 * 3 / 4,
    "the looks of a fleet (an eighth earlier on average, for jitter) leave a quarter of the calls to others"
);
const _: () = assert!(TAG_EVERY.as_secs() * 12 < ABANDONED.as_secs(), "no janitor takes a queue that lives");
const _: () = assert!(AWS_CALL_WAIT.1.as_millis() < AWS_CALL_WAIT.0.as_millis());
const _: () = assert!(INVALIDATIONS.is_power_of_two());
const _: () = assert!(ROUTES * RECORDS_PER_ROUTE * 2 <= RECORD_TYPES && RECORD_TYPES <= u16::MAX as usize);
const _: () = assert!(INDEX_SHARDS.is_power_of_two());
const _: () = assert!(READ_BODY_BYTES >= REPLY_HEAD_BYTES, "the buffer a head is read into holds no more");
const _: () = assert!(COPIED_BODY_BYTES <= READ_BODY_BYTES);
const _: () = assert!(VARY_SETS_PER_URI <= VARIANTS_PER_URI);
const _: () = assert!(AUDIT_WINDOWS[0].as_millis() < AUDIT_WINDOWS[1].as_millis());
const _: () = assert!(AUDIT_WINDOWS[1].as_millis() < AUDIT_WINDOWS[2].as_millis());
const _: () =
    assert!(AUDIT_STEP.1.as_millis() < AUDIT_STEP.2.as_millis() && AUDIT_STEP.2.as_millis() < PAUSE.as_millis());
const _: () = assert!(BACKGROUND_LEGS_PER_SECOND as u64 * AUDIT_WINDOWS[2].as_secs() / 2 < AUDIT_SUSPICIONS as u64);
const _: () = assert!(RECORD_SHARDS.is_power_of_two() && RECORD_SHARDS < FLOOR_SLOTS / 4);
const _: () = assert!(RECORD_SHARDS <= DOUBTS.0 && DOUBTS.0 <= DOUBTS.1);
const _: () = assert!(HOLE_WINDOW.as_millis() < STRONG_LEASE.as_millis());
const _: () = assert!(PAST_WINDOW.as_millis() < HOLE_WINDOW.as_millis());
const _: () = assert!(STRONG_LEASE.as_millis() + SUSPECT_FOR.as_millis() == 60_000);
