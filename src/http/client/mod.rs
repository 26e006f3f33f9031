//! Connections to the regions, and one attempt over them.

pub mod attempt;
pub mod connect;
pub mod incoming;
pub mod line;
pub mod renewal;
pub mod tls;
pub mod two;
