//! Holds the replies of all regions, so that a test decides when a race goes on. Nothing stays held
//! once this is dropped.

use std::sync::Arc;

use super::region::WorldRegion;

/// Holds replies for as long as it lives.
pub(crate) struct HeldReplies {
    regions: Arc<[Arc<WorldRegion>]>,
}

impl HeldReplies {
    pub(crate) const fn new(regions: Arc<[Arc<WorldRegion>]>) -> Self {
        Self { regions }
    }

    /// Resolves once every region holds at least `count` requests.
    pub(crate) async fn until(&self, count: usize) {
        for region in self.regions.iter() {
            region.until_held(count).await;
        }
    }

    /// Releases all replies, by dropping `self`.
    pub(crate) fn release(self) {}
}

impl Drop for HeldReplies {
    fn drop(&mut self) {
        self.regions.iter().for_each(|region| region.release());
    }
}
