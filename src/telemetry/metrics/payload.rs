//! Cost of giving records another form, of cutting fields out of them, and of compressing and
//! decompressing them; and the forms that callers ask for.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;

use super::definition::{Family, metrics};
use crate::telemetry::histogram::{LatencyHistogram, Local};
use crate::telemetry::labels::{label_sets, label_values};

/// Kind of work on a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum PayloadWork {
    ToJson,
    ToProtobuf,
    Index,
    Project,
    DecompressGzip,
    DecompressZstd,
    /// zstd with a dictionary.
    DecompressDcz,
    CompressZstd,
}

/// Form that a caller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum RequestedForm {
    Json,
    Protobuf,
    AsNamed,
}

/// Content coding that is taken off replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum ReplyCoding {
    Gzip,
    Zstd,
    Dcz,
}

/// Cause for which a reply's content coding cannot be taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum UndecodableReason {
    Unasked,
    Several,
    TooLarge,
    Damaged,
    Window,
    OtherDictionary,
    NoRoom,
}

label_values!(PayloadWork, RequestedForm, ReplyCoding, UndecodableReason);

label_sets! {
    WorkLabels { work: PayloadWork }
    FormLabels { form: RequestedForm }
    CodingLabels { coding: ReplyCoding }
    UndecodableLabels { why: UndecodableReason }
}

metrics! {
    /// Work on bodies.
    pub struct PayloadMetrics {
        /// Time to make another form of a body, an index or a selection of its fields, or to code it.
        payload_work_seconds: Family<WorkLabels, LatencyHistogram<Local>>,
        /// Bytes read by that.
        payload_read_bytes: Family<WorkLabels, Counter>,
        /// Requests on routes with a message, by the form that they ask for.
        form_requests: Family<FormLabels, Counter>,
        /// Fields that derived forms lack, since the schema does not know them.
        payload_unknown_fields: Counter,
        /// Bodies that do not fit their route's message.
        payload_mismatches: Counter,
        /// Bytes that compressed replies became, by their content coding.
        decompressed_bytes: Family<CodingLabels, Counter>,
        /// Replies of regions whose content coding was not asked for or cannot be taken off, by why.
        undecodable_replies: Family<UndecodableLabels, Counter>,
    }
}

impl PayloadMetrics {
    /// Work on one body that took so long and read so many bytes.
    pub fn payload_work(&self, work: PayloadWork, took: Duration, bytes: usize) {
        let labels = WorkLabels { work };
        self.payload_work_seconds.at(&labels).observe(took);
        self.payload_read_bytes.at(&labels).inc_by(bytes as u64);
    }

    /// A body of this coding became so many bytes.
    pub fn decompressed(&self, coding: ReplyCoding, bytes: usize) {
        self.decompressed_bytes.at(&CodingLabels { coding }).inc_by(bytes as u64);
    }

    /// A region's reply could not be decoded.
    pub fn undecodable(&self, why: UndecodableReason) {
        self.undecodable_replies.at(&UndecodableLabels { why }).inc();
    }

    /// A request on a route with a message asked for this form.
    pub fn form_asked(&self, form: RequestedForm) {
        self.form_requests.at(&FormLabels { form }).inc();
    }

    /// A derived form lacks so many fields, which its schema does not know.
    pub fn unknown_fields(&self, fields: usize) {
        self.payload_unknown_fields.inc_by(fields as u64);
    }

    /// A body does not fit its route's message.
    pub fn mismatch(&self) {
        self.payload_mismatches.inc();
    }
}
