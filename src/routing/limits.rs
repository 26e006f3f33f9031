//! The bounds of routing.

use crate::config::limits::{RECORDS_PER_ROUTE, ROUTES};

/// Record types that a process can tell apart, including those of routes that reloads took away.
pub const RECORD_TYPES: usize = 8192;

const _: () = assert!(ROUTES * RECORDS_PER_ROUTE * 2 <= RECORD_TYPES && RECORD_TYPES <= u16::MAX as usize);
