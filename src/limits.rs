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
/// A record type in an announcement, bytes.
pub const RECORD_TYPE_BYTES: usize = 256;
/// A publisher's name in an announcement, bytes.
pub const PUBLISHER_BYTES: usize = 256;
/// Signing certificates kept, for all regions: two each, so that a new one finds room.
pub const CERTIFICATES: usize = 32;
/// A signing certificate (with its chain), bytes.
pub const CERTIFICATE_BYTES: usize = 64 * KIB;
/// Certificates in one served chain.
pub const CERTIFICATE_CHAIN: usize = 8;
/// How long a certificate fetch may take, its wait for a permit included.
pub const CERTIFICATE_WAIT: Duration = Duration::from_secs(5);
/// Certificate fetches under way at once.
pub const CERTIFICATE_FETCHES: usize = 4;
/// How long the outcome of a certificate fetch stands before the same URL is fetched again.
pub const CERTIFICATE_PAUSE: Duration = Duration::from_secs(1);
/// Messages verified and not yet applied, per region.
pub const PENDING_ANNOUNCEMENTS: usize = 1024;
/// Message ids remembered per process to drop second copies before they are verified.
pub const REMEMBERED_MESSAGES: usize = 65_536;
/// Slots of the table that keeps floors of records without an entry (FRESHNESS.md, State).
pub const FLOOR_SLOTS: usize = 1 << 20;
/// How long one AWS call may take, its retries included; and one attempt of it.
pub const AWS_CALL_WAIT: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(4));
/// Attempts of one AWS call.
pub const AWS_ATTEMPTS: u32 = 3;
/// How long a long poll waits for a message: SQS allows no more.
pub const POLL_WAIT: Duration = Duration::from_secs(20);
/// How long a long poll may take in all, beyond which the connection counts as dead.
pub const POLL_ANSWER_WAIT: Duration = Duration::from_secs(25);
/// Messages per poll and per deletion: SQS allows no more.
pub const MESSAGES_PER_POLL: i32 = 10;
/// Deletions under way at once, per region.
pub const DELETIONS: usize = 16;
/// How long a received message stays hidden: after it, one that could not be applied comes again.
pub const VISIBILITY: Duration = Duration::from_secs(30);
/// How long a queue keeps a message that nobody takes; by then the lease has long run out (R9).
pub const RETENTION: Duration = Duration::from_secs(300);
/// Between two looks at a subscription's attributes: at most this, less jitter (FRESHNESS.md, Weak).
pub const ATTEST_EVERY: Duration = Duration::from_secs(60);
/// After a look that could not be had.
pub const ATTEST_AGAIN: Duration = Duration::from_secs(10);
/// Between two `alive` tags of a queue.
pub const TAG_EVERY: Duration = Duration::from_secs(3600);
/// Age of the `alive` tag beyond which the janitor removes a queue.
pub const ABANDONED: Duration = Duration::from_secs(24 * 3600);
/// First and longest wait before a subscription is tried again.
pub const SUBSCRIBE_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// First and longest wait before a failed poll is tried again.
pub const POLL_AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// How long SNS may take to post a confirmation before Subscribe is called again.
pub const CONFIRM_WAIT: Duration = Duration::from_secs(60);
/// Subscriptions and queues of a region that could not be removed yet; the janitor has the rest.
pub const DISCARDED: usize = 4;
/// Connections open at once to the announcement endpoint.
pub const ENDPOINT_CONNECTIONS: usize = 256;
/// How long a posted envelope may take to arrive; SNS itself gives up after 15 s.
pub const ENVELOPE_WAIT: Duration = Duration::from_secs(10);
/// Notices from the endpoint to one region's lifecycle.
pub const NOTICES: usize = 8;
/// Pages of a listing that the janitor reads, per region and topic.
pub const JANITOR_PAGES: usize = 1000;
/// Publishers remembered per region.
pub const PUBLISHERS_PER_REGION: usize = 256;
/// Holes remembered per publisher; beyond it the epoch moves at once.
pub const HOLES_PER_PUBLISHER: usize = 64;

const _: () = assert!(REGIONS <= 16, "a RegionSet has sixteen bits");
const _: () = assert!(REQUEST_TARGET_BYTES < REQUEST_HEAD_BYTES);
const _: () = assert!(ERROR_MEMORY.0.as_millis() < ERROR_MEMORY.1.as_millis());
const _: () = assert!(RECHECK_WAIT.0.as_millis() < RECHECK_WAIT.1.as_millis());
const _: () = assert!(REPLY_BODY_BYTES as u64 <= DECODED_BODY_BYTES);
const _: () = assert!(2 * REGIONS <= CERTIFICATES);
const _: () = assert!(CERTIFICATE_FETCHES < CERTIFICATES, "fetches under way must leave room for what is kept");
const _: () = assert!(CERTIFICATE_BYTES < ENVELOPE_BYTES);
const _: () = assert!(FLOOR_SLOTS.is_power_of_two());
const _: () = assert!(POLL_WAIT.as_secs() <= 20 && MESSAGES_PER_POLL <= 10, "SQS's own bounds");
const _: () = assert!(POLL_WAIT.as_millis() < POLL_ANSWER_WAIT.as_millis());
const _: () = assert!(CERTIFICATE_WAIT.as_millis() < VISIBILITY.as_millis(), "applied before it comes again");
const _: () = assert!(VISIBILITY.as_millis() < RETENTION.as_millis(), "a message that failed comes again");
const _: () = assert!(ATTEST_EVERY.as_secs() + ATTEST_AGAIN.as_secs() < 75, "weak proof outlives one failed look");
const _: () = assert!(TAG_EVERY.as_secs() * 12 < ABANDONED.as_secs(), "no janitor takes a queue that lives");
const _: () = assert!(AWS_CALL_WAIT.1.as_millis() < AWS_CALL_WAIT.0.as_millis());
