//! Bounds of the region room.

use std::time::Duration;

/// Interval between a publisher's heartbeats (docs/publishing.md).
pub(crate) const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);
/// Number of retries of a message that SNS refuses before its publisher's name is given up.
pub(crate) const PUBLISH_ATTEMPTS: u32 = 20;
/// Longest time for a publisher that stops to sign off.
pub(crate) const SIGN_OFF_WAIT: Duration = Duration::from_secs(2);
/// Items of one page of a scan.
pub(crate) const SCAN_PAGE: usize = 500;
/// A table that has not answered by then is down.
pub(crate) const READ_WAIT: Duration = Duration::from_secs(1);
/// Interval between a node's checks whether its region has become complete, or is no longer.
pub(crate) const COMPLETE_LOOK: Duration = Duration::from_secs(1);
/// Reads that must have been seen before any is sent twice.
pub(crate) const READS_BEFORE_HEDGING: u32 = 20;
/// The share of reads that may be sent twice.
pub(crate) const HEDGED_SHARE: f64 = 0.05;
/// Most second reads that may be saved up.
pub(crate) const HEDGES_SAVED: f64 = 10.0;
/// A second read is not sent earlier than this: no timer is finer.
pub(crate) const HEDGE_LEAST: Duration = Duration::from_millis(1);
/// From one bucket of a view to the next in the sweep: a view takes four minutes.
pub(crate) const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// After which a change should have come through the feed; what differs is looked at again then.
pub(crate) const SWEEP_WAIT: Duration = Duration::from_secs(30);
/// Between two rounds of the sweep.
pub(crate) const SWEEP_REST: Duration = Duration::from_secs(60);
/// Copies that differ and wait to be looked at again.
pub(crate) const SUSPECTS: usize = 10_000;
/// Interval between a node's looks at its region's grants, besides those that an announcement causes.
pub(crate) const GRANTS_LOOK: Duration = Duration::from_secs(10);
/// Interval to the next look after one that failed.
pub(crate) const GRANTS_RETRY: Duration = Duration::from_secs(1);
