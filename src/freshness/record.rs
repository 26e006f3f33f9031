//! Owns each record's floor, generation and marker: beside entries where there are some, else in a fixed table.

use super::words::{Generation, RegionSet, Version};
use crate::clock::Moment;

/// A record's state, shared by the entries that show it. Read without a lock.
#[derive(Debug, Default)]
pub struct Record {}

/// A record's state at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Nothing below it is stored or served as fresh (R1).
    pub floor: Version,
    /// Moved by announcements (R3).
    pub generation: Generation,
    /// The newest announcement, if one is remembered.
    pub marker: Option<Marker>,
}

/// Who announced what last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The regions that announced this change; the first one moved the generation.
    pub regions: RegionSet,
    /// When the first of them arrived.
    pub at: Moment,
    /// DELETED rather than CHANGED.
    pub deleted: bool,
}

impl Record {
    /// Floor, generation and marker, consistent with each other.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }
}
