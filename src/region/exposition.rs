//! An ingester's lines of `/metrics`. Its publisher is another one in every term under the lease, so
//! the counts are looked for on every call.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::ingest::Ingester;

#[derive(Debug)]
pub struct IngestExposition(Arc<Ingester>);

impl IngestExposition {
    pub const fn new(ingester: Arc<Ingester>) -> Self {
        Self(ingester)
    }
}

impl Collector for IngestExposition {
    fn encode(&self, mut page: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.counts.write(&mut page)?;
        self.0.sweep_counts.metrics.write(&mut page)?;
        self.0.publisher().counts.metrics.write(&mut page)?;
        let unusable = ConstCounter::new(self.0.skipped());
        let help = "Items that cannot be read, or that no table takes.";
        unusable.encode(page.encode_descriptor("ingest_skipped", help, None, unusable.metric_type())?)?;
        let help = "Time for which what arrived at the feed may not be announced; +Inf: not known.";
        seconds(&mut page, "ingest_behind", help, self.0.behind())?;
        let help = "Time since the last canary to arrive was sent; +Inf: none has arrived.";
        seconds(&mut page, "canary_age", help, self.0.canary_age())
    }
}

fn seconds(page: &mut DescriptorEncoder<'_>, name: &str, help: &str, span: Option<Duration>) -> fmt::Result {
    let gauge = ConstGauge::new(span.map_or(f64::INFINITY, |span| span.as_secs_f64()));
    gauge.encode(page.encode_descriptor(name, help, Some(&Unit::Seconds), gauge.metric_type())?)
}
