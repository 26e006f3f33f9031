//! The bounds of migrations.

use std::time::Duration;

/// Comparisons of two upstreams that wait for their turn or are under way. Beyond that they are
/// skipped.
pub const CHECKS: usize = 256;
/// Those that ask and compare at once.
pub const CHECKS_AT_ONCE: usize = 4;
/// Most memory that comparing a body takes, in bodies of its length.
pub const COMPARED_WEIGHT: usize = 8;
/// Interval at which a comparison looks for its turn, and the longest wait.
pub const CHECK_TURN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(60));
/// After which both are read again where they differ: the record may have changed between.
pub const CHECK_AGAIN: Duration = Duration::from_secs(10);
/// Largest body that is compared, without its content coding, bytes.
pub const COMPARED_BYTES: usize = crate::payload::limits::COMPARED_BYTES;
/// Places that are counted apart for each route; further ones count together.
pub const CHECK_PLACES: usize = 64;
/// Places that `/status` shows of each route.
pub const CHECK_TOP: usize = 10;
