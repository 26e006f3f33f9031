//! Owns the way from a record to the entries that show it, by the hashes of their keys, and what has departed and is still
//! to be told.
//!
//! Before it: [`super::Store`] counts an entry before it goes in, and [`super::Held::leave`] discounts it when it has
//! gone. After it: an announcement finds what to refetch. Invariants: counts, since a key's old and new entry overlap
//! for a moment, and keys whose hashes are the same count as one; every lock is a leaf.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cache::entry;
use crate::cache::key::Key;
use crate::freshness::audit::Slice;
use crate::freshness::words::{RecordId, TypeId};
use crate::limits;

/// A key's hash, and how many stored entries under it show the record.
type Counted = (u64, u32);

/// By the records' hashes, which cover their types. A tree, because it has at most a third of its room to spare.
type Shard = BTreeMap<u64, Shown>;

/// Where one record is shown. Nearly all are under one key, counted once, which then takes no memory of its own.
#[derive(Debug)]
struct Shown {
    record_type: TypeId,
    keys: Keys,
}

impl Shown {
    const fn of(&self, hash: u64) -> RecordId {
        RecordId { record_type: self.record_type, hash }
    }
}

#[derive(Debug)]
enum Keys {
    One(u64),
    Several(Box<Several>),
}

#[derive(Debug)]
struct Several(Vec<Counted>);

impl Keys {
    /// Adds one count of `key`; false when there are as many keys as there may be.
    fn add(&mut self, key: u64) -> bool {
        match self {
            Self::One(one) if *one == key => *self = Self::several(vec![(key, 2)]),
            Self::One(one) => *self = Self::several(vec![(*one, 1), (key, 1)]),
            Self::Several(several) => match several.0.iter().position(|(known, _)| *known == key) {
                Some(place) => several.0[place].1 += 1,
                None if several.0.len() >= limits::ENTRIES_PER_RECORD => return false,
                None => several.0.push((key, 1)),
            },
        }
        true
    }

    /// Takes one count off `key`; false when no key is left.
    fn take(&mut self, key: u64) -> bool {
        let keys = match self {
            Self::One(one) => return *one != key,
            Self::Several(several) => &mut several.0,
        };
        let Some(place) = keys.iter().position(|(known, _)| *known == key) else { return true };
        keys[place].1 -= 1;
        if keys[place].1 == 0 {
            keys.swap_remove(place);
        }
        if let [(last, 1)] = &keys[..] {
            *self = Self::One(*last);
        }
        true
    }

    fn several(keys: Vec<Counted>) -> Self {
        Self::Several(Box::new(Several(keys)))
    }

    fn hashes(&self) -> Vec<u64> {
        match self {
            Self::One(key) => vec![*key],
            Self::Several(several) => several.0.iter().map(|(key, _)| *key).collect(),
        }
    }
}

/// From records to the keys of entries that show them.
#[derive(Debug)]
pub(super) struct Index {
    /// By the highest bits of the record's hash, so that neighbours lie together.
    shards: Box<[Mutex<Shard>]>,
    departed: Mutex<Departed>,
}

/// What has gone and is still to be told or tidied.
#[derive(Debug, Default)]
pub(super) struct Departed {
    /// Records that no entry shows any more.
    pub(super) records: Vec<RecordId>,
    /// Variants whose list was evicted: nothing finds them any more.
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
        lock(&self.shards[shard_of(id.hash)])
    }

    /// Counts `key` under each record; false, with nothing counted, when one has as many keys as it may.
    pub(super) fn add(&self, key: &Key, shows: &[entry::Shown]) -> bool {
        let hash = key.as_ref().hash();
        for (place, shown) in shows.iter().enumerate() {
            let id = shown.id();
            let mut shard = self.shard(id);
            let added = match shard.entry(id.hash) {
                Entry::Occupied(mut shown) => shown.get_mut().keys.add(hash),
                Entry::Vacant(place) => {
                    place.insert(Shown { record_type: id.record_type, keys: Keys::One(hash) });
                    true
                }
            };
            if !added {
                drop(shard);
                self.remove(key, &shows[..place]);
                return false;
            }
        }
        true
    }

    /// Takes one count of `key` off each record.
    pub(super) fn remove(&self, key: &Key, shows: &[entry::Shown]) {
        for id in shows.iter().map(entry::Shown::id) {
            let mut shard = self.shard(id);
            let Some(shown) = shard.get_mut(&id.hash) else { continue };
            if !shown.keys.take(key.as_ref().hash()) {
                shard.remove(&id.hash);
                drop(shard);
                let mut departed = lock(&self.departed);
                if departed.records.len() < limits::UNTOLD_RELEASES {
                    departed.records.push(id);
                }
            }
        }
    }

    /// Notes variants whose list has gone.
    pub(super) fn orphan(&self, keys: &[Key]) {
        let mut departed = lock(&self.departed);
        let room = limits::UNTOLD_RELEASES.saturating_sub(departed.orphans.len());
        departed.orphans.extend(keys.iter().take(room).cloned());
    }

    /// What has departed since this was last asked.
    pub(super) fn departed(&self) -> Departed {
        std::mem::take(&mut *lock(&self.departed))
    }

    pub(super) fn has(&self, id: RecordId) -> bool {
        self.shard(id).contains_key(&id.hash)
    }

    /// The hashes of the keys of the entries that show a record.
    pub(super) fn keys(&self, id: RecordId) -> Vec<u64> {
        self.shard(id).get(&id.hash).map_or_else(Vec::new, |shown| shown.keys.hashes())
    }

    /// The records whose hashes lie in `slice`, with their keys' hashes, in the order of the walk.
    pub(super) fn slice(&self, slice: Slice) -> Vec<(RecordId, Vec<u64>)> {
        let (first, last) = (shard_of(slice.from), shard_of(slice.from.wrapping_add(slice.span)));
        // The way around may begin and end in one shard, which then is looked at once.
        let around = slice.span > u64::MAX / limits::INDEX_SHARDS as u64;
        let shards = if around {
            limits::INDEX_SHARDS
        } else {
            (last + limits::INDEX_SHARDS - first) % limits::INDEX_SHARDS + 1
        };
        let mut found = Vec::new();
        for shard in (first..first + shards).map(|shard| shard % limits::INDEX_SHARDS) {
            let shard = lock(&self.shards[shard]);
            let due = shard.iter().filter(|(hash, _)| slice.contains(**hash));
            found.extend(due.map(|(hash, shown)| (shown.of(*hash), shown.keys.hashes())));
        }
        // The same order in every run, whatever the hash seed.
        found.sort_unstable_by_key(|(id, _): &(RecordId, _)| (id.hash.wrapping_sub(slice.from), id.record_type));
        found
    }

    pub(super) fn records(&self, record_type: Option<TypeId>) -> Vec<RecordId> {
        let wanted = |id: &RecordId| record_type.is_none_or(|record_type| id.record_type == record_type);
        let of = |shard: &Mutex<Shard>| -> Vec<RecordId> {
            lock(shard).iter().map(|(hash, shown)| shown.of(*hash)).filter(wanted).collect()
        };
        let mut records: Vec<RecordId> = self.shards.iter().flat_map(of).collect();
        // The same order in every run, whatever the hash seed.
        records.sort_unstable();
        records
    }
}

/// Hashes of records are keyed, so that nobody can aim at one shard.
const fn shard_of(hash: u64) -> usize {
    (hash >> (u64::BITS - limits::INDEX_SHARDS.trailing_zeros())) as usize
}

/// A panic elsewhere leaves the maps whole: no call in between can fail.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
