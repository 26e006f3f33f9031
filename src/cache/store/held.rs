//! Values stored under one key: an entry, or the list of an unrouted URI's variants.

use std::sync::Arc;

use http::HeaderName;

use super::index::Index;
use crate::cache::entry::Entry;
use crate::cache::key::{Key, KeyRef};
use crate::cache::limits;
use crate::http::limits::REPLY_BODY_BYTES;

/// Value stored under one key, together with the key's bytes.
#[derive(Clone, Debug)]
pub(super) enum Held {
    /// An entry that holds its key itself (`Content::key`): a routed one.
    Entry(Arc<Entry>),
    /// Anything else; the key is stored next to it.
    Apart(Arc<Apart>),
}

#[derive(Debug)]
pub(super) struct Apart {
    pub(super) key: Key,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Entry(Arc<Entry>),
    /// Under a primary key: where the replies that vary are (RFC 9111, 4.1).
    Variants(Variants),
}

impl Held {
    pub(super) fn entry_under(key: KeyRef<'_>, entry: &Arc<Entry>) -> Self {
        let entry = Arc::clone(entry);
        if entry.content.key() == key.bytes() { Self::Entry(entry) } else { Self::apart(key, What::Entry(entry)) }
    }

    pub(super) fn apart(key: KeyRef<'_>, what: What) -> Self {
        Self::Apart(Arc::new(Apart { key: key.to_key(), what }))
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        match self {
            Self::Entry(entry) => entry.content.key(),
            Self::Apart(apart) => apart.key.as_ref().bytes(),
        }
    }

    #[inline]
    pub(super) fn entry(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Entry(entry) => Some(entry),
            Self::Apart(apart) => match &apart.what {
                What::Entry(entry) => Some(entry),
                What::Variants(_) => None,
            },
        }
    }

    #[inline]
    pub(super) fn variants(&self) -> Option<&Variants> {
        match self {
            Self::Apart(apart) => match &apart.what {
                What::Variants(variants) => Some(variants),
                What::Entry(_) => None,
            },
            Self::Entry(_) => None,
        }
    }

    /// Memory used, including the key, in bytes.
    pub(super) fn weight(&self) -> usize {
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
    /// [`super::Store::settle`] acts on the notes once the operation that caused this is done.
    pub(super) fn leave(&self, key: u64, evicted: bool, index: &Index) {
        if let Some(entry) = self.entry() {
            index.remove(key, entry.shows());
        }
        if let Some(variants) = self.variants().filter(|_| evicted) {
            index.orphan(&variants.keys);
        }
    }
}

/// Variants of one unrouted URI's replies: the headers they vary by, and their places. Both lists
/// are ordered oldest first, and bounded.
#[derive(Clone, Debug, Default)]
pub(super) struct Variants {
    pub(super) sets: Vec<Box<[HeaderName]>>,
    pub(super) keys: Vec<Key>,
}

impl Variants {
    /// Adds a set of names and a key; `None` if both are already listed. Also returns the keys that
    /// had to make room.
    pub(super) fn with(&self, names: &[HeaderName], key: &Key) -> Option<(Self, Vec<Key>)> {
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

    pub(super) fn weight(&self) -> usize {
        let names: usize = self.sets.iter().map(|set| size_of_val(&**set)).sum();
        size_of::<Self>() + names + self.keys.len() * size_of::<Key>()
    }
}
