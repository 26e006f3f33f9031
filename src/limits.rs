//! Owns every bound in the program: sizes, counts, waits, concurrency.
//!
//! What a user may tune is in the configuration, whose defaults and ranges come from here. Invariant: the const
//! assertions at the end hold between them.

use std::time::Duration;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

// -- the configuration --
/// Regions of one service: a [`crate::freshness::words::RegionSet`] has a bit for each.
pub const REGIONS: usize = 16;
/// Routes of one service.
pub const ROUTES: usize = 256;
/// Records that one path may name.
pub const RECORDS_PER_ROUTE: usize = 8;
/// Headers that one route may forward or hash.
pub const HEADERS_PER_ROUTE: usize = 16;
/// A configuration file, bytes.
pub const CONFIG_BYTES: u64 = MIB as u64;
/// A credentials or token file, bytes.
pub const TOKEN_BYTES: u64 = 16 * KIB as u64;

// -- a request --
/// Connections open at once over all listeners.
pub const CONNECTIONS: usize = 4096;
/// Connections open at once to the admin port.
pub const ADMIN_CONNECTIONS: usize = 64;
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
/// How long a new connection may stay silent before its first bytes show which protocol it speaks.
pub const SNIFF_WAIT: Duration = Duration::from_secs(5);
/// How long a request's line and headers may take to arrive.
pub const HEADER_WAIT: Duration = Duration::from_secs(10);
/// How long a request's body may take to arrive.
pub const REQUEST_BODY_WAIT: Duration = Duration::from_secs(30);
/// How long a kept-alive connection may idle between requests.
pub const IDLE_WAIT: Duration = Duration::from_secs(90);

// -- the cache --
/// Largest body that is buffered and stored, bytes (DESIGN.md section 3).
pub const REPLY_BODY_BYTES: usize = 8 * MIB;
/// A reply's headers together, bytes.
pub const REPLY_HEAD_BYTES: usize = 64 * KIB;
/// What a compressed body may decode to for its digest, bytes.
pub const DECODED_BODY_BYTES: u64 = 64 * MIB as u64;
/// Entries that one record may be indexed under; beyond it new ones are served but not stored.
pub const ENTRIES_PER_RECORD: usize = 4096;
/// Fills under way at once.
pub const FILLS: usize = 8192;
/// Keys whose last fill failed and is remembered.
pub const REMEMBERED_ERRORS: u64 = 65_536;
/// How long a failed fill is remembered: doubling from the first to the second.
pub const ERROR_MEMORY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// Rechecks that wait for their time at once; beyond it a provisional entry is rechecked by its next reader.
pub const PENDING_RECHECKS: usize = 1024;
/// First and last wait before a provisional entry is rechecked (R5).
pub const RECHECK_WAIT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(60));
/// Identities per record beyond which callers seem to mint a new token per request.
pub const IDENTITIES_PER_RECORD: usize = 64;

// -- the race --
/// Requests under way at once to one region.
pub const PERMITS_PER_REGION: usize = 512;
/// Connections being opened at once to one region: 50 cold requests must not open 50 connections.
pub const CONNECTS_PER_REGION: usize = 8;
/// Longest wait for missing legs once all others answered below the floor.
pub const LATE_LEG_WAIT: Duration = Duration::from_millis(500);
/// Longest Retry-After that is obeyed.
pub const RETRY_AFTER: Duration = Duration::from_secs(60);
/// Background legs per second and region, when a fifth of the foreground's is less.
pub const BACKGROUND_LEGS_PER_SECOND: u32 = 20;
/// Background legs as a share of foreground ones.
pub const BACKGROUND_SHARE: f64 = 0.2;
/// How long a streamed (too large to store) reply may pause between two chunks.
pub const STREAM_CHUNK_WAIT: Duration = Duration::from_secs(10);

// -- an announcement --
/// An SNS envelope, bytes: SNS allows 256 KiB of message, escaped in JSON.
pub const ENVELOPE_BYTES: usize = 2 * MIB;
/// A record key in an announcement, bytes.
pub const RECORD_KEY_BYTES: usize = 2 * KIB;
/// Signing certificates kept.
pub const CERTIFICATES: usize = 16;
/// A signing certificate (with its chain), bytes.
pub const CERTIFICATE_BYTES: usize = 64 * KIB;
/// How long a certificate fetch may take.
pub const CERTIFICATE_WAIT: Duration = Duration::from_secs(5);
/// Messages verified and not yet applied, per region.
pub const PENDING_ANNOUNCEMENTS: usize = 1024;
/// Message ids remembered per process to drop second copies before they are verified.
pub const REMEMBERED_MESSAGES: usize = 65_536;
/// Slots of the table that keeps floors of records without an entry (FRESHNESS.md, State).
pub const FLOOR_SLOTS: usize = 1 << 20;
/// Publishers remembered per region.
pub const PUBLISHERS_PER_REGION: usize = 256;
/// Holes remembered per publisher; beyond it the epoch moves at once.
pub const HOLES_PER_PUBLISHER: usize = 64;

// -- the protocol (FRESHNESS.md) --
/// How long a strong proof (a message) carries full-length entries (R9).
pub const STRONG_LEASE: Duration = Duration::from_secs(15);
/// How long a weak proof (a poll and the subscription's attributes) does (R9).
pub const WEAK_LEASE: Duration = Duration::from_secs(75);
/// How long after subscribing the weak grade begins.
pub const WEAK_PROOF_AFTER: Duration = Duration::from_secs(60);
/// How long past its lease a region stays SUSPECT: 60 s of silence with a strong lease, then DEAD.
pub const SUSPECT_FOR: Duration = Duration::from_secs(45);
/// How long a made subscription may stay without a strong proof before it is DEAD; with the weak grade allowed it
/// gets a weak lease on top.
pub const PROBE_WAIT: Duration = Duration::from_secs(60);
/// First and longest wait before a subscription is made anew; it doubles with each that dies unproven.
pub const RESUBSCRIBE_WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// No step for this long: the process was paused, and the silence is its own rather than a region's.
pub const PAUSE: Duration = Duration::from_secs(10);
/// How long a hole in a publisher's numbers may stay open before the region's epoch moves (R10).
pub const HOLE_WINDOW: Duration = Duration::from_secs(10);
/// Undecodable messages move a region's epoch at most once in this (R14), the last at its end.
pub const UNDECODABLE_WINDOW: Duration = Duration::from_secs(10);
/// A publisher counts for its region's watermark when it was heard in this.
pub const ACTIVE_PUBLISHER: Duration = Duration::from_secs(60);
/// A publisher first heard this long after subscribing is a new one, which numbers from 1.
pub const NEW_PUBLISHER_AFTER: Duration = Duration::from_secs(30);
/// Heartbeats per publisher that wait for a hole before them to close.
pub const WAITING_HEARTBEATS: usize = 8;
/// The slot in which copies of a path heartbeat share one number.
pub const HEARTBEAT_SLOT: Duration = Duration::from_secs(5);
/// How many slots ahead of its receipt a path heartbeat may claim to be.
pub const HEARTBEAT_SLOTS_AHEAD: u64 = 2;
/// A record read in this is refetched as soon as a change is announced.
pub const READ_LATELY: Duration = Duration::from_secs(60);
/// Refetches that one announcement may start; the rest of a mass RELOAD waits for readers.
pub const REFETCHES_PER_STEP: usize = 1024;
/// Shards that share the records' locks.
pub const RECORD_SHARDS: usize = 64;
/// Records per shard whose floor is doubted (R15) at once; the oldest doubt makes way.
pub const DOUBTS_PER_SHARD: usize = 256;
/// Versions from here on are nobody's (R15).
pub const VERSION_CEILING: u64 = 1 << 62;

const _: () = assert!(REGIONS <= 16, "a RegionSet has sixteen bits");
const _: () = assert!(REQUEST_TARGET_BYTES < REQUEST_HEAD_BYTES);
const _: () = assert!(ERROR_MEMORY.0.as_millis() < ERROR_MEMORY.1.as_millis());
const _: () = assert!(RECHECK_WAIT.0.as_millis() < RECHECK_WAIT.1.as_millis());
const _: () = assert!(REPLY_BODY_BYTES as u64 <= DECODED_BODY_BYTES);
const _: () = assert!(FLOOR_SLOTS.is_power_of_two());
const _: () = assert!(RECORD_SHARDS.is_power_of_two() && RECORD_SHARDS < FLOOR_SLOTS / 4);
const _: () = assert!(HOLE_WINDOW.as_millis() < STRONG_LEASE.as_millis());
const _: () = assert!(STRONG_LEASE.as_millis() + SUSPECT_FOR.as_millis() == 60_000);
