//! Remembers which messages were applied recently, so that a second copy costs no signature check.
//!
//! An id gets in only after a message with it was verified and applied for the same region, and the
//! oldest leaves first. [`super::verify`] lets a copy pass unverified, marked as such. Such a copy
//! changes nothing and proves nothing: a sender that repeats a known id gets an acknowledgement and
//! no more.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;

use crate::aws::limits;
use crate::model::ids::RegionId;

/// The latest [`limits::REMEMBERED_MESSAGES`] applied messages of all regions.
#[derive(Debug, Default)]
pub struct Remembered {
    /// Random per process, so that nobody outside can aim at a collision.
    keys: RandomState,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Remembered {
    pub fn new() -> Self {
        Self::default()
    }

    /// True if a message with this id was applied for this region and is still remembered.
    pub fn contains(&self, region: RegionId, message_id: &str) -> bool {
        let id = self.id(region, message_id);
        self.kept().known.contains(&id)
    }

    /// Records that a verified message was applied.
    pub(crate) fn note(&self, region: RegionId, message_id: &str) {
        let id = self.id(region, message_id);
        let mut kept = self.kept();
        if !kept.known.insert(id) {
            return;
        }
        kept.order.push_back(id);
        if kept.order.len() > limits::REMEMBERED_MESSAGES
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.known.remove(&oldest);
        }
    }

    fn id(&self, region: RegionId, message_id: &str) -> u64 {
        self.keys.hash_one((region, message_id))
    }

    fn kept(&self) -> parking_lot::MutexGuard<'_, Kept> {
        // A panic while the lock is held cannot leave the value half-written.
        self.kept.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_remembered_per_region() {
        let remembered = Remembered::new();
        remembered.note(RegionId(1), "a");
        assert!(remembered.contains(RegionId(1), "a"));
        assert!(!remembered.contains(RegionId(0), "a"));
        assert!(!remembered.contains(RegionId(1), "b"));
    }

    #[test]
    fn bounded_set_evicts_oldest_first() {
        let remembered = Remembered::new();
        for id in 0..=limits::REMEMBERED_MESSAGES {
            remembered.note(RegionId(0), &id.to_string());
            remembered.note(RegionId(0), &id.to_string());
        }
        assert!(!remembered.contains(RegionId(0), "0"));
        assert!(remembered.contains(RegionId(0), "1"));
        let kept = remembered.kept();
        assert_eq!((kept.known.len(), kept.order.len()), (limits::REMEMBERED_MESSAGES, limits::REMEMBERED_MESSAGES));
    }
}
