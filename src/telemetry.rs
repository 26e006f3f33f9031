//! Output for operators: logs and metrics.

pub(crate) mod counts;
pub(crate) mod histogram;
pub(crate) mod labels;
pub(crate) mod leads;
pub mod limits;
pub mod log;
pub mod metrics;
pub(crate) mod observed;
pub(crate) mod passed;
pub(crate) mod rate_limiter;
#[cfg(test)]
pub(crate) mod scripted;
pub mod sink;
