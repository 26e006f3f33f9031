//! The first seconds of a queue: SQS may not know it for a second or so after CreateQueue has
//! answered, and then it is not lost.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::model::time::Moment;
use crate::sidecar::limits;

/// A queue that was made a moment ago, and whether SQS has listed it since.
#[derive(Debug)]
pub(crate) struct NewQueue {
    made: Moment,
    seen: AtomicBool,
}

impl NewQueue {
    pub(crate) const fn made(now: Moment) -> Self {
        Self { made: now, seen: AtomicBool::new(false) }
    }

    /// Notes that SQS knows it.
    pub(crate) fn was_seen(&self) {
        self.seen.store(true, Ordering::Relaxed);
    }

    /// True if "it does not exist" at `now` means that somebody deleted it.
    pub(crate) fn is_lost(&self, now: Moment) -> bool {
        self.seen.load(Ordering::Relaxed) || now.since(self.made) > limits::QUEUE_SHOWS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unseen_queue_is_lost_after_wait() {
        let new = NewQueue::made(Moment::ZERO);
        assert!(!new.is_lost(Moment::ZERO + limits::QUEUE_SHOWS));
        assert!(new.is_lost(Moment::ZERO + limits::QUEUE_SHOWS * 2));
    }

    #[test]
    fn seen_queue_is_lost_at_once() {
        let new = NewQueue::made(Moment::ZERO);
        new.was_seen();
        assert!(new.is_lost(Moment::ZERO));
    }
}
