//! Counts of decisions.

use prometheus_client::metrics::counter::Counter;

use super::denial::Denial;
use crate::telemetry::labels::{label_sets, label_values};
use crate::telemetry::metrics::definition::{Family, metrics};

/// Outcome of a decision, whether or not it was acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum AccessOutcome {
    Granted,
    /// Nothing that a grant is needed for.
    Elsewhere,
    NoCredential,
    BadCredential,
    NotGranted,
    KeysUnknown,
    VerificationBusy,
    GrantsUnknown,
}

impl From<Denial> for AccessOutcome {
    fn from(denial: Denial) -> Self {
        match denial {
            Denial::NoCredential => Self::NoCredential,
            Denial::BadCredential(_) => Self::BadCredential,
            Denial::NotGranted => Self::NotGranted,
            Denial::KeysUnknown => Self::KeysUnknown,
            Denial::Busy => Self::VerificationBusy,
            Denial::GrantsUnknown => Self::GrantsUnknown,
        }
    }
}

label_values!(AccessOutcome);

label_sets! {
    AccessLabels { outcome: AccessOutcome }
}

metrics! {
    /// Metrics of a port's decisions.
    pub struct AccessCounts("access_") {
        /// Requests that were decided about, by outcome; with `observe` all of them are answered.
        requests: Family<AccessLabels, Counter>,
    }
}

impl AccessCounts {
    pub(super) fn decided(&self, outcome: AccessOutcome) {
        self.requests.at(&AccessLabels { outcome }).inc();
    }

    #[cfg(test)]
    pub(super) fn count(&self, outcome: AccessOutcome) -> u64 {
        self.requests.at(&AccessLabels { outcome }).get()
    }
}
