//! Sizes in bytes.

/// 1024 bytes.
pub const KIB: usize = 1 << 10;
/// 1024 KiB.
pub const MIB: usize = 1 << 20;
