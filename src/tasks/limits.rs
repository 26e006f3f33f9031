//! Bounds of the tasks module.

/// Calls of [`super::compute`] running at once.
pub(super) const COMPUTATIONS: usize = 2;
