//! The store: entries under their keys, and an index from records to keys. [`kept`] holds the bytes
//! and enforces the capacity.
//!
//! A late fill never overwrites a newer entry and never undoes an invalidation. The index names
//! every stored entry of a record; for a moment it may also name one that has just gone. Callbacks
//! run with no lock held.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};

use self::index::{Departed, Index};
use self::invalidations::Invalidations;
use self::kept::{Change, SegmentedClock};
use super::content::request_lines::{RequestLines, Requests};
use super::entry::{Entry, Hold};
use super::key::{Key, KeyBuffer, KeyRef};
use crate::cache::limits;
use crate::http::limits::REPLY_BODY_BYTES;
use crate::model::ids::RecordId;
use crate::model::time::Moment;
use crate::protocol::audit::Slice;

mod index;
mod invalidations;
mod kept;
mod resize;
#[cfg(test)]
thread_local! {
    /// How often this thread called [`Store::get`].
    pub(crate) static CALLED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests;
mod walk;

/// What is stored under one key, together with the key's bytes.
#[derive(Clone, Debug)]
enum Held {
    /// An entry that holds its key itself (`Content::key`): a routed one.
    Entry(Arc<Entry>),
    /// Anything else; the key is stored next to it.
    Apart(Arc<Apart>),
}

#[derive(Debug)]
struct Apart {
    key: Key,
    what: What,
}

#[derive(Debug)]
enum What {
    Entry(Arc<Entry>),
    /// Under a primary key: where the replies that vary are (RFC 9111, 4.1).
    Variants(Variants),
}

impl Held {
    fn entry_under(key: KeyRef<'_>, entry: &Arc<Entry>) -> Self {
        let entry = Arc::clone(entry);
        if entry.content.key() == key.bytes() { Self::Entry(entry) } else { Self::apart(key, What::Entry(entry)) }
    }

    fn apart(key: KeyRef<'_>, what: What) -> Self {
        Self::Apart(Arc::new(Apart { key: key.to_key(), what }))
    }

    fn key(&self) -> &[u8] {
        match self {
            Self::Entry(entry) => entry.content.key(),
            Self::Apart(apart) => apart.key.as_ref().bytes(),
        }
    }

    fn entry(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Entry(entry) => Some(entry),
            Self::Apart(apart) => match &apart.what {
                What::Entry(entry) => Some(entry),
                What::Variants(_) => None,
            },
        }
    }

    fn variants(&self) -> Option<&Variants> {
        match self {
            Self::Apart(apart) => match &apart.what {
                What::Variants(variants) => Some(variants),
                What::Entry(_) => None,
            },
            Self::Entry(_) => None,
        }
    }

    /// Memory used, including the key, in bytes.
    fn weight(&self) -> usize {
        // Overhead: the slot, the record's place in its table, the index's place, reference counts,
        // the allocator's rounding. Measured as process memory at a million entries.
        const AROUND: usize = 200;
        const LEAST: usize = AROUND + size_of::<Entry>();
        const _: () = assert!(REPLY_BODY_BYTES / LEAST < limits::UNTOLD_RELEASES);
        let held = self.entry().map_or(0, |entry| entry.weight()) + self.variants().map_or(0, Variants::weight);
        let apart = match self {
            Self::Entry(_) => 0,
            Self::Apart(apart) => size_of::<Apart>() + apart.key.len(),
        };
        AROUND + held + apart
    }

    /// Notes that it was replaced, removed or `evicted` from the key with this hash.
    /// [`Store::settle`] acts on the notes once the operation that caused this is done.
    fn leave(&self, key: u64, evicted: bool, index: &Index) {
        if let Some(entry) = self.entry() {
            index.remove(key, entry.shows());
        }
        if let Some(variants) = self.variants().filter(|_| evicted) {
            index.orphan(&variants.keys);
        }
    }
}

/// How the replies of one unrouted URI vary, and where they are. Both lists are ordered oldest
/// first, and bounded.
#[derive(Clone, Debug, Default)]
struct Variants {
    sets: Vec<Box<[HeaderName]>>,
    keys: Vec<Key>,
}

impl Variants {
    /// Adds a set of names and a key; `None` if both are already listed. Also returns the keys that
    /// had to make room.
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

/// What happened to an entry that was put.
#[derive(Clone, Debug)]
pub enum Put {
    /// It is in the store until it has to make room.
    Stored,
    /// A newer one is stored and stays: this one.
    Outdated(Arc<Entry>),
    /// Its URI was invalidated after its request was sent (RFC 9111, 4.4).
    Invalidated,
    /// One of its records has [`limits::ENTRIES_PER_RECORD`] entries: serve it without storing it.
    Full,
}

/// The store. Shared by reference between all threads.
pub struct Store {
    kept: SegmentedClock,
    index: Arc<Index>,
    released: Box<dyn Fn(RecordId) + Send + Sync>,
    requests: Requests,
    invalidated: Invalidations,
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
    /// An empty store for `capacity` bytes of bodies, headers and keys. `released` is called for
    /// each record that lost its last entry, by the call that caused it, with no lock held.
    pub fn new(capacity: u64, released: impl Fn(RecordId) + Send + Sync + 'static) -> Self {
        let index = Arc::new(Index::default());
        let kept = SegmentedClock::new(capacity, Arc::clone(&index));
        let invalidated = Invalidations::new();
        Self { kept, index, released: Box::new(released), requests: Requests::default(), invalidated }
    }

    /// Header lines of a request, to be kept with the entry that answers it.
    pub fn request_lines(&self, headers: &HeaderMap) -> RequestLines {
        self.requests.share(headers)
    }

    pub fn get(&self, key: KeyRef<'_>) -> Option<Arc<Entry>> {
        #[cfg(test)]
        CALLED.set(CALLED.get() + 1);
        match self.kept.get(key)? {
            Held::Entry(entry) => Some(entry),
            held @ Held::Apart(_) => held.entry().cloned(),
        }
    }

    /// The stored reply of an unrouted URI that a request with `headers` selects; the newest if
    /// several match (RFC 9111, 4.1).
    pub fn select(&self, buffer: &mut KeyBuffer, path_and_query: &str, headers: &HeaderMap) -> Option<Arc<Entry>> {
        let held = self.kept.get(buffer.primary(path_and_query))?;
        let Some(variants) = held.variants() else { return held.entry().cloned() };
        let mut select = |names: &[HeaderName]| self.get(buffer.variant(path_and_query, names, headers));
        variants.sets.iter().filter_map(|names| select(names)).max_by_key(|entry| entry.sent)
    }

    /// Puts a routed entry unless the stored one is newer ([`Entry::supersedes`]). Atomic for its
    /// key.
    pub fn put(&self, key: KeyRef<'_>, entry: &Arc<Entry>) -> Put {
        if !self.index.add(key.hash(), entry.shows()) {
            return Put::Full;
        }
        // A routed key never holds a list of variants, because its first byte differs.
        let put = self.put_if(key, entry, || true).unwrap_or(Put::Invalidated);
        if !matches!(put, Put::Stored) {
            self.index.remove(key.hash(), entry.shows());
        }
        self.settle();
        put
    }

    /// Puts `entry` in the place of `stored`, if that is still what the key holds: the same reply,
    /// with more made of it. Returns whether it was.
    pub fn replace(&self, key: KeyRef<'_>, stored: &Arc<Entry>, entry: &Arc<Entry>) -> bool {
        if !self.index.add(key.hash(), entry.shows()) {
            return false;
        }
        let mut replaced = false;
        self.kept.change(key, |current| match current.and_then(Held::entry) {
            Some(current) if Arc::ptr_eq(current, stored) => {
                replaced = true;
                Change::Put(Held::entry_under(key, entry))
            }
            _ => Change::Keep,
        });
        if !replaced {
            self.index.remove(key.hash(), entry.shows());
        }
        self.settle();
        replaced
    }

    /// Puts an unrouted entry, the reply to a request with `headers`, where its `Vary` says.
    /// Refused if the URI was invalidated since the request was sent, or if a newer entry is
    /// stored.
    pub fn put_unrouted(
        &self,
        buffer: &mut KeyBuffer,
        path_and_query: &str,
        headers: &HeaderMap,
        entry: &Arc<Entry>,
    ) -> Put {
        let names: &[HeaderName] = match &entry.hold {
            Hold::Unrouted(stored) => &stored.vary,
            Hold::Routed(_) | Hold::Uncacheable => &[],
        };
        let primary = buffer.primary(path_and_query).to_key();
        let allowed = || entry.sent > self.invalidated.latest(primary.as_ref());
        let whole = if names.is_empty() { self.put_if(primary.as_ref(), entry, allowed) } else { None };
        let put = whole.unwrap_or_else(|| {
            let variant = buffer.variant(path_and_query, names, headers).to_key();
            match self.put_if(variant.as_ref(), entry, allowed) {
                Some(Put::Stored) | None => self.list(&primary, names, &variant, allowed),
                Some(put) => put,
            }
        });
        self.settle();
        put
    }

    /// `None` if the key holds a list of variants, among which the entry belongs.
    fn put_if(&self, key: KeyRef<'_>, entry: &Arc<Entry>, allowed: impl Fn() -> bool) -> Option<Put> {
        let mut put = Some(Put::Stored);
        self.kept.change(key, |current| {
            put = match current.map(Held::entry) {
                _ if !allowed() => Some(Put::Invalidated),
                Some(None) => None,
                Some(Some(stored)) if !entry.supersedes(stored) => Some(Put::Outdated(Arc::clone(stored))),
                _ => return Change::Put(Held::entry_under(key, entry)),
            };
            Change::Keep
        });
        put
    }

    /// Lists a variant under its primary key. A variant that is not listed cannot be found, so this
    /// is where a late invalidation takes effect: it either empties the list after this call, or
    /// has noted its moment before it.
    fn list(&self, primary: &Key, names: &[HeaderName], variant: &Key, allowed: impl Fn() -> bool) -> Put {
        let (mut gone, mut invalidated) = (Vec::new(), false);
        self.kept.change(primary.as_ref(), |current| {
            invalidated = !allowed();
            let listed = match current.and_then(Held::variants) {
                _ if invalidated => None,
                Some(variants) => variants.with(names, variant),
                None => Variants::default().with(names, variant),
            };
            listed.map_or(Change::Keep, |(variants, spare)| {
                gone = spare;
                Change::Put(Held::apart(primary.as_ref(), What::Variants(variants)))
            })
        });
        if invalidated {
            gone.push(variant.clone());
        }
        for key in gone {
            self.kept.remove(key.as_ref());
        }
        if invalidated { Put::Invalidated } else { Put::Stored }
    }

    pub fn remove(&self, key: KeyRef<'_>) {
        self.kept.remove(key);
        self.settle();
    }

    /// Removes all stored replies of an unrouted URI, and refuses those whose requests were sent
    /// before `now` (RFC 9111, 4.4).
    pub fn invalidate(&self, buffer: &mut KeyBuffer, path_and_query: &str, now: Moment) {
        let primary = buffer.primary(path_and_query).to_key();
        self.invalidated.note(primary.as_ref(), now);
        let mut variants = Vec::new();
        // The key's own lock orders this with a running fill: either the fill has put its reply,
        // which is removed here, or it sees the moment noted above.
        self.kept.change(primary.as_ref(), |current| {
            if let Some(listed) = current.and_then(Held::variants) {
                variants.clone_from(&listed.keys);
            }
            Change::Remove
        });
        for key in &variants {
            self.kept.remove(key.as_ref());
        }
        self.settle();
    }

    /// When an unrouted URI was last invalidated. A later request shares no reply from before that.
    pub fn invalidated(&self, buffer: &mut KeyBuffer, path_and_query: &str) -> Moment {
        self.invalidated.latest(buffer.primary(path_and_query))
    }

    /// The entries that show a record, with their keys, for refetching after an announcement.
    pub fn entries_of(&self, id: RecordId) -> Vec<(Key, Arc<Entry>)> {
        let shows = |entry: &Entry| entry.shows().iter().any(|shown| shown.id() == id);
        self.index.keys(id).into_iter().flat_map(|hash| self.under(hash)).filter(|(_, entry)| shows(entry)).collect()
    }

    /// The keys of the entries whose first record's hash is in `slice`: those due for an audit
    /// (R17). In one full round each entry is in exactly one slice.
    pub fn due(&self, slice: Slice) -> Vec<Key> {
        let of = |(id, keys): (RecordId, Vec<u64>)| {
            let first = move |entry: &Entry| entry.shows().first().is_some_and(|shown| shown.id() == id);
            let under = keys.into_iter().flat_map(|hash| self.under(hash));
            under.filter_map(move |(key, entry)| first(&entry).then_some(key))
        };
        self.index.slice(slice).into_iter().flat_map(of).collect()
    }

    /// The entries under keys with this hash: almost always one.
    fn under(&self, hash: u64) -> Vec<(Key, Arc<Entry>)> {
        let entry = |(key, held): (Key, Held)| held.entry().map(|entry| (key, Arc::clone(entry)));
        self.kept.under(hash).into_iter().filter_map(entry).collect()
    }

    /// The records that some entry shows.
    pub fn records(&self) -> Vec<RecordId> {
        self.index.records()
    }

    /// Bytes in use: bodies, headers, keys and overhead.
    pub fn bytes(&self) -> u64 {
        self.kept.weight()
    }

    /// Number of keys in use; a list of variants counts as one.
    pub fn entries(&self) -> u64 {
        self.kept.count() as u64
    }

    /// Capacity in bytes.
    pub fn capacity(&self) -> u64 {
        self.kept.capacity()
    }

    /// Gives up one in [`limits::GIVEN_UP`] of the bytes kept, least valuable first. Does nothing
    /// if less than a quarter of the capacity is used.
    pub fn give_up(&self) {
        let kept = self.bytes();
        if kept < self.capacity() / 4 {
            // Then the cache is not what uses up the memory.
            return;
        }
        let wanted = kept - kept / limits::GIVEN_UP;
        let steps = (kept - wanted) / limits::GIVEN_UP_STEP;
        for left in (0..=steps).rev() {
            self.kept.make_room(wanted + left * limits::GIVEN_UP_STEP);
            self.settle();
        }
    }

    /// Acts on what [`Held::leave`] noted.
    fn settle(&self) {
        let Departed { records, orphans } = self.index.departed();
        for key in orphans {
            self.kept.remove(key.as_ref());
        }
        for id in records {
            if !self.index.has(id) {
                (self.released)(id);
            }
        }
    }
}
