//! Bounds of the tasks module.

/// Calls of [`super::compute`] running at once.
pub const COMPUTATIONS: usize = 2;
