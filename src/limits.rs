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
/// Named segments of one path template.
pub const NAMES_PER_PATH: usize = 8;
/// Hosts that `listen.allowed_hosts` may name, and uids of `listen.unix_uids`.
pub const ALLOWED_CALLERS: usize = 64;
/// The longest path of a Unix socket, bytes: `sun_path` less its end.
pub const SOCKET_PATH_BYTES: usize = 107;
/// A credentials or token file, bytes.
pub const TOKEN_BYTES: u64 = 16 * KIB as u64;

// -- a request --
/// Connections open at once over all listeners.
pub const CONNECTIONS: usize = 4096;
/// The most that `listen.max_connections` may ask for.
pub const CONNECTIONS_AT_MOST: usize = 65_536;
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
/// The most that `race.permits` may ask for.
pub const PERMITS_PER_REGION_AT_MOST: usize = 4096;
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

const _: () = assert!(REGIONS <= 16, "a RegionSet has sixteen bits");
const _: () = assert!(REQUEST_TARGET_BYTES < REQUEST_HEAD_BYTES);
const _: () = assert!(ERROR_MEMORY.0.as_millis() < ERROR_MEMORY.1.as_millis());
const _: () = assert!(RECHECK_WAIT.0.as_millis() < RECHECK_WAIT.1.as_millis());
const _: () = assert!(REPLY_BODY_BYTES as u64 <= DECODED_BODY_BYTES);
const _: () = assert!(CONNECTIONS <= CONNECTIONS_AT_MOST);
const _: () = assert!(PERMITS_PER_REGION <= PERMITS_PER_REGION_AT_MOST);
const _: () = assert!(FLOOR_SLOTS.is_power_of_two());
