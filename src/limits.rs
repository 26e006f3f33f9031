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

const _: () = assert!(REGIONS <= 16, "a RegionSet has sixteen bits");
const _: () = assert!(REQUEST_TARGET_BYTES < REQUEST_HEAD_BYTES);
const _: () = assert!(ERROR_MEMORY.0.as_millis() < ERROR_MEMORY.1.as_millis());
const _: () = assert!(RECHECK_WAIT.0.as_millis() < RECHECK_WAIT.1.as_millis());
const _: () = assert!(REPLY_BODY_BYTES as u64 <= DECODED_BODY_BYTES);
const _: () = assert!(FLOOR_SLOTS.is_power_of_two());
