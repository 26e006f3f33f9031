//! The bounds of the admin side.

use std::time::Duration;

use crate::model::size::KIB;

/// Connections open at once to the admin port.
pub(super) const ADMIN_CONNECTIONS: usize = 64;
/// Time after its start for which a sidecar without a lease is `warming`; after that it is
/// `degraded`. Weak proof begins 60 s after Subscribe.
pub(super) const WARMING: Duration = Duration::from_secs(120);
/// Bytes of the answer that a health probe reads.
pub(super) const PROBE_BYTES: usize = 32 * KIB;
/// Characters of each of its lines that it shows.
pub(super) const LINE_CHARS: usize = 400;
/// The size of an operator's arguments, bytes.
pub(super) const COMMAND_BODY_BYTES: usize = 16 * KIB;
/// Longest wait for an operator's arguments.
pub(super) const COMMAND_BODY_WAIT: Duration = Duration::from_secs(5);
/// Connections open at once to the operators' socket.
pub(super) const OPERATORS: usize = 16;
/// Commands under way at once.
pub(super) const COMMANDS: usize = 8;
/// Commands on records or entries that are remembered for `inspect`.
pub(super) const COMMANDS_REMEMBERED: usize = 64;
/// Jobs that run at once in the background.
pub(super) const JOBS: usize = 4;
/// Jobs that are remembered, running ones included.
pub(super) const JOBS_REMEMBERED: usize = 32;
/// Entries of one job that are refreshed at once.
pub(super) const REFRESHES: usize = 16;
/// Pause before looking again for room in the background budget.
pub(super) const REFRESH_PACE: Duration = Duration::from_millis(50);
/// Most entries that `inspect` shows; it counts all of them.
pub(super) const INSPECTED: usize = 64;
/// Most differing places that `compare` names of each region.
pub(super) const COMPARED_POINTERS: usize = 16;
/// Least skew by which all messages must be stamped too early, or one too late, before an operator
/// is warned to check the clocks.
pub(super) const CLOCK_SKEW: Duration = Duration::from_secs(2);
/// Time for which the loss of a subscription is reported to operators.
pub(super) const LOSS_SHOWN: Duration = Duration::from_secs(600);

const _: () = assert!(JOBS < JOBS_REMEMBERED, "a job that runs is never forgotten");
