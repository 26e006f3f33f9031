//! The bounds of this room. What a user may tune has its default and range here.

use std::time::Duration;

/// By how much the calendar must have run ahead of the clock since boot to be taken for a pause that the latter did not
/// count (R9): more than a leap second's worth of noise would be too much, and less is no lease's concern.
pub const UNCOUNTED_PAUSE: Duration = Duration::from_secs(1);
/// The two are compared only when they could be read within this of each other.
pub const WATCH_PRECISION: Duration = Duration::from_millis(100);
/// Versions from here on are nobody's (R15).
pub const VERSION_CEILING: u64 = 1 << 62;
