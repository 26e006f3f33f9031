//! Counts of handshakes.

use std::io;

use prometheus_client::metrics::counter::Counter;

use crate::telemetry::labels::{label_sets, label_values};
use crate::telemetry::metrics::definition::{Family, metrics};

/// Outcome of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub(super) enum HandshakeOutcome {
    Complete,
    /// The peer speaks no TLS, or no version or cipher that both sides know.
    Failed,
    /// The peer went away in the middle.
    Gone,
    TimedOut,
}

impl HandshakeOutcome {
    pub(super) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::InvalidData => Self::Failed,
            _ => Self::Gone,
        }
    }
}

label_values!(HandshakeOutcome);

label_sets! {
    HandshakeLabels { outcome: HandshakeOutcome }
}

metrics! {
    /// Metrics of a service's handshakes.
    pub(in crate::http) struct TlsCounts("tls_") {
        /// TLS handshakes by outcome.
        handshakes: Family<HandshakeLabels, Counter>,
    }
}

impl TlsCounts {
    pub(super) fn shaken(&self, outcome: HandshakeOutcome) {
        self.handshakes.at(&HandshakeLabels { outcome }).inc();
    }

    #[cfg(test)]
    pub(super) fn count(&self, outcome: HandshakeOutcome) -> u64 {
        self.handshakes.at(&HandshakeLabels { outcome }).get()
    }
}
