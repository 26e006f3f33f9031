//! The bounds of the announcement path. Settings that a user may tune have their defaults and
//! ranges in `config`.

use std::time::Duration;

use crate::aws::limits::{AWS_CALL_WAIT, POLL_WAIT, VISIBILITY};
use crate::model::size::KIB;
use crate::protocol::limits::{ATTESTED_FOR, WEAK_LEASE, WEAK_PROOF_AFTER};

/// The read buffer of a connection to the announcement endpoint, in bytes.
pub const ENDPOINT_READ_BYTES: usize = 16 * KIB;
/// Messages per region that are verified and not applied yet.
pub const PENDING_ANNOUNCEMENTS: usize = 1024;
/// Messages per poll and per deletion: SQS allows no more.
pub const MESSAGES_PER_POLL: i32 = 10;
/// Delay before the next poll of a queue that just brought messages: at 200 a second they fill a
/// poll.
pub const GATHER: Duration = Duration::from_millis(50);
/// Longest wait of a finished message for being deleted together with others.
pub const DELETE_WITHIN: Duration = Duration::from_millis(150);
/// Deletions under way at once, per region.
pub const DELETIONS: usize = 16;
/// Longest time to the first check of a queue's policy, less jitter, if no heartbeat has come by
/// then: a queue whose topic may not send is silent.
pub const POLICY_FIRST: Duration = Duration::from_secs(7);
/// Longest time from making a subscription to the first check of its attributes, less jitter. Weak
/// proof waits for it.
pub const ATTEST_FIRST: Duration = Duration::from_secs(60);
/// Longest time between two later checks, less jitter.
pub const ATTEST_EVERY: Duration = Duration::from_secs(120);
/// Checks in a row that are skipped while heartbeats prove the path.
pub const ATTEST_SKIPS: u32 = 3;
/// Wait after a check that failed; doubles with each, up to [`ATTEST_EVERY`].
pub const ATTEST_AGAIN: Duration = Duration::from_secs(30);
/// Sidecars of one account and region whose checks AWS must not throttle: smaller regions allow 150
/// calls a second.
pub const ATTESTED_FLEET: (u64, u64) = (10_800, 150);
/// Time between two `alive` tags of a queue.
pub const TAG_EVERY: Duration = Duration::from_secs(3600);
/// Age of the `alive` tag beyond which the janitor removes a queue.
pub const ABANDONED: Duration = Duration::from_secs(24 * 3600);
/// First and longest wait before a subscription is tried again.
pub const SUBSCRIBE_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Longest wait after a loss, in longest waits after a failure ([`SUBSCRIBE_AGAIN`]): 5 minutes.
pub const LOSS_STRETCH: u32 = 5;
/// Time for which a new queue may be unknown to SQS, which asks for a second.
pub const QUEUE_SHOWS: Duration = Duration::from_secs(10);
/// First and longest wait before a failed poll is tried again.
pub const POLL_AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// Longest wait for SNS to post a confirmation before Subscribe is called again.
pub const CONFIRM_WAIT: Duration = Duration::from_secs(60);
/// Subscriptions and queues of a region that could not be removed yet; the rest is left to the
/// janitor.
pub const DISCARDED: usize = 4;
/// Longest wait for a posted envelope to arrive; SNS itself gives up after 15 s.
pub const ENVELOPE_WAIT: Duration = Duration::from_secs(10);
/// Notices from the endpoint to one region's lifecycle.
pub const NOTICES: usize = 8;
/// Pages of a listing that the janitor reads, per region and topic.
pub const JANITOR_PAGES: usize = 1000;

const _: () = assert!(POLL_WAIT.as_secs() <= 20 && MESSAGES_PER_POLL <= 10, "SQS's own bounds");
const _: () =
    assert!(GATHER.as_millis() <= 50, "half of what promise 3 of docs/architecture.md allows beside the lag");
const _: () = assert!(DELETE_WITHIN.as_millis() + AWS_CALL_WAIT.0.as_millis() < VISIBILITY.as_millis());
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
