//! Batches of keys.

use prometheus_client::metrics::counter::Counter;

use super::definition::{Family, metrics};
use crate::telemetry::labels::{label_sets, label_values};

/// Source of one part of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum BatchPart {
    Stored,
    /// The regions were asked.
    Asked,
    /// The key makes no path.
    Refused,
}

label_values!(BatchPart);

label_sets! {
    BatchPartLabels { from: BatchPart }
}

metrics! {
    /// Batches of keys.
    pub struct BatchMetrics {
        /// Batches answered.
        batches: Counter,
        /// Parts of batches: from the store, asked for, or with a key that makes no path.
        batch_parts: Family<BatchPartLabels, Counter>,
        /// Requests to regions for several keys at once.
        batches_sent: Counter,
    }
}

impl BatchMetrics {
    /// A batch is answered.
    pub fn batch(&self) {
        self.batches.inc();
    }

    pub fn batch_part(&self, from: BatchPart) {
        self.batch_parts.at(&BatchPartLabels { from }).inc();
    }

    /// Several keys were asked for in one request to a region.
    pub fn batch_sent(&self) {
        self.batches_sent.inc();
    }
}
