//! R14: how often messages that say something unknown may move a region's epoch.

use crate::model::time::Moment;
use crate::protocol::limits;

/// The first message of a window moves the epoch at once, the rest move it together at its end.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    window_until: Option<Moment>,
    pending: bool,
}

impl Unread {
    /// A message arrived. Returns whether the epoch moves for it now.
    pub(crate) fn arrived(&mut self, now: Moment) -> bool {
        self.pending = self.window_until.is_some_and(|until| now < until);
        if !self.pending {
            self.window_until = Some(now + limits::UNREAD_WINDOW);
        }
        !self.pending
    }

    /// True if something arrived for which the epoch has yet to move. Until it does, nothing says
    /// how old an answer is.
    pub(crate) const fn is_owed(&self) -> bool {
        self.pending
    }

    /// Returns whether the window is over and the epoch moves for what arrived within it.
    pub(crate) fn due(&mut self, now: Moment) -> bool {
        let due = self.pending && self.window_until.is_none_or(|until| now >= until);
        if due {
            *self = Self { window_until: Some(now + limits::UNREAD_WINDOW), pending: false };
        }
        due
    }
}
