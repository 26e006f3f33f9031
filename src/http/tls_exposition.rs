//! Lines of `/metrics` on a service's TLS: its handshakes, and the end of the certificate.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::server_tls::ServerTls;

/// Metrics of a service's TLS.
#[derive(Debug)]
pub struct TlsExposition(Arc<ServerTls>);

impl TlsExposition {
    #[must_use]
    pub const fn new(tls: Arc<ServerTls>) -> Self {
        Self(tls)
    }
}

impl Collector for TlsExposition {
    fn encode(&self, mut page: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.counts.write(&mut page)?;
        let ends = ConstGauge::new(self.0.ends().as_millis() as f64 / 1_000.0);
        let help = "Time at which the certificate ends, or one of its issuers.";
        let name = "tls_certificate_end_timestamp";
        ends.encode(page.encode_descriptor(name, help, Some(&Unit::Seconds), ends.metric_type())?)
    }
}
