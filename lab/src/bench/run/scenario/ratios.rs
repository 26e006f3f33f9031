//! Goals that hold one subject of a scenario against another.

use crate::bench::host::FLOOR;
use crate::bench::result::{Goal, Row, Scenario};
use crate::bench::sidecar::NEARSIDE;

/// Nearside against `other`; `None` unless both were measured.
pub(super) fn ratio(
    scenario: &Scenario,
    what: &str,
    other: &str,
    limit: f64,
    figure: fn(&Row) -> f64,
) -> Option<Goal> {
    ratio_of(scenario, NEARSIDE, what, other, limit, figure)
}

/// The subject `own` against `other`.
pub(super) fn ratio_of(
    scenario: &Scenario,
    own: &str,
    what: &str,
    other: &str,
    limit: f64,
    figure: fn(&Row) -> f64,
) -> Option<Goal> {
    let (own, others) = (figure(scenario.row(own)?), figure(scenario.row(other)?));
    let text = format!("{what} <= {limit} x {}", if other == FLOOR { "the bare responder" } else { other });
    (others > 0.0).then(|| Goal::at_most(text, own / others, limit))
}
