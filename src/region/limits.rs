//! Bounds of a region.

use std::time::Duration;

/// A table that has not answered by then is down.
pub(crate) const READ_WAIT: Duration = Duration::from_secs(1);
/// Reads that must have been seen before any is sent twice.
pub(crate) const READS_BEFORE_HEDGING: u32 = 20;
/// The share of reads that may be sent twice.
pub(crate) const HEDGED_SHARE: f64 = 0.05;
/// Most second reads that may be saved up.
pub(crate) const HEDGES_SAVED: f64 = 10.0;
/// A second read is not sent earlier than this: no timer is finer.
pub(crate) const HEDGE_LEAST: Duration = Duration::from_millis(1);
