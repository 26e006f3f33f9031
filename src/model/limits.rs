//! Bounds of the model module.

use std::time::Duration;

/// Lead that the calendar must have gained on the clock since boot to count as a pause that the
/// latter missed (R9). A threshold above a leap second's worth of noise would be too high, and a
/// shorter pause matters to no lease.
pub(crate) const UNCOUNTED_PAUSE: Duration = Duration::from_secs(1);
/// The two clocks are compared only if both could be read within this time.
pub(crate) const WATCH_PRECISION: Duration = Duration::from_millis(100);
/// Versions from here on are not credible (R15).
pub(crate) const VERSION_CEILING: u64 = 1 << 62;
