//! HTTP/1.1 and HTTP/2 on both sides: listening, admission, bodies, header fields, connections to
//! regions.

pub mod admission;
pub mod bodies;
pub mod body;
pub(crate) mod client;
pub mod connection;
pub mod exchange;
pub(crate) mod fields;
pub mod host;
pub(crate) mod idle;
pub mod inert;
pub mod kernel_buffers;
pub mod limits;
pub mod listener;
pub mod peers;
pub(crate) mod problem;
pub mod pulse;
pub mod server_tls;
pub mod service;
pub mod site;
pub(crate) mod socket;
pub mod tls_exposition;
pub(crate) mod token;
