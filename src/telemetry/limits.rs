//! The bounds of this room. What a user may tune has its default and range here.

use std::time::Duration;

/// Words per labelled metric; what comes after them is counted as `other`.
pub const METRIC_WORDS: usize = 32;
/// Names that others choose (record types, headers) that are remembered of one kind, and their length, bytes.
pub const OBSERVED_NAMES: usize = 16;
/// See [`OBSERVED_NAMES`].
pub const OBSERVED_NAME_BYTES: usize = 64;
/// Lines of one kind that others can provoke (a rejected announcement, an alarm): so many in a window, then a count.
pub const RATIONED_LINES: (u32, Duration) = (10, Duration::from_secs(60));
