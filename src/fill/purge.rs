//! Removes what was stored under routes that a reload took away or changed: nobody can ask for it
//! any more.

use super::limits;
use super::settings::Settings;

/// Removes such entries a few records at a time, so that other tasks run in between.
pub async fn purge_removed_routes(settings: &Settings) {
    let store = &settings.shared.store;
    let mut removed: u64 = 0;
    for records in store.records().chunks(limits::PURGED_AT_ONCE) {
        for (key, entry) in records.iter().flat_map(|record| store.entries_of(*record)) {
            let routed = entry.validity.routed();
            if routed.is_some_and(|routed| settings.router.index_of(routed.route).is_none()) {
                store.remove(key.as_ref());
                removed += 1;
            }
        }
        tokio::task::yield_now().await;
    }
    tracing::info!(removed, "purged the entries of removed routes");
}
