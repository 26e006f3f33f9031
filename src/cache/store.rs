//! Owns what is kept and how much of it: entries under their keys, and the index from records to keys. The only file
//! that touches quick_cache, which holds the entries and does capacity.
//!
//! Before it: a fill puts an entry; after an announcement, the keys of a record are asked for. After it: serve reads
//! without a lock of ours. Invariants: a late fill never overwrites a newer entry, nor does it undo an invalidation; the
//! index names every stored entry of a record (for a moment it may name one that has just gone); nobody is called back
//! while a lock is held; what is stored never weighs more than the capacity.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, HeaderName};
use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};

use self::index::{Departed, Index};
use super::entry::{Entry, Hold};
use super::key::{Hashed, Key, KeyBuffer, KeyRef};
use crate::clock::Moment;
use crate::freshness::audit::Slice;
use crate::freshness::words::{RecordId, TypeId};
use crate::limits;

mod index;
#[cfg(test)]
mod tests;

/// What one key holds.
#[derive(Clone, Debug)]
enum Held {
    Entry(Arc<Entry>),
    /// Under a primary key: where the replies that vary are (RFC 9111, 4.1).
    Variants(Arc<Variants>),
}

/// How the replies of one unrouted URI vary, and where they are. Both lists are oldest first and bounded.
#[derive(Clone, Debug, Default)]
struct Variants {
    sets: Vec<Box<[HeaderName]>>,
    keys: Vec<Key>,
}

impl Variants {
    /// These and one more; `None` when it is there already. With it the keys that had to make room.
    fn with(&self, names: &[HeaderName], key: &Key) -> Option<(Self, Vec<Key>)> {
        let (known_set, known_key) = (self.sets.iter().any(|set| **set == *names), self.keys.contains(key));
        if known_set && known_key {
            return None;
        }
        let mut more = self.clone();
        if !known_set {
            more.sets.push(names.into());
        }
        if !known_key {
            more.keys.push(key.clone());
        }
        let spare_sets = more.sets.len().saturating_sub(limits::VARY_SETS_PER_URI);
        more.sets.drain(..spare_sets);
        let spare_keys = more.keys.len().saturating_sub(limits::VARIANTS_PER_URI);
        let gone = more.keys.drain(..spare_keys).collect();
        Some((more, gone))
    }

    fn weight(&self) -> usize {
        let names: usize = self.sets.iter().map(|set| size_of_val(&**set)).sum();
        size_of::<Self>() + names + self.keys.len() * size_of::<Key>()
    }
}

/// What became of an entry that was put.
#[derive(Clone, Debug)]
pub enum Put {
    /// It is in the store, until something else is found worth more.
    Stored,
    /// A newer one is there and stays: this one.
    Outdated(Arc<Entry>),
    /// Its URI was invalidated after its request was sent (RFC 9111, 4.4).
    Invalidated,
    /// One of its records has [`limits::ENTRIES_PER_RECORD`] entries: serve it, unstored.
    Full,
}

/// The store. Shared by reference from all threads.
pub struct Store {
    cache: Cache<Key, Held, Weights, Hashed, Leaving>,
    capacity: u64,
    /// By a key's hash: who replaces what it holds is alone.
    writers: Box<[Mutex<()>]>,
    index: Arc<Index>,
    released: Box<dyn Fn(RecordId) + Send + Sync>,
    /// By a URI's hash: when it was last invalidated, nanoseconds since boot. Two URIs that share a place cost a stored
    /// reply at times, no more.
    invalidated: Box<[AtomicU64]>,
}

/// Collects what leaves while the store's locks are held.
#[derive(Clone, Debug)]
struct Leaving(Arc<Index>);

/// What has left, and the index that is to know of it when no lock is held any more.
#[derive(Debug, Default)]
struct Left {
    held: Vec<(Key, Held)>,
    index: Option<Arc<Index>>,
    /// What left under this key was replaced or taken out; the rest had to make room.
    own: Option<Key>,
}

impl Left {
    fn of(own: &Key) -> Self {
        Self { held: Vec::new(), index: None, own: Some(own.clone()) }
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let Some(index) = &self.index else { return };
        for (key, held) in self.held.drain(..) {
            match held {
                Held::Entry(entry) => index.remove(&key, entry.shows()),
                // A list of variants that made room leaves them behind.
                Held::Variants(variants) if self.own.as_ref() != Some(&key) => index.orphan(&variants.keys),
                Held::Variants(_) => {}
            }
        }
    }
}

impl Lifecycle<Key, Held> for Leaving {
    type RequestState = Left;
    fn on_evict(&self, left: &mut Left, key: Key, held: Held) {
        left.index.get_or_insert_with(|| self.0.clone());
        left.held.push((key, held));
    }
}

/// Weighs in bytes.
#[derive(Clone, Debug)]
struct Weights;

impl Weighter<Key, Held> for Weights {
    fn weight(&self, key: &Key, held: &Held) -> u64 {
        // quick_cache's slot and its place in the table, the index's node, and the allocator's own for each of them.
        const PLACE: usize = 256;
        let held = match held {
            Held::Entry(entry) => entry.weight(),
            Held::Variants(variants) => variants.weight(),
        };
        (PLACE + key.len() + held) as u64
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("entries", &self.entries())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

impl Store {
    /// An empty store for `capacity` bytes, all that keeping an entry takes counted. `released` is called for each record of which
    /// the last entry went: from [`Store::put`], [`Store::remove`] and [`Store::sweep`], with no lock held.
    pub fn new(capacity: u64, released: impl Fn(RecordId) + Send + Sync + 'static) -> Self {
        let index = Arc::new(Index::default());
        // Shares of a capacity that each hold the largest reply several times over, as many as there are cores to use
        // them. How many entries are expected decides no more than how many that left are remembered.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shares = capacity / (8 * limits::REPLY_BODY_BYTES as u64);
        let shards = usize::try_from(shares).unwrap_or(usize::MAX).clamp(1, 4 * cores);
        let expected = usize::try_from(capacity / (4 << 10)).unwrap_or(usize::MAX).max(32 * shards);
        let options = OptionsBuilder::new()
            .shards(if shards.is_power_of_two() { shards } else { shards.next_power_of_two() / 2 })
            .weight_capacity(capacity)
            .estimated_items_capacity(expected)
            .build()
            .expect("both capacities are given");
        Self {
            cache: Cache::with_options(options, Weights, Hashed, Leaving(index.clone())),
            capacity,
            writers: (0..limits::STORE_WRITERS).map(|_| Mutex::default()).collect(),
            index,
            released: Box::new(released),
            invalidated: (0..limits::INVALIDATIONS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The entry under a routed key.
    pub fn get(&self, key: KeyRef<'_>) -> Option<Arc<Entry>> {
        match self.cache.get(&key)? {
            Held::Entry(entry) => Some(entry),
            Held::Variants(_) => None,
        }
    }

    /// The stored reply of an unrouted URI that a request with `headers` selects, the newest if several match (RFC 9111,
    /// 4.1).
    pub fn select(&self, buffer: &mut KeyBuffer, path_and_query: &str, headers: &HeaderMap) -> Option<Arc<Entry>> {
        match self.cache.get(&buffer.primary(path_and_query))? {
            Held::Entry(entry) => Some(entry),
            Held::Variants(variants) => {
                let mut select = |names: &[HeaderName]| self.get(buffer.variant(path_and_query, names, headers));
                variants.sets.iter().filter_map(|names| select(names)).max_by_key(|entry| entry.sent)
            }
        }
    }

    /// Puts a routed entry, unless one that it does not supersede is there ([`Entry::supersedes`]). Atomic for its key.
    pub fn put(&self, key: KeyRef<'_>, entry: &Arc<Entry>) -> Put {
        let key = key.to_key();
        if !self.index.add(&key, entry.shows()) {
            return Put::Full;
        }
        // A routed key never holds a list of variants: its first byte differs.
        let put = self.put_if(&key, entry, || true).unwrap_or(Put::Invalidated);
        if !matches!(put, Put::Stored) {
            self.index.remove(&key, entry.shows());
        }
        self.settle();
        put
    }

    /// Puts an unrouted entry, the reply to a request with `headers`, where its `Vary` says. Not if the URI was
    /// invalidated since its request was sent, nor over a newer one.
    pub fn put_unrouted(
        &self,
        buffer: &mut KeyBuffer,
        path_and_query: &str,
        headers: &HeaderMap,
        entry: &Arc<Entry>,
    ) -> Put {
        let names: &[HeaderName] = match &entry.hold {
            Hold::Unrouted(stored) => &stored.vary,
            Hold::Routed(_) | Hold::Passing => &[],
        };
        let primary = buffer.primary(path_and_query).to_key();
        let allowed = || entry.sent.as_nanos() > self.invalidation(primary.as_ref()).load(Ordering::SeqCst);
        let whole = if names.is_empty() { self.put_if(&primary, entry, allowed) } else { None };
        let put = whole.unwrap_or_else(|| {
            let variant = buffer.variant(path_and_query, names, headers).to_key();
            match self.put_if(&variant, entry, allowed) {
                Some(Put::Stored) | None => self.list(&primary, names, &variant, allowed),
                Some(put) => put,
            }
        });
        self.settle();
        put
    }

    /// `None` when the key holds the list of variants: the entry belongs among them.
    fn put_if(&self, key: &Key, entry: &Arc<Entry>, allowed: impl Fn() -> bool) -> Option<Put> {
        let mut left = Left::of(key);
        let writing = self.writing(key);
        let put = match self.cache.peek(key) {
            _ if !allowed() => Some(Put::Invalidated),
            Some(Held::Variants(_)) => None,
            Some(Held::Entry(stored)) if !entry.supersedes(&stored) => Some(Put::Outdated(stored)),
            _ => {
                self.cache.insert_with_lifecycle(key.clone(), Held::Entry(Arc::clone(entry)), &mut left);
                Some(Put::Stored)
            }
        };
        drop(writing);
        drop(left);
        put
    }

    /// Lists a variant under its primary key. What is not listed cannot be found, so this is where a late invalidation is
    /// met: it has either emptied the list after this, or set its moment before it.
    fn list(&self, primary: &Key, names: &[HeaderName], variant: &Key, allowed: impl Fn() -> bool) -> Put {
        let (mut gone, mut left) = (Vec::new(), Left::of(primary));
        let writing = self.writing(primary);
        let invalidated = !allowed();
        let listed = match self.cache.peek(primary) {
            _ if invalidated => None,
            Some(Held::Variants(variants)) => variants.with(names, variant),
            _ => Variants::default().with(names, variant),
        };
        if let Some((variants, spare)) = listed {
            gone = spare;
            self.cache.insert_with_lifecycle(primary.clone(), Held::Variants(Arc::new(variants)), &mut left);
        }
        drop(writing);
        drop(left);
        if invalidated {
            gone.push(variant.clone());
        }
        gone.iter().for_each(|key| self.take(key.as_ref()));
        if invalidated { Put::Invalidated } else { Put::Stored }
    }

    /// Removes what is under a routed key.
    pub fn remove(&self, key: KeyRef<'_>) {
        self.take(key);
        self.settle();
    }

    /// Removes all stored replies of an unrouted URI, and refuses those whose requests were sent before `now` (RFC 9111,
    /// 4.4).
    pub fn invalidate(&self, buffer: &mut KeyBuffer, path_and_query: &str, now: Moment) {
        let primary = buffer.primary(path_and_query).to_key();
        self.invalidation(primary.as_ref()).fetch_max(now.as_nanos(), Ordering::SeqCst);
        // Under the key's own lock, so that a fill that is putting is either done, and removed, or sees the moment above.
        let writing = self.writing(&primary);
        let held = self.cache.remove(&primary);
        drop(writing);
        match held {
            Some((_, Held::Variants(variants))) => variants.keys.iter().for_each(|key| self.take(key.as_ref())),
            Some((key, Held::Entry(entry))) => self.index.remove(&key, entry.shows()),
            None => {}
        }
        self.settle();
    }

    fn writing(&self, key: &Key) -> MutexGuard<'_, ()> {
        let place = key.as_ref().hash() as usize & (limits::STORE_WRITERS - 1);
        // What it guards is replaced whole: a panic elsewhere cannot leave half of it.
        self.writers[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out what a key holds.
    fn take(&self, key: KeyRef<'_>) {
        if let Some((key, Held::Entry(entry))) = self.cache.remove(&key) {
            self.index.remove(&key, entry.shows());
        }
    }

    fn invalidation(&self, primary: KeyRef<'_>) -> &AtomicU64 {
        &self.invalidated[primary.hash() as usize & (limits::INVALIDATIONS - 1)]
    }

    /// The entries that show a record, with their keys: to refetch them after an announcement.
    pub fn entries_of(&self, id: RecordId) -> Vec<(Key, Arc<Entry>)> {
        let keys = self.index.keys(id);
        keys.into_iter().filter_map(|key| self.get(key.as_ref()).map(|entry| (key, entry))).collect()
    }

    /// The keys of the entries whose first record's hash lies in `slice`: what is due for an audit (R17). An entry is in
    /// exactly one of the slices of a way around.
    pub fn due(&self, slice: Slice) -> Vec<Key> {
        let of = |(id, keys): (RecordId, Vec<Key>)| {
            keys.into_iter().filter(move |key| {
                let first = |entry: &Arc<Entry>| entry.shows().first().is_some_and(|shown| shown.id == id);
                self.get(key.as_ref()).as_ref().is_some_and(first)
            })
        };
        self.index.slice(slice).into_iter().flat_map(of).collect()
    }

    /// The records of a type, or all, that some entry shows: what a RELOAD covers (R18).
    pub fn records_of(&self, record_type: Option<TypeId>) -> Vec<RecordId> {
        self.index.records(record_type)
    }

    /// Bytes kept: bodies, headers, keys, and what keeping them takes.
    pub fn bytes(&self) -> u64 {
        self.cache.weight()
    }

    /// Entries kept.
    pub fn entries(&self) -> u64 {
        self.cache.len() as u64
    }

    /// What it may hold, bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Gives up one in [`limits::GIVEN_UP`] of the bytes that are kept, what is worth least first, down to a quarter of the
    /// capacity. What is put from now on may take their place.
    pub fn give_up(&self) {
        let kept = self.bytes();
        if kept < self.capacity / 4 {
            // It is not the cache that memory is short of.
            return;
        }
        self.cache.set_capacity(kept - kept / limits::GIVEN_UP);
        self.cache.set_capacity(self.capacity);
        self.settle();
    }

    /// Tells of the records that went and are not told yet. To be called about once a second.
    pub fn sweep(&self) {
        self.settle();
    }

    /// Tells of records that nothing shows any more, and removes variants that nothing finds any more.
    fn settle(&self) {
        let Departed { records, orphans } = self.index.departed();
        orphans.iter().for_each(|key| self.take(key.as_ref()));
        for id in records {
            if !self.index.has(id) {
                (self.released)(id);
            }
        }
    }
}
