//! The benchmark harness: it puts load on several servers and reports how they compare.
//!
//! `nearside bench` starts every subject on loopback, proves that it does what is asked of it, and
//! measures them all in turn: A B C, A B C, ... A figure comes about like this:
//!
//! ```text
//! scenario -> subjects (nearside, peers, the floor, a region) -> load -> rounds -> report: table, JSON, page
//!                          |                                      |
//!                       process: pinned, its CPU time          latencies: open or closed loop
//! ```

// What to run, and in which order.
pub mod run;
pub mod target;

pub mod progress;

// Who is measured, and where.
pub mod announcer;
pub mod fetch;
pub mod ground;
pub mod peers;
pub mod process;
pub mod regions;
pub mod sidecar;
pub mod subject;

// Load.
pub mod client;
pub mod failover;
pub mod h2c;
pub mod http1;
pub mod load;
pub mod pace;
pub mod paths;
pub mod wire;

// Results.
pub mod histogram;
pub mod promises;
pub mod reference_loop;
pub mod report;
pub mod result;
