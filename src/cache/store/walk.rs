//! Walks over what is kept, one part after the other, so that nobody waits for the whole: what operators ask for.

use std::sync::Arc;

use super::{Entry, Store};
use crate::cache::key::{Key, KeyRef};
use crate::cache::limits;
use crate::model::ids::TypeId;
use crate::model::time::Moment;

impl Store {
    /// The parts that a walk takes.
    pub const PARTS: usize = limits::STORE_SHARDS;

    /// The keys in one part that are `wanted`, by target and entry; lists of variants have none. It counts as no read.
    pub fn keys_in(&self, part: usize, wanted: impl Fn(&str, Option<&Entry>) -> bool) -> Vec<Key> {
        self.kept.keys(part, |key, held| wanted(key.target(), held.entry().map(Arc::as_ref)))
    }

    /// What is under a key. It counts as no read.
    pub fn peek(&self, key: KeyRef<'_>) -> Option<Arc<Entry>> {
        let found = self.under(key.hash()).into_iter().find(|(known, _)| known.as_ref() == key);
        found.map(|(_, entry)| entry)
    }

    /// How many records of a type, or of all, some entry shows.
    pub fn count_records(&self, record_type: Option<TypeId>) -> usize {
        self.index.count(record_type)
    }

    /// No reply of an unrouted path is stored any more whose request was sent before `now`.
    pub fn refuse_before(&self, now: Moment) {
        self.invalidated.note_all(now);
    }
}
