//! What callers, regions and publishers can have logged, each kind a few times a minute.

use crate::telemetry::rate_limiter::RateLimiter;

pub(crate) struct CoreLines {
    /// Moves of the epoch and changes of the subscription's state, by region.
    pub(super) epochs: Vec<RateLimiter>,
    pub(super) states: Vec<RateLimiter>,
    /// Any publisher can raise alarms.
    pub(super) alarms: RateLimiter,
    /// Replies that do not fit their schema.
    pub(super) mismatches: RateLimiter,
    /// Callers that mint a token per request.
    pub(super) churn: RateLimiter,
    /// Audits that ended with a change that was never announced.
    pub(super) stale_audits: RateLimiter,
    /// That memory is short, and that it no longer is.
    pub(super) memory: [RateLimiter; 2],
}

impl CoreLines {
    pub(super) fn new(regions: usize) -> Self {
        let per_region = || (0..regions).map(|_| RateLimiter::new()).collect();
        Self {
            epochs: per_region(),
            states: per_region(),
            alarms: RateLimiter::new(),
            mismatches: RateLimiter::new(),
            churn: RateLimiter::new(),
            stale_audits: RateLimiter::new(),
            memory: [RateLimiter::new(), RateLimiter::new()],
        }
    }
}
