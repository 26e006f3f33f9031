//! Remembers which messages were applied recently, so that a second copy costs no signature check.
//!
//! An id gets in only after a message with it was verified and applied for the same region, and the
//! oldest leaves first. [`super::verify`] lets a copy pass unverified, marked as such. Such a copy
//! changes nothing and proves nothing: whoever repeats a known id gets an acknowledgement and no
//! more.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

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

    /// Whether a message with this id was applied for this region and is still remembered.
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

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        // A panic while the lock is held cannot leave the value half-written.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_remembered_for_its_region_only() {
        let remembered = Remembered::new();
        remembered.note(RegionId(1), "a");
        assert!(remembered.contains(RegionId(1), "a"));
        assert!(!remembered.contains(RegionId(0), "a"));
        assert!(!remembered.contains(RegionId(1), "b"));
    }

    #[test]
    fn the_oldest_is_forgotten_first_and_the_set_is_bounded() {
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
