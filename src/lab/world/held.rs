//! Owns the gate at which all regions hold their replies, so that a test decides when a race goes on.
//!
//! Before it: [`super::World::hold`]. After it: the held replies go. Invariant: nothing stays held once it is dropped.

use std::sync::Arc;

use super::region::Region;

/// Holds replies for as long as it lives.
pub struct Held {
    regions: Arc<[Arc<Region>]>,
}

impl Held {
    pub(crate) const fn new(regions: Arc<[Arc<Region>]>) -> Self {
        Self { regions }
    }

    /// Resolves once every region holds at least `count` requests.
    pub async fn until(&self, count: usize) {
        for region in self.regions.iter() {
            region.until_held(count).await;
        }
    }

    /// Lets all replies go.
    pub fn release(self) {}
}

impl Drop for Held {
    fn drop(&mut self) {
        self.regions.iter().for_each(|region| region.release());
    }
}
