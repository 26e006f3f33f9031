//! The latencies of a run, recorded in nanoseconds and turned into a `Latency` for the report.
//! They keep three significant digits from a nanosecond to a minute. Nothing recorded is lost:
//! anything longer counts as a minute.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::result::LatencyFigures;

/// The longest latency that is distinguished, in nanoseconds.
const LONGEST_NS: u64 = 60_000_000_000;
/// The curve's tail has a decade for 90, 99, 99.9, ...: each covers a tenth of the one before. It
/// stops before this decade, or earlier if there are too few latencies.
const STEPS: u32 = 7;

#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(
            Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are constants that hdrhistogram accepts"),
        )
    }
}

impl Latencies {
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(LONGEST_NS));
    }

    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    pub fn len(&self) -> u64 {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The latency in microseconds that `percentile` (0 to 100) of them do not exceed; 0 if there
    /// are none.
    pub fn at(&self, percentile: f64) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.value_at_percentile(percentile) as f64 / 1e3 }
    }

    pub fn summary(&self) -> LatencyFigures {
        let curve = self.percentiles().map(|percentile| (percentile, self.at(percentile))).collect();
        LatencyFigures {
            p50_us: self.at(50.0),
            p90_us: self.at(90.0),
            p99_us: self.at(99.0),
            p999_us: self.at(99.9),
            max_us: self.0.max() as f64 / 1e3,
            curve,
        }
    }

    /// 0, 10, ... 80, then 90, 92, ... 98, 99, 99.2, ... 99.9, ...: as far as single requests can
    /// be distinguished.
    fn percentiles(&self) -> impl Iterator<Item = f64> {
        let finest = 100.0 / self.0.len().max(1) as f64;
        let even = (0..9).map(|step| f64::from(step) * 10.0);
        let tail = (1..STEPS).flat_map(|decade| {
            let rest = 100.0 / 10_f64.powi(decade as i32);
            [1.0, 0.8, 0.6, 0.4, 0.2].map(|share| (100.0 - rest * share, rest * share))
        });
        even.chain(tail.take_while(move |(_, rest)| *rest >= finest).map(|(percentile, _)| percentile)).chain([100.0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(micros: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::default();
        micros.into_iter().for_each(|micros| latencies.record(Duration::from_micros(micros)));
        latencies
    }

    #[test]
    fn merged_histograms_equal_whole() {
        let whole = of(1..=1000);
        let mut halves = of(1..=500);
        halves.add(&of(501..=1000));
        assert_eq!(halves.len(), 1000);
        for percentile in [50.0, 90.0, 99.0, 99.9, 100.0] {
            assert!((halves.at(percentile) - whole.at(percentile)).abs() < 1e-9);
        }
        assert!((whole.at(50.0) - 500.0).abs() < 1.0, "{}", whole.at(50.0));
    }

    #[test]
    fn curve_ascends_to_single_request_resolution() {
        let curve = of(1..=1000).summary().curve;
        assert!(curve.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{curve:?}");
        assert!((curve.last().unwrap().0 - 100.0).abs() < 1e-9);
        assert!(curve.iter().filter(|(percentile, _)| *percentile > 99.91).count() == 1, "{curve:?}");
    }

    #[test]
    fn latencies_are_capped_at_one_minute() {
        let latencies = of([90_000_000]);
        assert!((latencies.at(100.0) / 60e6 - 1.0).abs() < 0.01, "{}", latencies.at(100.0));
    }
}
