//! Removes what was stored under routes that a reload took away or changed: nobody can ask for it
//! any more.

use super::Core;
use crate::core::limits;

impl Core {
    /// Removes such entries a few records at a time, so that other tasks run in between.
    pub async fn forget_unrouted(&self) {
        let mut removed: u64 = 0;
        for records in self.store.records().chunks(limits::FORGOTTEN_AT_ONCE) {
            for (key, entry) in records.iter().flat_map(|record| self.store.entries_of(*record)) {
                let gone = entry.hold.routed().is_some_and(|routed| self.router.place(routed.route).is_none());
                if gone {
                    self.store.remove(key.as_ref());
                    removed += 1;
                }
            }
            tokio::task::yield_now().await;
        }
        tracing::info!(removed, "what was stored under routes that are no more is gone");
    }
}
