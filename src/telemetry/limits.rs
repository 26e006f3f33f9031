//! Bounds of the telemetry module.

use std::time::Duration;

/// Number of remembered names of one kind that others choose (record types, headers).
pub const OBSERVED_NAMES: usize = 16;
/// Longest of those names that is remembered, in bytes.
pub const OBSERVED_NAME_BYTES: usize = 64;
/// Versions that one region alone shows, as many as are remembered of each region.
pub(crate) const LEADS_PER_REGION: usize = 8;
/// Time after it was last seen from which such a version may give way to another one.
pub(crate) const LEAD_OVER: Duration = Duration::from_secs(600);
/// Log lines of one kind that others can provoke (a rejected announcement, an alarm): this many in
/// a window, then only a count.
pub const RATIONED_LINES: (u32, Duration) = (10, Duration::from_secs(60));
/// Most bytes of log lines that wait to be written; any more are lost and counted.
pub(crate) const LOG_QUEUE_BYTES: usize = 1 << 20;
/// Longest wait at the exit for log lines to be written, and the longest while none is taken.
pub(crate) const LOG_FLUSH: Duration = Duration::from_secs(5);
pub(crate) const LOG_STALL: Duration = Duration::from_millis(500);
/// Shortest time between two lines that say how many were lost.
pub(crate) const LOG_LOSS_LINES: Duration = Duration::from_secs(1);
