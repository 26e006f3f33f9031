//! A record: as it is or was, what is to be written of it, and what became of that.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::note::ChangeNote;
use super::preconditions::Preconditions;
use crate::catalogue::counts::WriteOutcome;

/// A record at one version; without a body it was deleted then.
#[derive(Clone, PartialEq, Eq)]
pub struct RecordVersion {
    pub key: String,
    pub version: u64,
    /// As it was sent.
    pub body: Option<Bytes>,
    /// Its content is damaged, and nobody can say what it was.
    pub is_unreadable: bool,
    /// Note on who changed it then; empty of a record as it is now.
    pub note: ChangeNote,
}

/// Keys and contents stay out of logs.
impl fmt::Debug for RecordVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordVersion({}, {:?} bytes)", self.version, self.body.as_ref().map(Bytes::len))
    }
}

/// One record to be written.
#[derive(Clone, PartialEq, Eq)]
pub struct RecordWrite {
    pub record_type: String,
    pub key: String,
    /// A JSON object, kept byte for byte; `None` deletes the record.
    pub body: Option<Bytes>,
    pub only_if: Preconditions,
}

/// Outcome for one record. It lies in the store: members may be added, none may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordWritten {
    pub version: u64,
    /// There was no record before, or a deleted one.
    pub created: bool,
    pub deleted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteAnswer {
    pub applied: Vec<RecordWritten>,
    /// It had taken place before, under the same idempotency key.
    pub replayed: bool,
}

impl RecordWrite {
    pub fn put(record_type: impl Into<String>, key: impl Into<String>, body: impl Into<Bytes>) -> Self {
        let (record_type, key, body) = (record_type.into(), key.into(), Some(body.into()));
        Self { record_type, key, body, only_if: Preconditions::none() }
    }

    pub fn delete(record_type: impl Into<String>, key: impl Into<String>) -> Self {
        Self { record_type: record_type.into(), key: key.into(), body: None, only_if: Preconditions::none() }
    }

    #[must_use]
    pub fn only_if(self, only_if: Preconditions) -> Self {
        Self { only_if, ..self }
    }
}

impl RecordWritten {
    pub(super) const fn outcome(self) -> WriteOutcome {
        match (self.deleted, self.created) {
            (true, _) => WriteOutcome::Deleted,
            (false, true) => WriteOutcome::Created,
            (false, false) => WriteOutcome::Replaced,
        }
    }
}

/// Some records, and where to go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordPage {
    pub records: Vec<RecordVersion>,
    /// Opaque. Without it this was the last page; a page may be empty and not the last.
    pub next: Option<String>,
}

/// A record that is, or was deleted.
#[derive(Clone, PartialEq, Eq)]
pub struct WalkedRecord {
    pub key: String,
    /// Its last version.
    pub version: u64,
}

/// Keys stay out of logs.
impl fmt::Debug for WalkedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WalkedRecord({})", self.version)
    }
}

/// Some records of a bucket, and where to go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkedPage {
    pub records: Vec<WalkedRecord>,
    /// The key after which to go on. Without it this was the bucket's last page; a page may be empty and not the last.
    pub next: Option<String>,
}
