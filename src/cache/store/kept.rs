//! Holds what is stored under each key, up to a capacity, and decides what makes room.
//!
//! A shard is a list of slots without gaps, and a table of their positions; when a slot is removed,
//! the last one fills its place. This is a segmented CLOCK: a hand moves around each shard. New
//! arrivals are on probation: one that was read by the time the hand comes by for the second time
//! becomes established, otherwise it is evicted. The hand acts on established slots only while they
//! exceed their share, and then evicts one that has not been read. So a scan over any number of
//! keys replaces what is on probation and nothing else.
//!
//! [`SegmentedClock::change`] is atomic for its key. Whatever leaves is reported once
//! ([`Held::leave`]), before the call that removed it returns and with no lock held. When a call
//! that adds something returns, the total is within the capacity.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use hashbrown::HashTable;
use parking_lot::RwLock;

use super::held::Held;
use super::index::Index;
use crate::cache::key::{Key, KeyRef};
use crate::cache::limits;

#[cfg(test)]
mod tests;

/// Action on the value under a key.
pub(super) enum Change {
    Keep,
    /// Replace it with this.
    Put(Held),
    Remove,
}

/// Entries and lists of variants under their keys.
pub(super) struct SegmentedClock {
    shards: Box<[RwLock<Shard>]>,
    capacity: AtomicU64,
    /// The target of a gradual change of capacity.
    pub(super) wanted: AtomicU64,
    /// Total bytes, and the established part of them. Both change only under the lock of the shard
    /// concerned.
    weight: AtomicU64,
    established: AtomicU64,
    /// Picks the next shard that makes room.
    turn: AtomicUsize,
    index: Arc<Index>,
}

/// A part of the keys, by their hash.
#[derive(Default)]
struct Shard {
    /// Places in `slots`.
    table: HashTable<u32>,
    slots: Vec<Slot>,
    /// For each slot: whether it is established, and how often it was read since the hand came by.
    states: Vec<AtomicU8>,
    hand: usize,
}

/// A stored value, which knows its key, and the key's hash.
struct Slot {
    hash: u64,
    held: Held,
}

impl Slot {
    /// Looks at the value only if the hashes agree.
    fn is_under(&self, key: KeyRef<'_>) -> bool {
        self.hash == key.hash() && self.held.key() == key.bytes()
    }

    fn key(&self) -> KeyRef<'_> {
        KeyRef::kept(self.hash, self.held.key())
    }
}

/// The bits of a state that count reads; more reads are not distinguished.
const READS: u8 = 0b11;
/// The hand has not come by yet.
const NEW: u8 = 1 << 2;
const ESTABLISHED: u8 = 1 << 3;

impl SegmentedClock {
    /// Empty, with room for `capacity` bytes by [`Held::weight`]. `index` is notified of what
    /// leaves.
    pub(super) fn new(capacity: u64, index: Arc<Index>) -> Self {
        Self {
            shards: (0..limits::STORE_SHARDS).map(|_| RwLock::default()).collect(),
            capacity: AtomicU64::new(capacity),
            wanted: AtomicU64::new(capacity),
            weight: AtomicU64::new(0),
            established: AtomicU64::new(0),
            turn: AtomicUsize::new(0),
            index,
        }
    }

    #[inline]
    pub(super) fn get(&self, key: KeyRef<'_>) -> Option<Held> {
        let shard = self.shard(key.hash()).read();
        let position = shard.find(key)?;
        let state = &shard.states[position];
        let before = state.load(Ordering::Relaxed);
        if before & READS < READS {
            // Of two concurrent reads one may go uncounted. A slot that is read often is not
            // written to, so that its cache line stays shared.
            state.store(before + 1, Ordering::Relaxed);
        }
        Some(shard.slots[position].held.clone())
    }

    /// The values under keys with this hash. Does not count as a read.
    pub(super) fn under(&self, hash: u64) -> Vec<(Key, Held)> {
        let shard = self.shard(hash).read();
        let slots = shard.table.iter_hash(hash).map(|position| &shard.slots[*position as usize]);
        let found = slots.filter(|slot| slot.hash == hash);
        found.map(|slot| (slot.key().to_key(), slot.held.clone())).collect()
    }

    /// The keys of one shard whose content is `wanted`. Does not count as a read.
    pub(super) fn keys(&self, shard: usize, wanted: impl Fn(KeyRef<'_>, &Held) -> bool) -> Vec<Key> {
        let shard = self.shards[shard].read();
        let found = shard.slots.iter().filter(|slot| wanted(slot.key(), &slot.held));
        found.map(|slot| slot.key().to_key()).collect()
    }

    /// Applies `decide` to the value under `key` while nobody else can change it. `decide` must not
    /// call back into this store.
    pub(super) fn change(&self, key: KeyRef<'_>, decide: impl FnOnce(Option<&Held>) -> Change) {
        let mut shard = self.shard(key.hash()).write();
        let position = shard.find(key);
        let mut came = 0;
        let (gone, refused) = match decide(position.map(|position| &shard.slots[position].held)) {
            Change::Keep => return,
            Change::Remove => (position.map(|position| self.take(&mut shard, position).held), None),
            // It would push out everything else, and then itself.
            Change::Put(held) if held.weight() as u64 > self.capacity() => {
                (position.map(|position| self.take(&mut shard, position).held), Some(held))
            }
            Change::Put(held) => {
                came = held.weight() as u64;
                (self.put(&mut shard, position, key.hash(), held), None)
            }
        };
        drop(shard);
        self.left(key.hash(), gone, false);
        self.left(key.hash(), refused, true);
        self.clear(self.capacity(), (came > 0).then_some((key.hash(), came)));
    }

    pub(super) fn remove(&self, key: KeyRef<'_>) {
        let mut shard = self.shard(key.hash()).write();
        let gone = shard.find(key).map(|position| self.take(&mut shard, position));
        drop(shard);
        self.left(key.hash(), gone.map(|slot| slot.held), false);
    }

    /// Evicts the least valuable until no more than `wanted` bytes are kept.
    pub(super) fn make_room(&self, wanted: u64) {
        self.clear(wanted, None);
    }

    /// Like [`SegmentedClock::make_room`]. `newcomer` (hash and bytes) has just arrived and is not
    /// evicted to make room for itself, because nobody could have read it yet. Established slots
    /// give way if it needs more than everything on probation.
    fn clear(&self, wanted: u64, newcomer: Option<(u64, u64)>) {
        let needed = newcomer.map_or(0, |(_, bytes)| bytes);
        let share = wanted.saturating_sub(needed.max(wanted / limits::PROBATION));
        // The loop ends: each time the hand comes by, it takes a read off or evicts something,
        // unless others read just as fast.
        while self.weight() > wanted {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.shards.len();
            let gone = self.come_by(&mut self.shards[turn].write(), share, newcomer.map(|(hash, _)| hash));
            if let Some(Slot { hash, held }) = gone {
                self.left(hash, Some(held), true);
            }
        }
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Changes the capacity. What exceeds it is evicted by the next call that makes room.
    pub(super) fn resize(&self, capacity: u64) {
        self.capacity.store(capacity, Ordering::Relaxed);
    }

    /// Total bytes kept.
    pub(super) fn weight(&self) -> u64 {
        self.weight.load(Ordering::Relaxed)
    }

    /// Number of slots in use.
    pub(super) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().slots.len()).sum()
    }

    fn left(&self, key: u64, gone: Option<Held>, evicted: bool) {
        if let Some(held) = gone {
            held.leave(key, evicted, &self.index);
        }
    }

    /// Returns the value it replaces. The new one inherits that one's reads.
    fn put(&self, shard: &mut Shard, position: Option<usize>, hash: u64, held: Held) -> Option<Held> {
        let weight = held.weight() as u64;
        let Some(position) = position else {
            self.weight.fetch_add(weight, Ordering::Relaxed);
            shard.push(Slot { hash, held });
            return None;
        };
        let gone = std::mem::replace(&mut shard.slots[position].held, held);
        // One addition, so that nobody makes room for both. A negative difference wraps, and so
        // does the sum.
        let more = weight.wrapping_sub(gone.weight() as u64);
        self.weight.fetch_add(more, Ordering::Relaxed);
        if *shard.states[position].get_mut() & ESTABLISHED != 0 {
            self.established.fetch_add(more, Ordering::Relaxed);
        }
        Some(gone)
    }

    fn take(&self, shard: &mut Shard, position: usize) -> Slot {
        let (slot, state) = shard.remove(position);
        let weight = slot.held.weight() as u64;
        self.weight.fetch_sub(weight, Ordering::Relaxed);
        if state & ESTABLISHED != 0 {
            self.established.fetch_sub(weight, Ordering::Relaxed);
        }
        slot
    }

    /// Moves the hand by a few slots, or to the first slot to evict. Established slots may keep
    /// `share` bytes.
    fn come_by(&self, shard: &mut Shard, share: u64, newcomer: Option<u64>) -> Option<Slot> {
        for _ in 0..limits::STORE_HAND {
            if shard.hand >= shard.slots.len() {
                shard.hand = 0;
            }
            let position = shard.hand;
            let state = shard.states.get_mut(position)?.get_mut();
            match *state {
                kept if kept & ESTABLISHED != 0 => {
                    if self.established.load(Ordering::Relaxed) > share {
                        if kept & READS == 0 {
                            return Some(self.take(shard, position));
                        }
                        *state -= 1;
                    }
                }
                new if new & NEW != 0 => *state = new & READS,
                0 if newcomer == Some(shard.slots[position].hash) => {}
                0 => return Some(self.take(shard, position)),
                _ => {
                    *state = ESTABLISHED;
                    self.established.fetch_add(shard.slots[position].held.weight() as u64, Ordering::Relaxed);
                }
            }
            shard.hand += 1;
        }
        None
    }

    /// Chosen by bits that do not choose the place in a table.
    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        &self.shards[(hash >> 32) as usize % limits::STORE_SHARDS]
    }
}

impl Shard {
    fn find(&self, key: KeyRef<'_>) -> Option<usize> {
        let position = self.table.find(key.hash(), |position| self.slots[*position as usize].is_under(key));
        position.map(|position| *position as usize)
    }

    fn push(&mut self, slot: Slot) {
        // Doubling would leave a quarter of the list empty on average.
        if self.slots.len() == self.slots.capacity() {
            let more = self.slots.len() / 8 + 4;
            self.slots.reserve_exact(more);
            self.states.reserve_exact(more);
        }
        let position = u32::try_from(self.slots.len()).expect("that many do not fit into memory");
        let hash = slot.hash;
        self.slots.push(slot);
        self.states.push(AtomicU8::new(NEW));
        let slots = &self.slots;
        self.table.insert_unique(hash, position, |position| slots[*position as usize].hash);
    }

    /// Removes the slot at `position` and moves the last one there.
    fn remove(&mut self, position: usize) -> (Slot, u8) {
        let last = self.slots.len() - 1;
        let (this, moved) = (self.slots[position].hash, self.slots[last].hash);
        let found = self.table.find_entry(this, |found| *found as usize == position);
        found.expect("each slot's position is in the table").remove();
        if position != last {
            let found = self.table.find_mut(moved, |found| *found as usize == last);
            *found.expect("each slot's position is in the table") = position as u32;
        }
        let removed = (self.slots.swap_remove(position), self.states.swap_remove(position).into_inner());
        self.give_back();
        removed
    }

    /// Returns memory when three quarters of it are unused, because something else may need it.
    fn give_back(&mut self) {
        let Self { table, slots, states, .. } = self;
        if slots.capacity() > 4 * slots.len().max(limits::STORE_HAND) {
            let room = 2 * slots.len();
            slots.shrink_to(room);
            states.shrink_to(room);
            table.shrink_to(room, |position| slots[*position as usize].hash);
        }
    }
}
