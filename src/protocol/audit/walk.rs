//! The pace at which audits go around everything that is stored.

use std::time::Duration;

use crate::model::time::Moment;
use crate::protocol::limits;

/// A walk around all record hashes, once in each period.
#[derive(Debug)]
pub(crate) struct Walk {
    period: Duration,
    at: u64,
    stepped: Moment,
}

/// The hashes that are due: `span` of them, beginning with `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    pub from: u64,
    /// After the highest hash they go on at 0.
    pub span: u64,
}

impl Slice {
    pub const fn contains(self, hash: u64) -> bool {
        hash.wrapping_sub(self.from) < self.span
    }
}

impl Walk {
    /// Starts at the beginning; `period` is not zero.
    pub(crate) const fn new(period: Duration, now: Moment) -> Self {
        Self { period, at: 0, stepped: now }
    }

    /// Goes on to where it should be `now`; what lies in between is due. Time in which the process
    /// was paused is not made up for: it served nothing then, and the walk goes on where it was.
    pub(crate) fn step(&mut self, now: Moment) -> Slice {
        let passed = now.since(self.stepped).min(limits::PAUSE);
        self.stepped = now;
        let share = (passed.as_nanos() << 64) / self.period.as_nanos().max(1);
        let slice = Slice { from: self.at, span: u64::try_from(share).unwrap_or(u64::MAX) };
        self.at = self.at.wrapping_add(slice.span);
        slice
    }
}
