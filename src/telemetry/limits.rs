//! Bounds of the telemetry module.

use std::time::Duration;

/// Words per labelled metric; any more are counted as `other`.
pub const METRIC_WORDS: usize = 32;
/// How many names of one kind that others choose (record types, headers) are remembered.
pub const OBSERVED_NAMES: usize = 16;
/// Longest of those names that is remembered, in bytes.
pub const OBSERVED_NAME_BYTES: usize = 64;
/// Log lines of one kind that others can provoke (a rejected announcement, an alarm): this many in
/// a window, then only a count.
pub const RATIONED_LINES: (u32, Duration) = (10, Duration::from_secs(60));
