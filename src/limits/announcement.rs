//! Bounds of the announcement path: envelopes, certificates, queues and their polls.

use std::time::Duration;

use super::{KIB, MIB, RECORD_SHARDS};

/// An SNS envelope, bytes: SNS allows 256 KiB of message and attributes. Quotes and line ends of a text that is JSON itself
/// double it at most, and text outside ASCII triples where it is escaped.
pub const ENVELOPE_BYTES: usize = MIB;
/// Envelopes held at once by the announcement endpoint, bytes: as many small ones as there are connections, and large
/// ones besides; beyond it SNS is asked to come again.
pub const ENVELOPES_BYTES: usize = ENDPOINT_CONNECTIONS * SMALL_ENVELOPE_BYTES + 2 * ENVELOPE_BYTES;
/// An envelope up to this always has room, bytes.
pub const SMALL_ENVELOPE_BYTES: usize = 16 * KIB;
/// What a connection to the announcement endpoint reads at once, bytes.
pub const ENDPOINT_READ_BYTES: usize = 16 * KIB;
/// A record key in an announcement, bytes.
pub const RECORD_KEY_BYTES: usize = 2 * KIB;
/// A record type in an announcement, bytes.
pub const RECORD_TYPE_BYTES: usize = 256;
/// A publisher's name in an announcement, bytes.
pub const PUBLISHER_BYTES: usize = 256;
/// Signing certificates kept, for all regions: two each, so that a new one finds room.
pub const CERTIFICATES: usize = 32;
/// URLs from which no certificate came yet, being fetched or lately fetched in vain.
pub const UNKNOWN_CERTIFICATES: usize = 32;
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
/// What a slot takes, bytes; under a cgroup's limit the table may take one in so many of its bytes, but this many slots are
/// always there.
pub const FLOOR_SLOT_BYTES: u64 = 32;
/// See [`FLOOR_SLOT_BYTES`].
pub const FLOORS_SHARE: u64 = 16;
/// See [`FLOOR_SLOT_BYTES`].
pub const LEAST_FLOOR_SLOTS: usize = 1 << 17;
/// The window in which a flood of announcements is told by what it does to that table.
pub const FLOOD_WINDOW: Duration = Duration::from_secs(60);
/// Records announced for the first time in a window that make a flood: a sixteenth of the table.
pub const FLOOD_RECORDS: u32 = 1 << 16;
/// Slots lost in a window that make an overflow: by then most fills count as provisional (R2).
pub const FLOOD_LOSSES: u32 = RECORD_SHARDS as u32;
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
/// How long messages may gather in a queue that just brought some before it is polled again: at 200 a second they fill
/// a poll.
pub const GATHER: Duration = Duration::from_millis(50);
/// How long a message that is done with may wait for others to be deleted with.
pub const DELETE_WITHIN: Duration = Duration::from_millis(150);
/// Deletions under way at once, per region.
pub const DELETIONS: usize = 16;
/// How long a received message stays hidden: after it, one that could not be applied comes again.
pub const VISIBILITY: Duration = Duration::from_secs(30);
/// How long a queue keeps a message that nobody takes; by then the lease has long run out (R9).
pub const RETENTION: Duration = Duration::from_secs(300);
/// The first look at a queue's policy, where no heartbeat has come by then (at most this, less jitter): a queue whose topic may
/// not send is silent.
pub const POLICY_FIRST: Duration = Duration::from_secs(7);
/// The first look at a subscription's attributes after it was made: at most this, less jitter. Weak proof waits for it.
pub const ATTEST_FIRST: Duration = Duration::from_secs(60);
/// Between two later ones: at most this, less jitter.
pub const ATTEST_EVERY: Duration = Duration::from_secs(120);
/// Looks in a row that are left out while heartbeats prove the way.
pub const ATTEST_SKIPS: u32 = 3;
/// After a look that could not be had; doubles with each, up to [`ATTEST_EVERY`].
pub const ATTEST_AGAIN: Duration = Duration::from_secs(30);
/// Sidecars of one account and region whose looks AWS must not throttle: smaller regions allow 150 calls a second.
pub const ATTESTED_FLEET: (u64, u64) = (10_800, 150);
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
/// RESETs remembered per region, so that a copy of one is told from another; and in all, so that replies from before one are
/// told from those after it.
pub const RESETS: usize = 256;
/// Holes remembered per publisher; beyond it the epoch moves at once.
pub const HOLES_PER_PUBLISHER: usize = 64;
