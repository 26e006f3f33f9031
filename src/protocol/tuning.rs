//! The record settings that a reload may change while the process runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Tuning {
    /// Nanoseconds.
    worst_lag: AtomicU64,
    max_jump: AtomicU64,
}

impl Tuning {
    pub(crate) fn new(worst_lag: Duration, max_jump: u64) -> Self {
        Self { worst_lag: AtomicU64::new(nanos(worst_lag)), max_jump: AtomicU64::new(max_jump) }
    }

    /// Puts other values in force. Returns by how much `worst_lag` grew.
    pub(crate) fn set(&self, worst_lag: Duration, max_jump: u64) -> Duration {
        self.max_jump.store(max_jump, Ordering::Relaxed);
        let before = self.worst_lag.swap(nanos(worst_lag), Ordering::Relaxed);
        worst_lag.saturating_sub(Duration::from_nanos(before))
    }

    pub(crate) fn worst_lag(&self) -> Duration {
        Duration::from_nanos(self.worst_lag.load(Ordering::Relaxed))
    }

    pub(crate) fn max_jump(&self) -> u64 {
        self.max_jump.load(Ordering::Relaxed)
    }
}

/// Settings are an hour at most, so this never saturates.
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
