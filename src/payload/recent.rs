//! Recent results by text: a bounded table that readers wait for nobody to read.

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use arc_swap::ArcSwap;
use siphasher::sip::SipHasher13;

use crate::payload::limits::RECENT_ENTRIES;

/// Overhead of an entry in bytes, beside its text and its value's bytes: counters, lengths and
/// pointers of three pieces of memory, and an allocator's rounding.
const ENTRY_BYTES: usize = 160;

struct Entry<V> {
    text: Arc<str>,
    value: V,
    weight: usize,
}

/// Each with its text's hash in front, so that most are skipped without being looked at.
type Entries<V> = Vec<(u64, Arc<Entry<V>>)>;

/// Bounded by the bytes it has room for, and by [`RECENT_ENTRIES`]. A value is cheap to clone.
pub(super) struct Recent<V> {
    entries: ArcSwap<Entries<V>>,
    room: usize,
}

/// Alike in every process. Making two texts of one hash gains nothing: texts are compared.
pub(super) fn hash(text: &str) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0, 0);
    hasher.write(text.as_bytes());
    hasher.finish()
}

impl<V: Clone> Recent<V> {
    pub(super) fn new(room: usize) -> Self {
        Self { entries: ArcSwap::default(), room }
    }

    pub(super) fn get(&self, hash: u64, text: &str) -> Option<V> {
        let entries = self.entries.load();
        let (_, found) = entries.iter().find(|(known, entry)| *known == hash && *entry.text == *text)?;
        Some(found.value.clone())
    }

    /// Keeps a value of `bytes`, in place of others if need be. One that has no room is not kept.
    pub(super) fn keep(&self, hash: u64, text: &Arc<str>, value: &V, bytes: usize) {
        let weight = ENTRY_BYTES + text.len() + bytes;
        if weight > self.room {
            return;
        }
        let new = Arc::new(Entry { text: text.clone(), value: value.clone(), weight });
        self.entries.rcu(|entries| {
            let mut entries = Entries::clone(entries);
            entries.retain(|(known, entry)| *known != hash || entry.text != *text);
            let mut taken: usize = entries.iter().map(|(_, entry)| entry.weight).sum();
            while taken + weight > self.room || entries.len() == RECENT_ENTRIES {
                // Any other, not the oldest: of texts that come in turn and are a few too many, the
                // oldest is the one that comes next.
                let place = usize::try_from(hash % entries.len() as u64).expect("less than a length");
                taken -= entries.swap_remove(place).1.weight;
            }
            entries.push((hash, new.clone()));
            entries
        });
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.load().len()
    }
}

impl<V> fmt::Debug for Recent<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recent").field("entries", &self.entries.load().len()).field("room", &self.room).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(recent: &Recent<u32>, text: &str, value: u32, bytes: usize) {
        recent.keep(hash(text), &text.into(), &value, bytes);
    }

    #[test]
    fn kept_entry_is_found_by_text() {
        let recent = Recent::new(10_000);
        keep(&recent, "a", 1, 0);
        keep(&recent, "b", 2, 0);
        assert_eq!(["a", "b", "c"].map(|text| recent.get(hash(text), text)), [Some(1), Some(2), None]);
        keep(&recent, "a", 3, 0);
        assert_eq!(recent.get(hash("a"), "a"), Some(3));
        assert_eq!(recent.len(), 2);
    }

    #[test]
    fn colliding_texts_are_distinguished() {
        let recent = Recent::new(10_000);
        recent.keep(7, &"a".into(), &1, 0);
        recent.keep(7, &"b".into(), &2, 0);
        assert_eq!((recent.get(7, "a"), recent.get(7, "b"), recent.get(7, "c")), (Some(1), Some(2), None));
    }

    #[test]
    fn size_and_entry_count_are_bounded() {
        let recent = Recent::new(1000);
        for value in 0..1000 {
            keep(&recent, &value.to_string(), value, (value * 37 % 700) as usize);
            let taken: usize = recent.entries.load().iter().map(|(_, entry)| entry.weight).sum();
            assert!(taken <= 1000, "{taken}");
            assert_eq!(recent.get(hash(&value.to_string()), &value.to_string()), Some(value), "the newest is kept");
        }
        keep(&recent, "x", 0, 900);
        assert_eq!(recent.get(hash("x"), "x"), None, "what has no room is not kept");
        let recent = Recent::new(usize::MAX);
        (0..1000).for_each(|value| keep(&recent, &value.to_string(), value, 0));
        assert_eq!(recent.len(), RECENT_ENTRIES);
    }
}
