//! Owns what happened: every write, every read, what each region had when, every fault. Only
//! recorded here.
//!
//! Before it: the driver's tasks record as they go. After it: [`super::check`] judges all of it,
//! once. Invariant: one clock, that of the machine since boot, for all processes; a region's
//! progress is dated when the driver received it, which is never before it was so.

use super::script::{Kind, REGIONS};

/// Microseconds since boot.
pub(crate) type At = u64;

/// One second.
pub(crate) const SECOND: At = 1_000_000;

/// A change of the source of truth; its place in the list is its offset in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) at: At,
    pub(crate) key: u32,
}

/// Content of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) version: u64,
    /// Nobody was asked.
    pub(crate) hit: bool,
    /// It joined a fill that others had begun.
    pub(crate) collapsed: bool,
    /// The stated `bound`, seconds.
    pub(crate) bound: Option<u64>,
    /// Why it may be old.
    pub(crate) label: Option<String>,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) key: u32,
    pub(crate) start: At,
    pub(crate) end: At,
    /// Which process of the sidecar answered; `None` when it was replaced meanwhile.
    pub(crate) life: Option<u32>,
    /// Or why there was no answer.
    pub(crate) got: Result<Shown, String>,
}

/// Report of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It shows so many changes of the log.
    Ingested,
    /// It has published so many.
    Announced,
    /// One that was published is never delivered.
    Dropped,
}

/// A fault as it was carried out.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) kind: Kind,
    pub(crate) regions: Vec<usize>,
    pub(crate) from: At,
    pub(crate) until: At,
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Beginning and end of the script.
    pub(crate) span: (At, At),
    pub(crate) writes: Vec<Write>,
    pub(crate) reads: Vec<Read>,
    /// Per region: when, what, how far.
    pub(crate) progress: [Vec<(At, Progress, u64)>; REGIONS],
    pub(crate) windows: Vec<Window>,
    /// Periods in which the sidecar was dead or stopped: requests may fail then.
    pub(crate) outages: Vec<(At, At)>,
    /// Reads that were due while all connections waited.
    pub(crate) held_back: u64,
}
