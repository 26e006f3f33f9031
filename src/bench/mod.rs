//! The harness: load, subjects beside each other, and what came of it.
//!
//! `nearside bench` starts every subject on loopback, proves that it does what is asked of it, and measures all in turn:
//! A B C, A B C, ... The way of a figure:
//!
//! ```text
//! scenario -> subjects (nearside, peers, the floor, a region) -> load -> rounds -> report: table, JSON, page
//!                          |                                      |
//!                       process: pinned, its CPU time          latencies: open or closed loop
//! ```

pub mod report;
pub mod result;
