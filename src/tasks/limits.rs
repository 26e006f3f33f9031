//! Bounds of the tasks module.

/// Calls of [`super::on_blocking_pool`] running at once.
pub(super) const COMPUTATIONS: usize = 2;
