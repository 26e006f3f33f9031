//! What operators see: logs and metrics.

pub(crate) mod counts;
pub mod labels;
pub mod limits;
pub mod log;
pub mod metrics;
pub mod observed;
pub mod rate_limiter;
