//! What operators see: logs and metrics.

pub(crate) mod counts;
pub(crate) mod labels;
pub mod limits;
pub(crate) mod log;
pub mod metrics;
pub(crate) mod observed;
pub(crate) mod passed;
pub(crate) mod rate_limiter;
#[cfg(test)]
pub(crate) mod scripted;
pub(crate) mod sink;
