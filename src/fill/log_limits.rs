//! Rate limits of the log lines that regions and publishers can cause: each kind a few times a
//! minute.

use crate::telemetry::rate_limiter::RateLimiter;

pub(crate) struct LogLimits {
    /// Moves of the epoch and changes of the subscription's state, by region.
    pub(super) epochs: Vec<RateLimiter>,
    pub(super) states: Vec<RateLimiter>,
    /// Any publisher can raise alarms.
    pub(super) alarms: RateLimiter,
    /// Audits that ended with a change that was never announced.
    pub(super) stale_audits: RateLimiter,
}

impl LogLimits {
    pub(super) fn new(regions: usize) -> Self {
        Self {
            epochs: limiters(regions),
            states: limiters(regions),
            alarms: RateLimiter::new(),
            stale_audits: RateLimiter::new(),
        }
    }
}

fn limiters(regions: usize) -> Vec<RateLimiter> {
    (0..regions).map(|_| RateLimiter::new()).collect()
}
