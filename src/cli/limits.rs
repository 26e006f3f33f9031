//! The bounds of the command line.

use crate::model::size::MIB;

/// Bytes of a reply that `nearside ctl` reads.
pub(super) const CTL_REPLY_BYTES: usize = MIB;
