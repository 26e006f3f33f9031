//! Bounds of the tasks module.

use std::time::Duration;

/// Calls of [`super::on_blocking_pool`] running at once.
pub(super) const COMPUTATIONS: usize = 2;
/// First and longest pause before a long-lived task that panicked is started again; it doubles with
/// each panic.
pub(super) const RESTART: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// For how long it must run after that to count as well again.
pub(super) const SETTLED: Duration = Duration::from_secs(60);
