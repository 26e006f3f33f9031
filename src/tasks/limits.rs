//! The bounds of this room. What a user may tune has its default and range here.

/// Such computations at once.
pub const COMPUTATIONS: usize = 2;
