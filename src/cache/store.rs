//! The store: entries under their keys, and an index from records to keys. [`kept`] holds the bytes
//! and enforces the capacity.
//!
//! A late fill never overwrites a newer entry and never undoes an invalidation. The index names
//! every stored entry of a record; for a moment it may also name one that has just gone. Callbacks
//! run with no lock held.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};

use self::held::{Held, Variants, What};
use self::index::{Departed, Index};
use self::invalidations::Invalidations;
use self::kept::{Change, SegmentedClock};
use super::content::request_lines::{RequestLines, Requests};
use super::entry::{Entry, Validity};
use super::key::{Key, KeyBuffer, KeyRef};
use crate::cache::limits;
use crate::model::ids::RecordId;
use crate::model::time::Moment;
use crate::protocol::audit::Slice;

mod held;
mod index;
mod invalidations;
mod kept;
mod resize;
#[cfg(test)]
thread_local! {
    /// Number of calls to [`Store::get`] by this thread.
    pub(crate) static CALLED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests;
mod walk;

/// Outcome of putting an entry.
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
    /// Times at which requests were sent whose replies ended what was stored of a routed key.
    superseded: Invalidations,
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
        let (invalidated, superseded) = (Invalidations::new(), Invalidations::new());
        Self { kept, index, released: Box::new(released), requests: Requests::default(), invalidated, superseded }
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
        let selected =
            variants.sets.iter().filter_map(|names| self.get(buffer.variant(path_and_query, names, headers)));
        selected.max_by_key(|entry| entry.sent)
    }

    /// Puts a routed entry unless the stored one is newer ([`Entry::supersedes`]). Atomic for its
    /// key.
    pub fn put(&self, key: KeyRef<'_>, entry: &Arc<Entry>) -> Put {
        if !self.index.add(key.hash(), entry.shows()) {
            return Put::Full;
        }
        // A routed key never holds a list of variants, because its first byte differs.
        let allowed = || entry.sent >= self.superseded.latest(key);
        let put = self.put_if(key, entry, allowed).unwrap_or(Put::Invalidated);
        if !matches!(put, Put::Stored) {
            self.index.remove(key.hash(), entry.shows());
        }
        self.settle();
        put
    }

    /// Removes what is stored at a routed key if `entry`, which must not be stored, supersedes it: regions
    /// say something else now. What was asked for before does not take the place.
    pub fn supersede(&self, key: KeyRef<'_>, entry: &Entry) {
        self.superseded.note(key, entry.sent);
        self.kept.change(key, |current| match current.and_then(Held::entry) {
            Some(stored) if entry.supersedes(stored) => Change::Remove,
            _ => Change::Keep,
        });
        self.settle();
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
        let names: &[HeaderName] = match &entry.validity {
            Validity::Unrouted(stored) => &stored.vary,
            Validity::Routed(_) | Validity::Uncacheable => &[],
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

    /// Time at which an unrouted URI was last invalidated. A later request shares no reply from
    /// before that.
    pub fn invalidated(&self, buffer: &mut KeyBuffer, path_and_query: &str) -> Moment {
        self.invalidated.latest(buffer.primary(path_and_query))
    }

    /// The entries that show a record, with their keys, for refetching after an announcement.
    pub fn entries_of(&self, id: RecordId) -> Vec<(Key, Arc<Entry>)> {
        let under = self.index.keys(id).into_iter().flat_map(|hash| self.under(hash));
        under.filter(|(_, entry)| entry.shows().iter().any(|shown| shown.id() == id)).collect()
    }

    /// The keys of the entries whose first record's hash is in `slice`: those due for an audit
    /// (R17). In one full round each entry is in exactly one slice.
    pub fn due(&self, slice: Slice) -> Vec<Key> {
        self.index
            .slice(slice)
            .into_iter()
            .flat_map(|(id, keys)| {
                let under = keys.into_iter().flat_map(|hash| self.under(hash));
                under.filter_map(move |(key, entry)| {
                    let first = entry.shows().first().is_some_and(|shown| shown.id() == id);
                    first.then_some(key)
                })
            })
            .collect()
    }

    /// The entries under keys with this hash: almost always one.
    fn under(&self, hash: u64) -> Vec<(Key, Arc<Entry>)> {
        self.kept
            .under(hash)
            .into_iter()
            .filter_map(|(key, held)| held.entry().map(|entry| (key, Arc::clone(entry))))
            .collect()
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
