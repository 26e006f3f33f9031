//! Connections to the regions, and one attempt over them.

pub mod attempt;
pub mod connect;
pub mod http1_pool;
pub mod http2_client;
pub mod incoming;
pub mod renewal;
pub mod tls;
