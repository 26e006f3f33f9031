//! Definition of metrics: one row each, from which a metric is made, registered and documented.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::{Atomic, Counter};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};

use super::page::split_unit;
use crate::telemetry::histogram::{Bounds, LatencyHistogram};
use crate::telemetry::labels::{LabelSet, Regions};

/// Defines a group of metrics. Each field is a metric: its name is the field's, its help the field's
/// documentation, its labels and kind are the field's type. `= value` makes one out of another.
///
/// A name ends in its unit (`_seconds`, `_bytes`); `_total` is added to a counter's. A group may have
/// a prefix for all its names.
macro_rules! metrics {
    (
        $(#[$outer:meta])*
        $vis:vis struct $group:ident $(($prefix:literal))? {
            $($regions:ident: Regions;)?
            $($(#[doc = $help:literal])+ $field_vis:vis $metric:ident: $kind:ty $(= $value:expr)?,)+
        }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Debug)]
        $vis struct $group {
            $($regions: $crate::telemetry::labels::Regions,)?
            $($(#[doc = $help])+ $field_vis $metric: $kind,)+
        }

        impl $group {
            const PREFIX: &str = concat!($($prefix)?);

            /// Creates the metrics, with every series at zero.
            pub(crate) fn new(regions: &$crate::telemetry::labels::Regions) -> Self {
                $(let $metric: $kind = metrics!(@new regions $($value)?);)+
                Self { $($regions: regions.clone(),)? $($metric),+ }
            }

            /// Writes the metrics onto the page.
            pub(crate) fn write(
                &self,
                page: &mut ::prometheus_client::encoding::DescriptorEncoder<'_>,
            ) -> ::std::fmt::Result {
                $($crate::telemetry::metrics::definition::write(
                    page,
                    Self::PREFIX,
                    stringify!($metric),
                    concat!($($help),+),
                    &self.$metric,
                )?;)+
                Ok(())
            }
        }

        impl Default for $group {
            fn default() -> Self {
                Self::new(&$crate::telemetry::labels::Regions::default())
            }
        }

        impl ::prometheus_client::collector::Collector for $group {
            fn encode(&self, mut page: ::prometheus_client::encoding::DescriptorEncoder<'_>) -> ::std::fmt::Result {
                self.write(&mut page)
            }
        }
    };
    (@new $regions:ident) => { $crate::telemetry::metrics::definition::Kind::new($regions) };
    (@new $regions:ident $value:expr) => { $value };
}

pub(crate) use metrics;

/// Kind of metric that a group may hold.
pub(crate) trait Kind: EncodeMetric {
    /// Creates every series, at zero.
    fn new(regions: &Regions) -> Self;
}

impl<N, A: Default> Kind for Counter<N, A>
where
    Self: EncodeMetric,
{
    fn new(_: &Regions) -> Self {
        Self::default()
    }
}

impl<N, A: Default> Kind for Gauge<N, A>
where
    Self: EncodeMetric,
{
    fn new(_: &Regions) -> Self {
        Self::default()
    }
}

impl<B: Bounds> Kind for LatencyHistogram<B> {
    fn new(_: &Regions) -> Self {
        Self::default()
    }
}

impl<L, M> Kind for Family<L, M>
where
    L: LabelSet + EncodeLabelSet,
    M: Kind + TypedMetric,
{
    fn new(regions: &Regions) -> Self {
        let labels = L::all(regions);
        debug_assert!(labels.iter().enumerate().all(|(position, labels)| labels.position() == position));
        Self(labels.into_iter().map(|labels| (labels, M::new(regions))).collect())
    }
}

/// Metrics of one name, one for each set of labels; clones count together.
///
/// Unlike prometheus-client's, all are there from the start and are found by position: recording
/// takes no lock and hashes nothing, and a page has them in the same order in every process.
#[derive(Debug)]
pub(crate) struct Family<L, M>(Arc<[(L, M)]>);

impl<L: LabelSet, M> Family<L, M> {
    /// The metric with these labels.
    pub(crate) fn at(&self, labels: &L) -> &M {
        &self.0[labels.position()].1
    }
}

impl<L, N: std::iter::Sum, A: Atomic<N>> Family<L, Counter<N, A>> {
    /// Sum of all counters.
    pub(crate) fn total(&self) -> N {
        self.0.iter().map(|(_, counter)| counter.get()).sum()
    }
}

impl<L, M> Clone for Family<L, M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<L: EncodeLabelSet, M: EncodeMetric + TypedMetric> EncodeMetric for Family<L, M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(labels, metric)| metric.encode(encoder.encode_family(labels)?))
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }
}

/// Writes one metric onto the page.
pub(crate) fn write(
    page: &mut DescriptorEncoder<'_>,
    prefix: &str,
    name: &str,
    help: &str,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    let name = format!("{prefix}{name}");
    let (name, unit) = split_unit(&name);
    metric.encode(page.encode_descriptor(name, help.trim(), unit.as_ref(), metric.metric_type())?)
}
