//! Connections to the regions, and one attempt over them.

pub(crate) mod attempt;
mod connect;
mod http1_pool;
mod http2_pool;
pub(crate) mod incoming;
pub(crate) mod names;
pub(crate) mod outgoing;
mod renewal;
mod site;
mod tls;
