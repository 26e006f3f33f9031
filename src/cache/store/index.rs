//! Owns the way from a record to the entries that show it, by the hashes of their keys, and what has departed and is still
//! to be told.
//!
//! Before it: [`super::Store`] counts an entry before it goes in, and [`super::Held::leave`] discounts it when it has
//! gone. After it: an announcement finds what to refetch. Invariants: counts, since a key's old and new entry overlap
//! for a moment, and keys whose hashes are the same count as one; every lock is a leaf.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cache::entry::Shown;
use crate::cache::key::Key;
use crate::freshness::audit::Slice;
use crate::freshness::words::{RecordId, TypeId};
use crate::limits;

/// A key's hash, and how many stored entries under it show the record.
type Counted = (u64, u32);

/// By the records' hashes, which cover their types. A tree, because it has at most a third of its room to spare.
type Shard = BTreeMap<u64, Keys>;

/// The keys of one record, of which its hash does not say the type. Nearly all records have one, counted once, which then
/// takes no memory of its own.
#[derive(Debug)]
enum Keys {
    One(TypeId, u64),
    Several(TypeId, Box<Several>),
}

#[derive(Debug)]
struct Several(Vec<Counted>);

impl Keys {
    /// Adds one count of `key`; false when there are as many keys as there may be.
    fn add(&mut self, key: u64) -> bool {
        match self {
            Self::One(of, one) if *one == key => *self = Self::several(*of, vec![(key, 2)]),
            Self::One(of, one) => *self = Self::several(*of, vec![(*one, 1), (key, 1)]),
            Self::Several(_, several) => match several.0.iter().position(|(known, _)| *known == key) {
                Some(place) => several.0[place].1 += 1,
                None if several.0.len() >= limits::ENTRIES_PER_RECORD => return false,
                None => several.0.push((key, 1)),
            },
        }
        true
    }

    /// Takes one count off `key`; false when no key is left.
    fn take(&mut self, key: u64) -> bool {
        let (of, keys) = match self {
            Self::One(_, one) => return *one != key,
            Self::Several(of, several) => (*of, &mut several.0),
        };
        let Some(place) = keys.iter().position(|(known, _)| *known == key) else { return true };
        keys[place].1 -= 1;
        if keys[place].1 == 0 {
            keys.swap_remove(place);
        }
        if let [(last, 1)] = &keys[..] {
            *self = Self::One(of, *last);
        }
        true
    }

    fn several(of: TypeId, keys: Vec<Counted>) -> Self {
        Self::Several(of, Box::new(Several(keys)))
    }

    fn hashes(&self) -> Vec<u64> {
        match self {
            Self::One(_, key) => vec![*key],
            Self::Several(_, several) => several.0.iter().map(|(key, _)| *key).collect(),
        }
    }

    /// The record with this hash.
    const fn of(&self, hash: u64) -> RecordId {
        let (Self::One(record_type, _) | Self::Several(record_type, _)) = self;
        RecordId { record_type: *record_type, hash }
    }
}

const _: () = assert!(size_of::<Keys>() == 2 * size_of::<u64>(), "type and key take no more");

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

    /// Counts the key with this hash under each record; false, with nothing counted, when one has as many keys as it may.
    pub(super) fn add(&self, key: u64, shows: &[Shown]) -> bool {
        for (place, shown) in shows.iter().enumerate() {
            let id = shown.id();
            let mut shard = self.shard(id);
            let added = match shard.entry(id.hash) {
                Entry::Occupied(mut keys) => keys.get_mut().add(key),
                Entry::Vacant(place) => {
                    place.insert(Keys::One(id.record_type, key));
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
    pub(super) fn remove(&self, key: u64, shows: &[Shown]) {
        for id in shows.iter().map(Shown::id) {
            let mut shard = self.shard(id);
            let Some(keys) = shard.get_mut(&id.hash) else { continue };
            if !keys.take(key) {
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
        self.shard(id).get(&id.hash).map_or_else(Vec::new, Keys::hashes)
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
            found.extend(due.map(|(hash, keys)| (keys.of(*hash), keys.hashes())));
        }
        // The same order in every run, whatever the hash seed.
        found.sort_unstable_by_key(|(id, _): &(RecordId, _)| (id.hash.wrapping_sub(slice.from), id.record_type));
        found
    }

    pub(super) fn records(&self, record_type: Option<TypeId>) -> Vec<RecordId> {
        let wanted = |id: &RecordId| record_type.is_none_or(|record_type| id.record_type == record_type);
        let of = |shard: &Mutex<Shard>| -> Vec<RecordId> {
            lock(shard).iter().map(|(hash, keys)| keys.of(*hash)).filter(wanted).collect()
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
