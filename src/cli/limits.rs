//! The bounds of the command line.

use crate::model::size::MIB;

/// Connections of the load generator.
pub(super) const BENCH_CONNECTIONS: usize = 4096;
/// How much of a reply `nearside ctl` reads, bytes.
pub(super) const CTL_REPLY_BYTES: usize = MIB;
