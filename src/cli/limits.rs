//! The bounds of this room. What a user may tune has its default and range here.

use crate::model::size::MIB;

/// Connections of the load generator.
pub const BENCH_CONNECTIONS: usize = 4096;
/// What `nearside ctl` reads of a reply, bytes.
pub const CTL_REPLY_BYTES: usize = MIB;
