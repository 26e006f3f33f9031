//! The fixed table in which records without an entry leave their state (docs/freshness.md, State;
//! R2): one per shard, under the shard's lock. A slot is four words: key, floor, generation and
//! marker. In the key there is room for when the floor was last stated. The words are one zeroed allocation that the system backs page by page as slots are
//! first used, so an idle process pays nothing.
//!
//! A key is in at most one slot. When a bucket is full, the oldest slot makes way and is handed
//! back, so that the loss is never silent.

use super::record::{Marker, Snapshot};
use super::stamp::Stamp;
use crate::model::ids::{Generation, Version};
use crate::model::time::Moment;

/// Slots in which a key may lie: 128 bytes, two cache lines.
const BUCKET: usize = 4;
const WORDS: usize = 4;

#[derive(Debug)]
pub(crate) struct FloorTable {
    /// Empty until the first slot is used.
    words: Vec<u64>,
    slots: usize,
}

impl FloorTable {
    /// `slots` is the number of records it has room for, a power of two.
    pub(crate) const fn new(slots: usize) -> Self {
        Self { words: Vec::new(), slots }
    }

    pub(crate) fn find(&self, key: u64) -> Option<Snapshot> {
        let slot =
            self.bucket(key).find(|slot| self.words.get(slot * WORDS).is_some_and(|word| is_of(*word, key)))?;
        Some(unpack(&self.words[slot * WORDS..][..WORDS]))
    }

    /// Like [`FloorTable::find`], but frees the slot.
    pub(crate) fn take(&mut self, key: u64) -> Option<Snapshot> {
        let found = self.find(key)?;
        for slot in self.bucket(key) {
            if is_of(self.words[slot * WORDS], key) {
                self.words[slot * WORDS..][..WORDS].fill(0);
            }
        }
        Some(found)
    }

    /// Keeps `state` under `key`. Returns what had to make way, if anything. `now` stands in for
    /// the time of the announcement where there was none.
    pub(crate) fn put(&mut self, key: u64, state: Snapshot, now: Moment) -> Option<Snapshot> {
        if self.words.is_empty() {
            self.words = vec![0; self.slots * WORDS];
        }
        let slot = self.bucket(key).min_by_key(|slot| self.rank(*slot, key)).expect("a bucket is not empty");
        let words = &mut self.words[slot * WORDS..][..WORDS];
        let evicted = (words[0] != 0 && !is_of(words[0], key)).then(|| unpack(words));
        words.copy_from_slice(&pack(key, state, now));
        evicted
    }

    /// Rank of a slot for `key`, the best first: its own, an empty one, the oldest.
    fn rank(&self, slot: usize, key: u64) -> (u8, u64) {
        let words = &self.words[slot * WORDS..][..WORDS];
        let order = if is_of(words[0], key) {
            0
        } else if words[0] == 0 {
            1
        } else {
            2
        };
        (order, words[3] & TIME)
    }

    fn bucket(&self, key: u64) -> std::ops::Range<usize> {
        let first = key as usize & (self.slots - 1) & !(BUCKET - 1);
        first..first + BUCKET
    }
}

/// Eight bits of a key, of which six are the same in all of a shard's keys (they chose it): there
/// stands when the floor was last stated.
const STAMP: u64 = 0xff << STAMP_BITS;
const STAMP_BITS: u32 = 32;

/// The rest of the key. Zero marks an empty slot.
const fn tag(key: u64) -> u64 {
    if key & !STAMP == 0 { 1 } else { key & !STAMP }
}

const fn is_of(word: u64, key: u64) -> bool {
    word & !STAMP == tag(key)
}

/// The last word: 38 bits of milliseconds since boot (eight years), the marker's regions above
/// them, flags on top.
const TIME: u64 = (1 << TIME_BITS) - 1;
const TIME_BITS: u32 = 38;

fn pack(key: u64, state: Snapshot, now: Moment) -> [u64; WORDS] {
    let at = state.marker.map_or(now, |marker| marker.at);
    // Rounded up: a reply from before the announcement must not look younger than it (R8).
    let millis = at.as_nanos().div_ceil(1_000_000) & TIME;
    // The regions, four flags, and who took which write. The doubt remembers `escaped`.
    let bits = u64::from(Snapshot { escaped: false, ..state }.to_bits());
    // Rounded up too: a copy from before that must not look as if it came after.
    let unversioned = state.unversioned_at.as_nanos().div_ceil(1 << SPAN_BITS);
    let generation = state.generation.0 & GENERATION | unversioned << GENERATION_BITS;
    let key = tag(key) | u64::from(state.floor_at.to_byte()) << STAMP_BITS;
    [key, state.floor.0, generation, bits << TIME_BITS | millis]
}

/// The third word: 42 bits of the generation (14 years of 10,000 announcements a second), and above
/// them when something was last said without a version, in spans of 69 seconds.
const GENERATION: u64 = (1 << GENERATION_BITS) - 1;
const GENERATION_BITS: u32 = 42;
const SPAN_BITS: u32 = 36;

/// Unpacks a state. Of `unversioned` only whether there is one is kept. Once a record has gone to
/// the table, nothing that was stored or sent under an older generation is left, so its generation
/// says as much.
fn unpack(words: &[u64]) -> Snapshot {
    let at = Moment::from_nanos((words[3] & TIME) * 1_000_000);
    let generation = Generation(words[2] & GENERATION);
    let (unversioned, unversioned_at) = match words[2] >> GENERATION_BITS {
        0 => (Generation::default(), Moment::ZERO),
        spans => (generation, Moment::from_nanos(spans << SPAN_BITS).min(at)),
    };
    let rest = Snapshot::from_bits((words[3] >> TIME_BITS) as u32, at);
    let marker = rest.marker.map(|marker| Marker { at, ..marker });
    let (floor, floor_at) = (Version(words[1]), Stamp::from_byte((words[0] >> STAMP_BITS) as u8));
    Snapshot { floor, floor_at, generation, unversioned, unversioned_at, marker, ..rest }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::record::{Claim, Written};
    use super::*;
    use crate::model::ids::{RegionId, RegionSet};

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    fn state(number: u64) -> Snapshot {
        Snapshot {
            floor: Version(number),
            floor_at: Stamp::from_byte(number as u8),
            generation: Generation(number),
            unversioned: if number.is_multiple_of(11) { Generation::default() } else { Generation(number) },
            unversioned_at: if number.is_multiple_of(11) { Moment::ZERO } else { at(number) },
            marker: Some(Marker {
                regions: RegionSet::first(16).without(RegionId((number % 16) as u8)),
                at: at(number),
                deleted: number.is_multiple_of(2),
            }),
            at_floor: number.is_multiple_of(3),
            changed: number.is_multiple_of(5),
            written: number.is_multiple_of(7).then_some(Written {
                by: RegionId((number % 16) as u8),
                claim: [Claim::Stated, Claim::Unstated, Claim::UnstatedBefore][(number % 3) as usize],
            }),
            escaped: false,
        }
    }

    #[test]
    fn slot_returns_stored_state() {
        let mut table = FloorTable::new(1 << 12);
        for number in 1..500 {
            assert_eq!(table.put(number * 4, state(number), at(0)), None);
        }
        for number in 1..500 {
            assert_eq!(table.find(number * 4), Some(state(number)));
            assert_eq!(table.take(number * 4), Some(state(number)));
            assert_eq!(table.find(number * 4), None);
        }
    }

    /// R8: what was said without a version is not younger than it was, nor than the marker.
    #[test]
    fn slot_keeps_unversioned_time_by_minute() {
        let mut table = FloorTable::new(4);
        for (said, marked) in [(1, 1), (100, 101), (100, 10_000), (200_000_000, 200_000_500)] {
            table.put(7, Snapshot { unversioned_at: at(said), ..state(marked) }, at(0));
            let kept = table.find(7).unwrap().unversioned_at;
            assert!((at(said)..=at(marked).min(at(said + 69))).contains(&kept), "{said}, {marked}: {kept:?}");
        }
    }

    #[test]
    fn repeated_put_replaces_same_key() {
        let mut table = FloorTable::new(4);
        for number in 1..20 {
            assert_eq!(table.put(7, state(number), at(0)), None);
            assert_eq!(table.find(7), Some(state(number)));
        }
        assert!(table.find(3).is_none());
    }

    /// R2: a loss is never silent.
    #[test]
    fn full_bucket_reports_evicted_oldest_announcement() {
        let mut table = FloorTable::new(4);
        for (key, number) in [(1, 20), (2, 10), (3, 30), (4, 40)] {
            assert_eq!(table.put(key, state(number), at(0)), None);
        }
        assert_eq!(table.put(5, state(50), at(0)), Some(state(10)));
        assert_eq!(table.find(2), None);
        assert_eq!(table.find(1), Some(state(20)));
    }

    #[test]
    fn an_unused_table_holds_no_memory() {
        let table = FloorTable::new(crate::protocol::limits::FLOOR_SLOTS);
        assert_eq!(table.find(1), None);
        assert_eq!(table.words.capacity(), 0);
    }
}
