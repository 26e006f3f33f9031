//! Walks over the stored entries one part at a time, so that operators' requests do not hold
//! everybody else up.

use std::sync::Arc;

use super::{Entry, Store};
use crate::cache::key::{Key, KeyRef};
use crate::cache::limits;
use crate::model::ids::TypeId;
use crate::model::time::Moment;

impl Store {
    /// The number of parts in a walk.
    pub const PARTS: usize = limits::STORE_SHARDS;

    /// The keys in one part that are `wanted`, judged by target and entry; a list of variants has
    /// no entry. Does not count as a read.
    pub fn keys_in(&self, part: usize, wanted: impl Fn(&str, Option<&Entry>) -> bool) -> Vec<Key> {
        self.kept.keys(part, |key, held| wanted(key.target(), held.entry().map(Arc::as_ref)))
    }

    /// The entry under a key. Does not count as a read.
    pub fn peek(&self, key: KeyRef<'_>) -> Option<Arc<Entry>> {
        let found = self.under(key.hash()).into_iter().find(|(known, _)| known.as_ref() == key);
        found.map(|(_, entry)| entry)
    }

    /// Number of records, of one type or of all, that some entry shows.
    pub fn count_records(&self, record_type: Option<TypeId>) -> usize {
        self.index.count(record_type)
    }

    /// From now on stores no reply of an unrouted path whose request was sent before `now`.
    pub fn refuse_before(&self, now: Moment) {
        self.invalidated.note_all(now);
    }
}
