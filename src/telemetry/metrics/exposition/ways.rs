//! What comparisons of a route's two ways have found, as `/metrics` shows it.

use std::fmt;
use std::time::Duration;

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::{Page, count};

/// One route with a second way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WayGauges {
    /// Its path.
    pub route: String,
    /// How many comparisons ended in each way.
    pub comparisons: Vec<(&'static str, u64)>,
    /// How many differed in each place: JSON Pointers without keys and indices, a bounded number.
    pub places: Vec<(String, u64)>,
    /// For how long all comparisons found the same; `None` before the first one, and while nothing
    /// is compared.
    pub clean: Option<Duration>,
}

pub(super) fn write(page: &mut Page, ways: &[WayGauges]) -> fmt::Result {
    let help = "Comparisons of a route's two ways, by how they ended";
    let mut ended = page.describe("comparisons", help, None, MetricType::Counter)?;
    for way in ways {
        for (word, value) in &way.comparisons {
            count(&mut ended.encode_family(&[("route", way.route.as_str()), ("result", *word)])?, *value)?;
        }
    }
    let help = "Comparisons of a route's two ways that found a difference in this place";
    let mut places = page.describe("comparison_differences", help, None, MetricType::Counter)?;
    for way in ways {
        for (pointer, value) in &way.places {
            let labels = [("route", way.route.as_str()), ("pointer", pointer.as_str())];
            count(&mut places.encode_family(&labels)?, *value)?;
        }
    }
    let help = "For how long all comparisons of a route's two ways have found the same";
    let mut clean = page.describe("comparison_clean", help, Some(&Unit::Seconds), MetricType::Gauge)?;
    for way in ways {
        if let Some(span) = way.clean {
            clean.encode_family(&[("route", way.route.as_str())])?.encode_gauge(&span.as_secs_f64())?;
        }
    }
    Ok(())
}
