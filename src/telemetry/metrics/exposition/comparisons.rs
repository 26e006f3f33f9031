//! Comparisons of a route's two upstreams, as `/metrics` shows them.

use std::fmt;
use std::time::Duration;

use crate::telemetry::metrics::page::Page;

/// One route with a candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComparisonGauges {
    /// Its path.
    pub route: String,
    /// Number of comparisons with each result.
    pub comparisons: Vec<(&'static str, u64)>,
    /// Number of comparisons that differed in each place: JSON Pointers without keys and indices, a
    /// bounded number.
    pub places: Vec<(String, u64)>,
    /// Time for which all comparisons found the same; `None` before the first one, and while nothing
    /// is compared.
    pub clean: Option<Duration>,
}

pub(super) fn write(page: &mut Page<'_>, routes: &[ComparisonGauges]) -> fmt::Result {
    let results = routes.iter().flat_map(|compared| {
        let route = compared.route.as_str();
        compared.comparisons.iter().map(move |(result, count)| ([("route", route), ("result", *result)], *count))
    });
    page.counters("comparisons", "Comparisons of a route's upstreams, by their result", results)?;
    let places = routes.iter().flat_map(|compared| {
        let route = compared.route.as_str();
        compared
            .places
            .iter()
            .map(move |(pointer, count)| ([("route", route), ("pointer", pointer.as_str())], *count))
    });
    let help = "Comparisons of a route's upstreams that found a difference in this place";
    page.counters("comparison_differences", help, places)?;
    let clean = routes
        .iter()
        .filter_map(|compared| Some(([("route", compared.route.as_str())], compared.clean?.as_secs_f64())));
    page.gauges("comparison_clean_seconds", "Time for which a route's upstreams have been found the same", clean)
}
