//! Bounds of what operators do.

use std::time::Duration;

use super::{KIB, MIB};

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
/// What `nearside ctl` reads of a reply, bytes.
pub const CTL_REPLY_BYTES: usize = MIB;

const _: () = assert!(JOBS < JOBS_REMEMBERED, "a job that runs is never forgotten");
