//! Owns what an announcement says once its envelope is verified and its body decoded.
//!
//! Before it: [`crate::protocol::announcement`]. After it: [`crate::sidecar::announcements::apply`] turns it into a freshness event. The key is kept only
//! until its hash is taken; `Debug` does not print it.

use std::fmt;

use crate::model::time::Wall;

/// A decoded announcement. The region is not in it: it is the one whose topic carried the message.
#[derive(Clone, PartialEq, Eq)]
pub struct Announcement {
    /// The record type; empty only with RELOAD, RESET and HEARTBEAT.
    pub record_type: String,
    /// The record's key; empty only with RELOAD, RESET and HEARTBEAT.
    pub key: String,
    /// What happened.
    pub kind: Kind,
    /// Who numbers this message, and its number, if anyone does.
    pub numbered: Option<Numbered>,
    /// When the region had ingested the change.
    pub ingested_at: Option<Wall>,
}

/// What the names of publishers begin with that are no publishers: `nearside heartbeat` speaks for a path alone, and
/// its sequence is the slot `floor(unix time / 5 s)`, the same for any number of copies (FRESHNESS.md, grade Path).
pub const PATH_PUBLISHER: &str = "path:";

/// A publisher's own numbering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// One process of a region.
    pub publisher: String,
    /// 1, 2, 3, ... A heartbeat repeats its publisher's last; 0 when that has announced nothing yet.
    pub sequence: u64,
}

/// What an announcement says of its record, or of its publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The record changed; 0 when the publisher knows no version.
    Changed {
        /// The version that the region now has; `None` when the publisher knows none.
        version: Option<u64>,
    },
    /// The record was deleted, perhaps with the tombstone's version.
    Deleted {
        /// The tombstone's version.
        version: Option<u64>,
    },
    /// The region may have changed this record, all of its type, or all, without saying how.
    Reload,
    /// The versions of this record, of all of its type, or of all went back: a restore.
    Reset,
    /// The publisher lives; its last number is the message's.
    Heartbeat {
        /// All that it ingested through this time has been announced.
        ingested_through: Option<Wall>,
        /// It is not missed from now on.
        signing_off: bool,
    },
}

impl fmt::Debug for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Announcement")
            .field("record_type", &self.record_type)
            .field("kind", &self.kind)
            .field("numbered", &self.numbered)
            .finish_non_exhaustive()
    }
}
