//! Content of an announcement whose envelope is verified and whose body is decoded. The key is kept
//! only until its hash is taken, and `Debug` does not print it.

use std::fmt;

use crate::model::time::Wall;

/// A decoded announcement. It does not name its region: that is the one whose topic carried the
/// message.
#[derive(Clone, PartialEq, Eq)]
pub struct Announcement {
    /// Empty only with RELOAD, RESET and HEARTBEAT.
    pub record_type: String,
    /// Empty only with RELOAD, RESET and HEARTBEAT.
    pub key: String,
    pub kind: AnnouncementKind,
    /// The publisher and the number it gave this message; `None` if it does not number.
    pub numbered: Option<Numbered>,
    /// Time at which the region had ingested the change.
    pub ingested_at: Option<Wall>,
}

/// Publisher names that begin with this are not publishers. `nearside heartbeat` speaks for a path
/// alone, and its sequence is the slot `floor(unix time / 5 s)`, the same for any number of copies
/// (docs/freshness.md, the grade `path`).
pub const PATH_PUBLISHER: &str = "path:";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// One process of a region.
    pub publisher: String,
    /// 1, 2, 3, ... A heartbeat repeats its publisher's last number, or says 0 if that has
    /// announced nothing yet.
    pub sequence: u64,
}

/// Statement of an announcement about its record or its publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnouncementKind {
    Changed {
        /// The version that the region now has; `None` if the publisher knows none.
        version: Option<u64>,
    },
    Deleted {
        /// The tombstone's version, if it has one.
        version: Option<u64>,
    },
    /// The region may have changed this record, all of its type, or everything, without saying how.
    Reload,
    /// The versions of this record, of all of its type, or of everything went back: a restore.
    Reset,
    /// The publisher is alive. The message's number is its last.
    Heartbeat {
        /// Everything it ingested through this time has been announced.
        ingested_through: Option<Wall>,
        /// From now on its silence is expected.
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
