//! The index from records to the entries that show them, by the hashes of the entries' keys. It
//! also notes which records and variants have departed and still have to be reported.
//!
//! It counts, because a key's old and new entry overlap for a moment and keys with equal hashes
//! count as one. Every lock is a leaf: nothing else is locked while it is held.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use parking_lot::{Mutex, MutexGuard};

use crate::cache::key::Key;
use crate::cache::limits;
use crate::model::ids::{RecordId, TypeId};
use crate::protocol::audit::Slice;
use crate::protocol::holding::ShownRecord;

/// A key's hash, and how many stored entries under it show the record.
type Counted = (u64, u32);

/// A part of the records, by type.
type Shard = Vec<OfType>;

/// The keys of one type's records, by the records' hashes. B-trees, because on average they leave
/// only about a third of their room unused.
#[derive(Debug, Default)]
struct OfType {
    /// Nearly all records have one key, counted once. It takes sixteen bytes, and there may be a
    /// million of them.
    one: BTreeMap<u64, u64>,
    /// Records with several keys, or one counted more than once.
    several: BTreeMap<u64, Vec<Counted>>,
}

impl OfType {
    /// Adds one count of `key` to a record; false if the record already has as many keys as it may.
    fn add(&mut self, record: u64, key: u64) -> bool {
        if let Some(several) = self.several.get_mut(&record) {
            match several.iter().position(|(known, _)| *known == key) {
                Some(place) => several[place].1 += 1,
                None if several.len() >= limits::ENTRIES_PER_RECORD => return false,
                None => several.push((key, 1)),
            }
            return true;
        }
        match self.one.entry(record) {
            Entry::Vacant(place) => {
                place.insert(key);
            }
            Entry::Occupied(place) => {
                let one = place.remove();
                let several = if one == key { vec![(key, 2)] } else { vec![(one, 1), (key, 1)] };
                self.several.insert(record, several);
            }
        }
        true
    }

    /// Removes one count of `key` from a record; true if it was the record's last.
    fn take(&mut self, record: u64, key: u64) -> bool {
        let Some(several) = self.several.get_mut(&record) else {
            return self.one.get(&record) == Some(&key) && self.one.remove(&record).is_some();
        };
        let Some(place) = several.iter().position(|(known, _)| *known == key) else { return false };
        several[place].1 -= 1;
        if several[place].1 == 0 {
            several.swap_remove(place);
        }
        if let [(last, 1)] = several[..] {
            self.several.remove(&record);
            self.one.insert(record, last);
        }
        false
    }

    fn has(&self, record: u64) -> bool {
        self.one.contains_key(&record) || self.several.contains_key(&record)
    }

    fn keys(&self, record: u64) -> Vec<u64> {
        self.one.get(&record).map_or_else(
            || self.several.get(&record).into_iter().flatten().map(|(key, _)| *key).collect(),
            |key| vec![*key],
        )
    }

    fn records(&self) -> impl Iterator<Item = u64> {
        self.one.keys().chain(self.several.keys()).copied()
    }
}

/// Maps records to the keys of the entries that show them.
#[derive(Debug)]
pub(super) struct Index {
    /// Chosen by the highest bits of the record's hash, so that neighbours lie together.
    shards: Box<[Mutex<Shard>]>,
    departed: Mutex<Departed>,
}

/// Departed entries that still have to be reported or cleaned up.
#[derive(Debug, Default)]
pub(super) struct Departed {
    /// Records that no entry shows any more.
    pub(super) records: Vec<RecordId>,
    /// Variants whose list was evicted, so that nothing can find them any more.
    pub(super) orphans: Vec<Key>,
}

impl Default for Index {
    fn default() -> Self {
        let shards = (0..limits::INDEX_SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, departed: Mutex::default() }
    }
}

impl Index {
    fn shard(&self, id: RecordId) -> MutexGuard<'_, Shard> {
        self.shards[shard_of(id.hash)].lock()
    }

    /// Counts the key with this hash under each record. Returns false, with nothing counted, if one
    /// of them already has as many keys as it may.
    pub(super) fn add(&self, key: u64, shows: &[ShownRecord]) -> bool {
        for (place, id) in shows.iter().map(ShownRecord::id).enumerate() {
            let mut shard = self.shard(id);
            let (of, types) = (place_of(id.record_type), shard.len());
            // Types are numbered as configured, so the list grows no longer than the configuration.
            shard.resize_with(types.max(of + 1), OfType::default);
            if !shard[of].add(id.hash, key) {
                drop(shard);
                self.remove(key, &shows[..place]);
                return false;
            }
        }
        true
    }

    /// Removes one count of `key` from each record.
    pub(super) fn remove(&self, key: u64, shows: &[ShownRecord]) {
        for id in shows.iter().map(ShownRecord::id) {
            let gone = self.shard(id).get_mut(place_of(id.record_type)).is_some_and(|of| of.take(id.hash, key));
            if gone {
                let mut departed = self.departed.lock();
                if departed.records.len() < limits::UNTOLD_RELEASES {
                    departed.records.push(id);
                }
            }
        }
    }

    /// Notes variants whose list has gone.
    pub(super) fn orphan(&self, keys: &[Key]) {
        let mut departed = self.departed.lock();
        let room = limits::UNTOLD_RELEASES.saturating_sub(departed.orphans.len());
        departed.orphans.extend(keys.iter().take(room).cloned());
    }

    /// Takes what has departed since the last call.
    pub(super) fn departed(&self) -> Departed {
        std::mem::take(&mut *self.departed.lock())
    }

    pub(super) fn has(&self, id: RecordId) -> bool {
        self.shard(id).get(place_of(id.record_type)).is_some_and(|of| of.has(id.hash))
    }

    /// The hashes of the keys of the entries that show a record.
    pub(super) fn keys(&self, id: RecordId) -> Vec<u64> {
        self.shard(id).get(place_of(id.record_type)).map_or_else(Vec::new, |of| of.keys(id.hash))
    }

    /// The records whose hashes lie in `slice`, with their keys' hashes, in the order of the walk.
    pub(super) fn slice(&self, slice: Slice) -> Vec<(RecordId, Vec<u64>)> {
        let (first, last) = (shard_of(slice.from), shard_of(slice.from.wrapping_add(slice.span)));
        // A full round may begin and end in one shard, which must then be visited once.
        let around = slice.span > u64::MAX / limits::INDEX_SHARDS as u64;
        let shards = if around {
            limits::INDEX_SHARDS
        } else {
            (last + limits::INDEX_SHARDS - first) % limits::INDEX_SHARDS + 1
        };
        let mut found = Vec::new();
        for shard in (first..first + shards).map(|shard| shard % limits::INDEX_SHARDS) {
            for (record_type, of) in types(&self.shards[shard].lock()) {
                let due = of.records().filter(|hash| slice.contains(*hash));
                found.extend(due.map(|hash| (RecordId { record_type, hash }, of.keys(hash))));
            }
        }
        // Keeps the order the same in every run, whatever the hash seed.
        found.sort_unstable_by_key(|(id, _): &(RecordId, _)| (id.hash.wrapping_sub(slice.from), id.record_type));
        found
    }

    /// Number of records, of one type or of all, that some entry shows.
    pub(super) fn count(&self, record_type: Option<TypeId>) -> usize {
        self.shards
            .iter()
            .map(|shard| {
                let shard = shard.lock();
                let wanted = types(&shard).filter(|(of_type, _)| record_type.is_none_or(|it| it == *of_type));
                wanted.map(|(_, of)| of.one.len() + of.several.len()).sum::<usize>()
            })
            .sum()
    }

    pub(super) fn records(&self) -> Vec<RecordId> {
        let mut records = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            for (of_type, of) in types(&shard) {
                records.extend(of.records().map(|hash| RecordId { record_type: of_type, hash }));
            }
        }
        // Keeps the order the same in every run, whatever the hash seed.
        records.sort_unstable();
        records
    }
}

const fn place_of(record_type: TypeId) -> usize {
    record_type.0 as usize
}

fn types(shard: &Shard) -> impl Iterator<Item = (TypeId, &OfType)> {
    (0..).map(TypeId).zip(shard)
}

/// Record hashes are keyed, so that nobody can aim at one shard.
const fn shard_of(hash: u64) -> usize {
    (hash >> (u64::BITS - limits::INDEX_SHARDS.trailing_zeros())) as usize
}
