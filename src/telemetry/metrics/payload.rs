//! What it costs to give records another form, or to cut fields out of them: time and bytes of each
//! kind of work, and what callers ask for.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::exposition::{Page, count, histogram};
use super::{HIT_BOUNDS, Metrics};
use crate::telemetry::counts::{Grid, LatencyHistogram};
use crate::telemetry::labels::{FORMS, WORKS};

/// One kind of work on a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadWork {
    ToJson,
    ToProtobuf,
    Index,
    Project,
}

impl PayloadWork {
    const fn word(self) -> &'static str {
        match self {
            Self::ToJson => "to-json",
            Self::ToProtobuf => "to-protobuf",
            Self::Index => "index",
            Self::Project => "project",
        }
    }
}

#[derive(Debug)]
pub(in crate::telemetry) struct PayloadCells {
    /// By [`WORKS`].
    took: Box<[LatencyHistogram]>,
    bytes: Grid,
    forms: Grid,
    unknown_fields: AtomicU64,
    mismatches: AtomicU64,
}

impl PayloadCells {
    pub(super) fn new() -> Self {
        Self {
            took: WORKS.iter().map(|_| LatencyHistogram::new(HIT_BOUNDS)).collect(),
            bytes: Grid::new(1, WORKS),
            forms: Grid::new(1, FORMS),
            unknown_fields: AtomicU64::new(0),
            mismatches: AtomicU64::new(0),
        }
    }
}

impl Metrics {
    /// Work on one body that took so long and read so many bytes.
    pub fn payload_work(&self, work: PayloadWork, took: Duration, bytes: usize) {
        let cells = &self.cells.payload;
        if let Some(place) = WORKS.iter().position(|word| *word == work.word()) {
            cells.took[place].observe(took);
        }
        cells.bytes.add_many(0, work.word(), bytes as u64);
    }

    /// A request on a route with a message asked for this form.
    pub fn form_asked(&self, form: &'static str) {
        self.cells.payload.forms.add(0, form);
    }

    /// A derived form lacks so many fields, which its schema does not know.
    pub fn unknown_fields(&self, fields: usize) {
        self.cells.payload.unknown_fields.fetch_add(fields as u64, Ordering::Relaxed);
    }

    /// A body does not fit its route's message.
    pub fn mismatch(&self) {
        self.cells.payload.mismatches.fetch_add(1, Ordering::Relaxed);
    }
}

pub(super) fn write(page: &mut Page<'_, '_>, cells: &PayloadCells) -> fmt::Result {
    let help = "How long it took to make another form of a body, an index of its fields, or a selection of them";
    let mut took = page.describe("payload_work", help, Some(&Unit::Seconds), MetricType::Histogram)?;
    for (work, latency) in WORKS.iter().zip(&cells.took) {
        histogram(&mut took.encode_family(&[("work", *work)])?, latency)?;
    }
    let mut bytes = page.describe("payload_read", "Bytes read by that", Some(&Unit::Bytes), MetricType::Counter)?;
    for (work, value) in cells.bytes.row(0, true) {
        count(&mut bytes.encode_family(&[("work", work)])?, value)?;
    }
    let help = "Requests on routes with a message, by the form that they ask for";
    let mut forms = page.describe("form_requests", help, None, MetricType::Counter)?;
    for (form, value) in cells.forms.row(0, true) {
        count(&mut forms.encode_family(&[("form", form)])?, value)?;
    }
    let load = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
    let help = "Fields that derived forms lack, since the schema does not know them";
    page.counter("payload_unknown_fields", help, load(&cells.unknown_fields))?;
    page.counter("payload_mismatches", "Bodies that do not fit their route's message", load(&cells.mismatches))
}
