//! Bounds of the repair room.

use std::time::Duration;

/// Time by which a record's changes may seem to go back, by the clocks of those who wrote them. Where they go back
/// further, a clock was wrong, and nobody can say what was true at a time.
pub const CLOCKS_APART: Duration = Duration::from_secs(60);
/// Buckets of a type that are read side by side, each with one query at a time.
pub const BUCKETS_AT_ONCE: usize = 8;
/// Versions of one record that are counted.
pub const COUNTED_VERSIONS: usize = 1_000;
/// Writers, reasons and minutes that are counted apart.
pub const GROUPS: usize = 10_000;
/// Keys that a report names by their hashes.
pub const EXAMPLES: usize = 10;
/// Number of retries of a read, after which the whole work fails: some minutes.
pub const RETRIES: u32 = 20;

const _: () = assert!(COUNTED_VERSIONS > 0 && EXAMPLES < GROUPS);
