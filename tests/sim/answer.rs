//! Owns an answer, as its reader sees it.
//!
//! Before it: [`super::run`]. After it: [`super::check`] judges it. Invariant: what it says of
//! itself is read from `Cache-Status`, as any client would.

use std::time::Duration;

use super::check::Floor;
use super::manner::Shape;
use super::plan::Read;
use super::subject::Seen;

/// One answer to one reader.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Which request; in a batch, which part.
    pub(crate) read: Read,
    /// Shape that the reader asked for.
    pub(crate) shape: Shape,
    /// Number of keys of the reader's batch, if there is one.
    pub(crate) batch: usize,
    /// Time of the request.
    pub(crate) began: Duration,
    /// Time of the answer.
    pub(crate) ended: Duration,
    /// The status.
    pub(crate) status: u16,
    /// `Cache-Status`.
    pub(crate) line: String,
    /// Parsed content; `None` when it is no region's.
    pub(crate) seen: Option<Seen>,
    /// Floor of the record at the request's time, for a part that waited for a fill or for those
    /// before it: nobody knows since when it was there.
    pub(crate) before: Option<Floor>,
}

impl Answer {
    /// Served without asking.
    pub(crate) fn is_hit(&self) -> bool {
        self.line.contains("; hit")
    }

    /// Passed on by one region without a race.
    pub(crate) fn is_passed(&self) -> bool {
        self.line.contains("fwd=bypass")
    }

    /// For how long it says that it holds.
    pub(crate) fn ttl(&self) -> Option<i64> {
        self.parameter("ttl=")?.parse().ok()
    }

    /// Why it cannot be called fresh, if it says so.
    pub(crate) fn label(&self) -> Option<&'static str> {
        let detail = self.parameter("detail=")?;
        ["below-floor", "floor-escaped", "stale-if-error", "grace", "unproven"]
            .into_iter()
            .find(|label| detail.starts_with(label))
    }

    /// The bound it states.
    pub(crate) fn bound(&self) -> Option<Duration> {
        self.parameter("bound=")?.parse().ok().map(Duration::from_secs)
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.line.split(';').find_map(|part| part.trim_start().strip_prefix(name))
    }
}
