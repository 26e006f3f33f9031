//! Page in the OpenMetrics text format, for what is measured when somebody looks.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// Page being written. Each method writes one metric with all its series.
pub(super) struct Page<'a> {
    pub(super) encoder: DescriptorEncoder<'a>,
}

impl Page<'_> {
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.describe(name, help, MetricType::Gauge, |mut metric| metric.encode_gauge(&value))
    }

    pub(super) fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        mut series: impl Iterator<Item = (L, V)>,
    ) -> fmt::Result {
        self.describe(name, help, MetricType::Gauge, |mut metric| {
            series.try_for_each(|(labels, value)| metric.encode_family(&labels)?.encode_gauge(&value))
        })
    }

    pub(super) fn counters<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        mut series: impl Iterator<Item = (L, u64)>,
    ) -> fmt::Result {
        self.describe(name, help, MetricType::Counter, |mut metric| {
            series.try_for_each(|(labels, value)| {
                metric.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, u64>(&value, None)
            })
        })
    }

    pub(super) fn info(&mut self, name: &str, help: &str, labels: &impl EncodeLabelSet) -> fmt::Result {
        self.describe(name, help, MetricType::Info, |mut metric| metric.encode_info(labels))
    }

    fn describe(
        &mut self,
        name: &str,
        help: &str,
        metric_type: MetricType,
        write: impl FnOnce(MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let (name, unit) = split_unit(name);
        // As a registry writes them.
        write(self.encoder.encode_descriptor(name, &format!("{help}."), unit.as_ref(), metric_type)?)
    }
}

/// A metric's name without the unit that it ends in, and the unit.
pub(super) fn split_unit(name: &str) -> (&str, Option<Unit>) {
    for unit in [Unit::Seconds, Unit::Bytes] {
        if let Some(name) = name.strip_suffix(unit.as_str()).and_then(|name| name.strip_suffix('_')) {
            return (name, Some(unit));
        }
    }
    (name, None)
}
