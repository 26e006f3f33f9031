//! The bounds of the core. Settings that a user may tune have their defaults and ranges in
//! `config`.

use std::time::Duration;

use crate::config::limits::{RECORDS_PER_ROUTE, ROUTES};
use crate::model::size::KIB;
use crate::protocol::limits::{AUDIT_SUSPICIONS, AUDIT_WINDOWS, PAUSE};

/// How often files with secrets and certificates are checked for changes.
pub const WATCH_EVERY: Duration = Duration::from_secs(1);
/// Records whose entries are checked before other tasks run, when a reload took a route away.
pub const FORGOTTEN_AT_ONCE: usize = 64;
/// Record types that a process can tell apart, including those of routes that reloads took away.
pub const RECORD_TYPES: usize = 8192;
/// Header lines of a request that is answered without hyper.
pub const PLAIN_HEADERS: usize = 64;
/// Size in bytes of the buffer in which a thread writes its answers' own header values. It is
/// reused.
pub const HEADER_VALUES_BYTES: usize = 4 * KIB;
/// Bytes of it that must be free to write one value without asking for more.
pub const HEADER_VALUE_ROOM: usize = 256;
/// How often a reader's fill is restarted when an announcement overtook its reply; after that it is
/// served, labelled.
pub const REFILLS: usize = 2;
/// Keys whose last failed fill is remembered.
pub const REMEMBERED_ERRORS: usize = 65_536;
/// How often memory is checked under a cgroup's limit, and how often entries are evicted while it
/// is short. What arrives between two checks is bounded: the store by its capacity, everything else
/// by the budgets that the capacity leaves room for.
pub const MEMORY_TICK: Duration = Duration::from_millis(100);
/// How long a failed fill is remembered: doubling from the first to the second.
pub const ERROR_MEMORY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// A stored reply that was this old when it came is asked for end to end the next time.
pub const AGED: Duration = Duration::from_secs(2);
/// Rechecks that wait for their time at once. Beyond that the next reader of a provisional entry
/// rechecks it.
pub const PENDING_RECHECKS: usize = 1024;
/// Refetches after announcements, waiting out their jitter or under way. Beyond that a changed
/// entry waits for its reader.
pub const PENDING_REFETCHES: usize = 1024;
/// First and longest wait before a provisional entry is rechecked (R5).
pub const RECHECK_WAIT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(60));
/// Time between two steps of the audit: the period divided by the first, but no less than the
/// second and no more than the third.
pub const AUDIT_STEP: (u32, Duration, Duration) = (600, Duration::from_millis(50), Duration::from_secs(1));
/// Entries that are due for their audit and wait for the background budget. Whatever else comes due
/// is skipped.
pub const AUDIT_BACKLOG: usize = 256;
pub const AUDITS: usize = 32;
/// The audit's share of the background budget: the rest is for rechecks and refetches.
pub const AUDIT_SHARE: f64 = 0.5;
/// The share of the background budget up to which ways are compared: nothing else waits for that.
pub const CHECK_SHARE: f64 = 0.25;
/// Largest body, compressed and not, that is decompressed where requests are served; larger ones go
/// to a thread of their own.
pub const INLINE_DECODE_BYTES: usize = 32 * KIB;
/// Smallest body that a node compresses, and zstd's level for it: a dozen microseconds for 1 KiB.
pub const COMPRESSED_BYTES: usize = KIB;
pub const ZSTD_LEVEL: i32 = 3;
/// Comparisons of two ways that wait for their turn or are under way. Beyond that they are skipped.
pub const CHECKS: usize = 256;
/// Those that ask and compare at once.
pub const CHECKS_AT_ONCE: usize = 4;
/// What comparing a body takes at most, in bodies of its length.
pub const COMPARED_WEIGHT: usize = 8;
/// How often a comparison looks for its turn, and how long at most.
pub const CHECK_TURN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(60));
/// After which both ways are read again where they differ: the record may have changed between.
pub const CHECK_AGAIN: Duration = Duration::from_secs(10);
/// Largest body that is compared, without its content coding, bytes.
pub const COMPARED_BYTES: usize = crate::payload::limits::COMPARED_BYTES;
/// Places that are counted apart for each route; further ones count together.
pub const CHECK_PLACES: usize = 64;
/// Places that `/status` shows of each route.
pub const CHECK_TOP: usize = 10;
/// Identities per record beyond which callers seem to mint a new token per request.
pub const IDENTITIES_PER_RECORD: usize = 64;
/// Longest wait for missing legs once all others have answered below the floor.
pub const LATE_LEG_WAIT: Duration = Duration::from_millis(500);
/// Used as the p95 of a region that has not answered yet.
pub const HEDGE_WAIT: Duration = Duration::from_millis(250);
/// Most tokens for extra legs that a region can hold.
pub const TOKENS_PER_REGION: f64 = 512.0;
/// Tokens that a region gets back per second whatever it answers.
pub const TOKENS_PER_SECOND: f64 = 2.0;
/// Latencies kept per region for its p50 and p95.
pub const LATENCIES: usize = 128;
/// Failures in a row that make a region an outlier.
pub const OUTLIER_FAILURES: u32 = 5;
/// The window in which a share of failures makes a region an outlier, and the fewest legs that it
/// takes.
pub const OUTLIER_WINDOW: (Duration, u32) = (Duration::from_secs(10), 20);
/// The share of failures in a window that makes a region an outlier.
pub const OUTLIER_SHARE: f64 = 0.5;
/// First and longest wait before an outlier is probed again.
pub const PROBE_WAIT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// Longest Retry-After that is obeyed.
pub const RETRY_AFTER: Duration = Duration::from_secs(60);
/// Background legs per second and region, if a fifth of the foreground's is less.
pub const BACKGROUND_LEGS_PER_SECOND: u32 = 20;
/// Background legs as a share of foreground ones.
pub const BACKGROUND_SHARE: f64 = 0.2;

/// Regions that are asked at once for an operator's `compare`; each reply is held until it is read.
pub(crate) const BESIDE_AT_ONCE: usize = 4;

const _: () = assert!(ERROR_MEMORY.0.as_millis() < ERROR_MEMORY.1.as_millis());
const _: () = assert!(RECHECK_WAIT.0.as_millis() < RECHECK_WAIT.1.as_millis());
const _: () = assert!(ROUTES * RECORDS_PER_ROUTE * 2 <= RECORD_TYPES && RECORD_TYPES <= u16::MAX as usize);
const _: () =
    assert!(AUDIT_STEP.1.as_millis() < AUDIT_STEP.2.as_millis() && AUDIT_STEP.2.as_millis() < PAUSE.as_millis());
const _: () = assert!(BACKGROUND_LEGS_PER_SECOND as u64 * AUDIT_WINDOWS[2].as_secs() / 2 < AUDIT_SUSPICIONS as u64);
/// For how long regions are asked for JSON after one of them has shown that it has no Protobuf.
pub const JSON_ALONE: Duration = Duration::from_secs(600);
/// Largest body that is derived where requests are served, bytes; larger ones go to a thread of
/// their own.
pub const INLINE_DERIVE_BYTES: usize = 32 * KIB;
