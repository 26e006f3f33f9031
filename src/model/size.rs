//! Units of size, in bytes.

pub const KIB: usize = 1 << 10;
pub const MIB: usize = 1 << 20;
