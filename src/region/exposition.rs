//! An ingester's lines of `/metrics`, read anew on every call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (counts, swept, publisher) = (&self.0.counts, &self.0.sweep_counts, self.0.publisher());
        let passed_over = AtomicU64::new(self.0.passed_over());
        let counters = [
            ("ingest_changes", "Changes that the feed brought", &counts.changes),
            ("ingest_put", "Items that the region's table took", &counts.put),
            ("ingest_not_newer", "Items that were not newer than the table's", &counts.not_newer),
            ("ingest_scanned", "Items that scans of all views read", &counts.scanned),
            ("ingest_passed_over", "Items that cannot be read, or that no table takes", &passed_over),
            ("region_swept_buckets", "Buckets of copies that the sweep compared", &swept.buckets),
            ("region_swept_differing", "Copies that differed when they were looked at again", &swept.differing),
            ("region_swept_mended", "Copies that the sweep made good and announced", &swept.mended),
            ("region_swept_failed", "Failures of the sweep at a bucket, to which it comes back", &swept.failed),
            ("announced", "Announcements that the topic took", &publisher.counts.announced),
            ("announced_again", "Announcements that were sent again", &publisher.counts.repeated),
            ("publish_calls", "Calls to the topic, heartbeats too", &publisher.counts.calls),
            ("publisher_renamed", "Names given up over a refused message", &publisher.counts.renamed),
            ("announced_as_reload", "Messages that the topic never took, nor may", &publisher.counts.reloaded),
        ];
        for (name, help, count) in counters {
            let counter = ConstCounter::new(count.load(Ordering::Relaxed));
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        let behind = self.0.behind().map_or(f64::INFINITY, |span| span.as_secs_f64());
        let canary = self.0.canary_age().map_or(f64::INFINITY, |span| span.as_secs_f64());
        for (name, help, seconds) in [
            ("ingest_behind", "For how long what arrived at the feed may not be announced; +Inf: not known", behind),
            ("canary_age", "Since when the last canary to arrive was sent; +Inf: none has arrived", canary),
        ] {
            let gauge = ConstGauge::new(seconds);
            gauge.encode(encoder.encode_descriptor(name, help, Some(&Unit::Seconds), gauge.metric_type())?)?;
        }
        Ok(())
    }
}
