//! The bounds of the command line.

use crate::model::size::MIB;

/// Connections of the load generator.
pub const BENCH_CONNECTIONS: usize = 4096;
/// How much of a reply `nearside ctl` reads, bytes.
pub const CTL_REPLY_BYTES: usize = MIB;
