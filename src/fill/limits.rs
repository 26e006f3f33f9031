//! The bounds of fills. Settings that a user may tune have their defaults and ranges in `config`.

use std::time::Duration;

use crate::protocol::limits::PAUSE;

/// Records whose entries are checked before other tasks run, when a reload took a route away.
pub const PURGED_AT_ONCE: usize = 64;
/// Keys whose last failed fill is remembered.
pub const REMEMBERED_ERRORS: usize = 65_536;
/// Interval between checks of memory under a cgroup's limit, and between evictions while it is
/// short. Growth between two checks is bounded: the store by its capacity, everything else by the
/// budgets that the capacity leaves room for.
pub const MEMORY_TICK: Duration = Duration::from_millis(100);
/// Retention of a failed fill: doubling from the first to the second.
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

const _: () = assert!(ERROR_MEMORY.0.as_millis() < ERROR_MEMORY.1.as_millis());
const _: () = assert!(RECHECK_WAIT.0.as_millis() < RECHECK_WAIT.1.as_millis());
const _: () =
    assert!(AUDIT_STEP.1.as_millis() < AUDIT_STEP.2.as_millis() && AUDIT_STEP.2.as_millis() < PAUSE.as_millis());
/// Callers and views of which it is remembered that the regions' grants allow them.
pub const PERMITS: usize = 65_536;
/// Answers that refused a caller, remembered for a moment.
pub const REFUSALS: usize = 1_024;
/// Callers' credentials that background work of a route may ask with.
pub const LENT_CREDENTIALS: usize = 4;
/// Sets of claims with one credential each, on a route where claims tell callers apart.
pub const LENT_BY_CLAIMS: usize = 256;
/// Size of the largest of those answers.
pub const REFUSAL_BYTES: usize = 4_096;
/// Shortest and longest time before regions are asked again for what they refused or did not
/// confirm.
pub const RETRY_WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
