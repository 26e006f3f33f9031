//! What it costs to give records another form, to cut fields out of them, or to compress and
//! decompress them: time and bytes of each kind of work, and what callers ask for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{HIT_BOUNDS, Metrics};
use crate::telemetry::counts::{Grid, LatencyHistogram};
use crate::telemetry::labels::{CODINGS, FORMS, UNDECODABLE, WORKS};

/// One kind of work on a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadWork {
    ToJson,
    ToProtobuf,
    Index,
    Project,
    Gunzip,
    Unzstd,
    /// zstd with a dictionary.
    Undcz,
    Zstd,
}

impl PayloadWork {
    const fn word(self) -> &'static str {
        match self {
            Self::ToJson => "to-json",
            Self::ToProtobuf => "to-protobuf",
            Self::Index => "index",
            Self::Project => "project",
            Self::Gunzip => "decompress-gzip",
            Self::Unzstd => "decompress-zstd",
            Self::Undcz => "decompress-dcz",
            Self::Zstd => "compress-zstd",
        }
    }
}

#[derive(Debug)]
pub(in crate::telemetry) struct PayloadCells {
    /// By [`WORKS`].
    pub(super) took: Box<[LatencyHistogram]>,
    pub(super) bytes: Grid,
    pub(super) forms: Grid,
    pub(super) unknown_fields: AtomicU64,
    pub(super) mismatches: AtomicU64,
    pub(super) decompressed: Grid,
    pub(super) undecodable: Grid,
}

impl PayloadCells {
    pub(super) fn new() -> Self {
        Self {
            took: WORKS.iter().map(|_| LatencyHistogram::new(HIT_BOUNDS)).collect(),
            bytes: Grid::new(1, WORKS),
            forms: Grid::new(1, FORMS),
            unknown_fields: AtomicU64::new(0),
            mismatches: AtomicU64::new(0),
            decompressed: Grid::new(1, CODINGS),
            undecodable: Grid::new(1, UNDECODABLE),
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

    /// A body of this coding became so many bytes.
    pub fn decompressed(&self, coding: &'static str, bytes: usize) {
        self.cells.payload.decompressed.add_many(0, coding, bytes as u64);
    }

    /// A region's reply could not be decoded, and this is why.
    pub fn undecodable(&self, why: &'static str) {
        self.cells.payload.undecodable.add(0, why);
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
