//! Temporary.
use super::entry::Entry;
use super::key::{Key, KeyRef};
use crate::freshness::words::RecordId;
use std::sync::Arc;
pub struct Store {
    map: moka::sync::Cache<Key, Arc<Entry>>,
}
impl Store {
    pub fn new(_max: u64, _released: impl Fn(RecordId) + Send + Sync + 'static) -> Self {
        Self { map: moka::sync::Cache::new(100_000) }
    }
    pub fn get(&self, key: KeyRef<'_>) -> Option<Arc<Entry>> {
        self.map.get(&key.to_key())
    }
    pub fn insert(&self, key: Key, entry: Arc<Entry>) -> bool {
        self.map.insert(key, entry);
        true
    }
    pub fn keys_of(&self, record: RecordId) -> Vec<Key> {
        let shows = |entry: &Entry| match &entry.hold {
            super::entry::Hold::Routed(r) => r.shows.iter().any(|s| s.id == record),
            _ => false,
        };
        self.map.iter().filter(|(_, e)| shows(e)).map(|(k, _)| (*k).clone()).collect()
    }
    pub fn entries(&self) -> u64 {
        self.map.entry_count()
    }
    pub fn bytes(&self) -> u64 {
        0
    }
    pub fn tend(&self) {}
    pub fn invalidate(&self, _t: &str, _n: crate::clock::Moment) {}
    pub fn find_unrouted(&self, _p: &str, _h: &http::HeaderMap) -> Option<Arc<Entry>> {
        None
    }
    pub fn insert_unrouted(&self, _t: &str, _h: &http::HeaderMap, _e: Arc<Entry>) -> bool {
        false
    }
}
