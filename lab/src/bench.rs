//! The benchmark harness: it puts load on several servers and reports how they compare.
//!
//! `nearside-lab bench` starts every subject on loopback, proves that it does what is asked of it, and
//! measures them all in turn: A B C, A B C, ... A figure comes about like this:
//!
//! ```text
//! scenario -> subjects (nearside, peers, the floor, a region) -> load -> rounds -> report: table, JSON, page
//!                          |                                      |
//!                       process: pinned, its CPU time          latencies: open or closed loop
//! ```

// What to run, and in which order.
mod entrant;
pub(crate) mod error;
pub(crate) mod run;
pub(crate) mod session;
pub(crate) mod target;

pub(crate) mod progress;

// Who is measured, and where.
pub(crate) mod announcer;
mod fetch;
mod host;
mod payloads;
mod peers;
mod process;
mod product;
pub(crate) mod regions;
pub(crate) mod services;
mod sidecar;
pub mod subject;

// Load.
mod client;
mod failover;
mod h2c;
mod http1;
pub mod load;
pub mod pace;
pub mod paths;
mod wire;

// Results.
mod histogram;
mod promises;
pub(crate) mod reference_loop;
pub(crate) mod report;
mod result;
