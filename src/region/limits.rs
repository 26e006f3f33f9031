//! Bounds of the region room.

use std::time::Duration;

/// How often a publisher sends a heartbeat (docs/publishing.md).
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);
/// How often a message that SNS refuses is sent again before its publisher's name is given up.
pub const PUBLISH_ATTEMPTS: u32 = 20;
/// How long a publisher that stops may take to say so.
pub const SIGN_OFF_WAIT: Duration = Duration::from_secs(2);
/// Items that are written to the region's table at once.
pub const PUTS_AT_ONCE: usize = 32;
/// Items of one page of a scan.
pub const SCAN_PAGE: usize = 500;
