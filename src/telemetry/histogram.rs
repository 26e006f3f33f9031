//! Histogram of durations that takes no lock: prometheus-client's takes one for each observation.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};

/// Upper bounds of a histogram's buckets, in nanoseconds, ascending.
pub(crate) trait Bounds {
    const NANOS: &'static [u64];
}

/// For what stays in this process: 2 us to 10 ms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local;

impl Bounds for Local {
    const NANOS: &'static [u64] = &[
        2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000,
    ];
}

/// For everything that crosses a network: 1 ms to 60 s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network;

impl Bounds for Network {
    const NANOS: &'static [u64] = &[
        1_000_000,
        2_000_000,
        5_000_000,
        10_000_000,
        20_000_000,
        50_000_000,
        100_000_000,
        200_000_000,
        500_000_000,
        1_000_000_000,
        2_000_000_000,
        5_000_000_000,
        10_000_000_000,
        30_000_000_000,
        60_000_000_000,
    ];
}

/// Histogram of durations; clones count together.
///
/// An observation is two relaxed atomic additions, without a lock or an allocation. A reader may see
/// a count that is slightly old, but never one that goes backwards.
#[derive(Clone, Debug)]
pub(crate) struct LatencyHistogram<B> {
    /// A bucket for each bound, one for all beyond, and the sum in nanoseconds.
    cells: Arc<[AtomicU64]>,
    bounds: PhantomData<B>,
}

impl<B: Bounds> Default for LatencyHistogram<B> {
    fn default() -> Self {
        let cells = (0..B::NANOS.len() + 2).map(|_| AtomicU64::new(0)).collect();
        Self { cells, bounds: PhantomData }
    }
}

impl<B: Bounds> LatencyHistogram<B> {
    pub(crate) fn observe(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // One by one, because most of what is observed is a hit, and those fall into the first ones.
        let bucket = B::NANOS.iter().position(|bound| nanos <= *bound).unwrap_or(B::NANOS.len());
        self.cells[bucket].fetch_add(1, Ordering::Relaxed);
        self.cells[B::NANOS.len() + 1].fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.buckets().map(|(_, count)| count).sum()
    }

    fn sum(&self) -> f64 {
        self.cells[B::NANOS.len() + 1].load(Ordering::Relaxed) as f64 / 1e9
    }

    /// Upper bounds in seconds, the last of them infinite, each with the number of durations at or
    /// below it and above the previous one.
    fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let upper = B::NANOS.iter().map(|nanos| *nanos as f64 / 1e9).chain([f64::INFINITY]);
        upper.zip(self.cells.iter().map(|cell| cell.load(Ordering::Relaxed)))
    }
}

impl<B> TypedMetric for LatencyHistogram<B> {
    const TYPE: MetricType = MetricType::Histogram;
}

impl<B: Bounds> EncodeMetric for LatencyHistogram<B> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        let buckets: Vec<_> = self.buckets().collect();
        // The sum of the buckets, so that the two agree.
        let count = buckets.iter().map(|(_, count)| count).sum();
        encoder.encode_histogram::<NoLabelSet>(self.sum(), count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// Number of durations that a histogram has observed.
#[derive(Clone, Debug)]
pub(crate) struct CountOf<B>(pub(crate) LatencyHistogram<B>);

impl<B: Bounds> EncodeMetric for CountOf<B> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        encoder.encode_counter::<NoLabelSet, u64, u64>(&self.0.count(), None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_their_buckets() {
        struct Two;
        impl Bounds for Two {
            const NANOS: &'static [u64] = &[1_000, 1_000_000];
        }

        let latency = LatencyHistogram::<Two>::default();
        latency.observe(Duration::from_nanos(1_000));
        latency.observe(Duration::from_nanos(1_001));
        latency.observe(Duration::from_secs(2));
        assert_eq!(latency.count(), 3);
        let buckets: Vec<_> = latency.buckets().collect();
        assert_eq!(buckets.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [1, 1, 1]);
        assert!(buckets[2].0.is_infinite());
        assert!((latency.sum() - 2.000_002_001).abs() < 1e-9, "{}", latency.sum());
    }
}
