//! A gate's lines of `/metrics`.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::gate::Gate;

/// Metrics of a gate: its counts, and how old its grants are.
#[derive(Debug)]
pub struct GateExposition(Arc<Gate>);

impl GateExposition {
    #[must_use]
    pub const fn new(gate: Arc<Gate>) -> Self {
        Self(gate)
    }
}

impl Collector for GateExposition {
    fn encode(&self, mut page: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.counts().write(&mut page)?;
        let age = ConstGauge::new(self.0.age().map_or(f64::INFINITY, |age| age.as_secs_f64()));
        let help = "Time since the grants in use were known to be the newest; +Inf: never.";
        age.encode(page.encode_descriptor("grants_age", help, Some(&Unit::Seconds), age.metric_type())?)?;
        let help = "Time since the keys in use were asked for at an issuer; +Inf: they never came.";
        let mut keys = page.encode_descriptor("access_keys_age", help, Some(&Unit::Seconds), MetricType::Gauge)?;
        for issuer in self.0.issuers().states().into_iter().filter(|issuer| issuer.is_fetched) {
            let age = ConstGauge::new(issuer.age.map_or(f64::INFINITY, |age| age.as_secs_f64()));
            age.encode(keys.encode_family(&[("iss", issuer.iss)])?)?;
        }
        Ok(())
    }
}
