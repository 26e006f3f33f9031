//! Owns the list of what is measured.
//!
//! Before it: [`super::run`] picks by name. After it: one file per kind of scenario. Invariant: a scenario starts its
//! own subjects and leaves none behind.

use super::result::Scenario;
use super::run::{Bench, RunError};

pub mod hit;

/// Measures one scenario.
pub type Measure = fn(&mut Bench<'_>) -> Result<Scenario, RunError>;

/// All, in the order of the report.
pub fn all() -> Vec<(&'static str, Measure)> {
    vec![("hit-1k", hit::one_kib as Measure), ("hit-1k-one", hit::one_connection)]
}
