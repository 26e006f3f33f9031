//! The bounds of this room. What a user may tune has its default and range here.

use std::time::Duration;

use crate::model::size::KIB;

/// Connections open at once to the admin port.
pub const ADMIN_CONNECTIONS: usize = 64;
/// How long an admin connection may live before it is asked to close; a scrape under way is finished.
pub const ADMIN_CONNECTION_LIFE: Duration = Duration::from_secs(300);
/// How long a closing admin connection may take to hand over its last reply.
pub const ADMIN_LAST_REPLY_WAIT: Duration = Duration::from_secs(5);
/// How long after its start a sidecar without a lease is `warming`; then it is `degraded`. Weak proof begins 60 s
/// after Subscribe.
pub const WARMING: Duration = Duration::from_secs(120);
/// What a health probe reads of the answer, bytes.
pub const PROBE_BYTES: usize = 4 * KIB;
/// An operator's arguments, bytes; and how long they may take to arrive.
pub const ACT_BODY_BYTES: usize = 16 * KIB;
/// See [`ACT_BODY_BYTES`].
pub const ACT_BODY_WAIT: Duration = Duration::from_secs(5);
/// Connections open at once to the operators' socket.
pub const OPERATORS: usize = 16;
/// Acts under way at once.
pub const ACTS: usize = 8;
/// Acts that changed records or entries and are remembered for `inspect`.
pub const ACTS_REMEMBERED: usize = 64;
/// Jobs that acts began and that run at once, and those that are remembered with them.
pub const JOBS: usize = 4;
/// See [`JOBS`].
pub const JOBS_REMEMBERED: usize = 32;
/// Entries of one job that are refreshed at once.
pub const REFRESHES: usize = 16;
/// Between two looks whether the background budget has room for another.
pub const REFRESH_PACE: Duration = Duration::from_millis(50);
/// Entries that `inspect` shows; it counts all.
pub const INSPECTED: usize = 64;
/// By how much all messages must be stamped too early, or one too late, until an operator is told to look at the clocks.
pub const CLOCK_SKEW: Duration = Duration::from_secs(2);
/// How long an operator is told that a subscription was lost.
pub const LOSS_SHOWN: Duration = Duration::from_secs(600);

const _: () = assert!(JOBS < JOBS_REMEMBERED, "a job that runs is never forgotten");
