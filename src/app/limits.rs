//! The bounds of this room. What a user may tune has its default and range here.

use std::time::Duration;

/// Files that a reload reads are read within this, or the operator is told that they are not.
pub const RELOAD_WITHIN: Duration = Duration::from_secs(10);
