//! What operators see: logs and metrics.

pub(crate) mod counts;
pub mod limits;
pub mod log;
pub mod metrics;
pub mod observed;
pub mod ration;
pub mod words;
