//! The bounds of the admin side.

use std::time::Duration;

use crate::model::size::KIB;

/// Connections open at once to the admin port.
pub(super) const ADMIN_CONNECTIONS: usize = 64;
/// How long after its start a sidecar without a lease is `warming`; after that it is `degraded`.
/// Weak proof begins 60 s after Subscribe.
pub(super) const WARMING: Duration = Duration::from_secs(120);
/// How much of the answer a health probe reads, bytes.
pub(super) const PROBE_BYTES: usize = 4 * KIB;
/// The size of an operator's arguments, bytes.
pub(super) const ACT_BODY_BYTES: usize = 16 * KIB;
/// How long an operator's arguments may take to arrive.
pub(super) const ACT_BODY_WAIT: Duration = Duration::from_secs(5);
/// Connections open at once to the operators' socket.
pub(super) const OPERATORS: usize = 16;
/// Acts under way at once.
pub(super) const ACTS: usize = 8;
/// How many acts on records or entries are remembered for `inspect`.
pub(super) const ACTS_REMEMBERED: usize = 64;
/// Jobs that run at once in the background.
pub(super) const JOBS: usize = 4;
/// Jobs that are remembered, running ones included.
pub(super) const JOBS_REMEMBERED: usize = 32;
/// Entries of one job that are refreshed at once.
pub(super) const REFRESHES: usize = 16;
/// How long to wait before looking again for room in the background budget.
pub(super) const REFRESH_PACE: Duration = Duration::from_millis(50);
/// How many entries `inspect` shows; it counts all of them.
pub(super) const INSPECTED: usize = 64;
/// How many differing places `compare` names of each region.
pub(super) const COMPARED_POINTERS: usize = 16;
/// How far all messages must be stamped too early, or one too late, before an operator is told to
/// check the clocks.
pub(super) const CLOCK_SKEW: Duration = Duration::from_secs(2);
/// How long an operator is told that a subscription was lost.
pub(super) const LOSS_SHOWN: Duration = Duration::from_secs(600);

const _: () = assert!(JOBS < JOBS_REMEMBERED, "a job that runs is never forgotten");
