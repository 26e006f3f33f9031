//! Owns what is under each key, up to a capacity, and what makes room for what.
//!
//! Before it: [`super::Store`] decides what goes in and out. After it: the index hears of what left. A shard is a list of
//! slots without gaps and a table of their places: a slot that goes is filled by the last one. A hand goes around each
//! shard. What came lately is on probation: read until the hand came by for the second time it is established, otherwise it
//! goes. What is established is looked at only while it has more than its share, so that a scan of however many keys turns
//! over what is on probation and nothing else; it goes when the hand finds it unread.
//!
//! Invariants: [`Kept::change`] is atomic for its key; whatever leaves is told once ([`Held::leave`]), before the call that
//! made it leave returns, and with no lock held; nothing is above the capacity when a call has returned.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hashbrown::HashTable;

use super::Held;
use super::index::Index;
use crate::cache::key::{Key, KeyRef};
use crate::cache::limits;

#[cfg(test)]
mod tests;

/// What becomes of what is under a key.
pub(super) enum Change {
    /// It stays.
    Keep,
    /// This takes its place.
    Put(Held),
    /// It goes.
    Remove,
}

/// Entries and lists of variants under their keys.
pub(super) struct Kept {
    shards: Box<[RwLock<Shard>]>,
    capacity: AtomicU64,
    /// What the capacity is on its way to.
    pub(super) wanted: AtomicU64,
    /// Bytes of all, and of what is established among it; changed under the lock of the shard that they are in.
    weight: AtomicU64,
    established: AtomicU64,
    /// Where the next shard is that makes room.
    turn: AtomicUsize,
    index: Arc<Index>,
}

/// Some of the keys, by their hash.
#[derive(Default)]
struct Shard {
    /// Places in `slots`.
    table: HashTable<u32>,
    slots: Vec<Slot>,
    /// Of each slot: whether it is established, and how often it was read since the hand came by.
    states: Vec<AtomicU8>,
    hand: usize,
}

/// What is kept, which knows its key, and the key's hash.
struct Slot {
    hash: u64,
    held: Held,
}

impl Slot {
    /// What is kept is only looked at when the hashes agree.
    fn is_under(&self, key: KeyRef<'_>) -> bool {
        self.hash == key.hash() && self.held.key() == key.bytes()
    }

    fn key(&self) -> KeyRef<'_> {
        KeyRef::kept(self.hash, self.held.key())
    }
}

/// The part of a state that counts reads, and how many are told apart.
const READS: u8 = 0b11;
/// The hand has not yet come by.
const NEW: u8 = 1 << 2;
const ESTABLISHED: u8 = 1 << 3;

impl Kept {
    /// Nothing yet, and at most `capacity` bytes by [`Held::weight`]; `index` hears of what leaves.
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

    /// What is under `key`.
    #[inline]
    pub(super) fn get(&self, key: KeyRef<'_>) -> Option<Held> {
        let shard = read(self.shard(key.hash()));
        let place = shard.find(key)?;
        let state = &shard.states[place];
        let before = state.load(Ordering::Relaxed);
        if before & READS < READS {
            // Of two readers at once one may not be counted. What is read often is not written to, so that its cache line
            // stays shared.
            state.store(before + 1, Ordering::Relaxed);
        }
        Some(shard.slots[place].held.clone())
    }

    /// What is under keys with this hash. It does not count as read.
    pub(super) fn under(&self, hash: u64) -> Vec<(Key, Held)> {
        let shard = read(self.shard(hash));
        let slots = shard.table.iter_hash(hash).map(|place| &shard.slots[*place as usize]);
        let found = slots.filter(|slot| slot.hash == hash);
        found.map(|slot| (slot.key().to_key(), slot.held.clone())).collect()
    }

    /// The keys of one shard whose content is `wanted`. It does not count as read.
    pub(super) fn keys(&self, shard: usize, wanted: impl Fn(KeyRef<'_>, &Held) -> bool) -> Vec<Key> {
        let shard = read(&self.shards[shard]);
        let found = shard.slots.iter().filter(|slot| wanted(slot.key(), &slot.held));
        found.map(|slot| slot.key().to_key()).collect()
    }

    /// Does what `decide` says of what is under `key`, while nobody else changes it. `decide` may not come back here.
    pub(super) fn change(&self, key: KeyRef<'_>, decide: impl FnOnce(Option<&Held>) -> Change) {
        let mut shard = write(self.shard(key.hash()));
        let place = shard.find(key);
        let mut came = 0;
        let (gone, refused) = match decide(place.map(|place| &shard.slots[place].held)) {
            Change::Keep => return,
            Change::Remove => (place.map(|place| self.take(&mut shard, place).held), None),
            // It would push out all the rest, and then itself.
            Change::Put(held) if held.weight() as u64 > self.capacity() => {
                (place.map(|place| self.take(&mut shard, place).held), Some(held))
            }
            Change::Put(held) => {
                came = held.weight() as u64;
                (self.put(&mut shard, place, key.hash(), held), None)
            }
        };
        drop(shard);
        self.left(key.hash(), gone, false);
        self.left(key.hash(), refused, true);
        self.clear(self.capacity(), (came > 0).then_some((key.hash(), came)));
    }

    /// Removes what is under `key`.
    pub(super) fn remove(&self, key: KeyRef<'_>) {
        let mut shard = write(self.shard(key.hash()));
        let gone = shard.find(key).map(|place| self.take(&mut shard, place));
        drop(shard);
        self.left(key.hash(), gone.map(|slot| slot.held), false);
    }

    /// Lets go of what is worth least until no more than `wanted` bytes are kept.
    pub(super) fn make_room(&self, wanted: u64) {
        self.clear(wanted, None);
    }

    /// The same; `newcomer` (its hash and its bytes) just came, and is not what makes room for itself: nobody could have read
    /// it yet. What is established gives way to one that needs more than all that is on probation.
    fn clear(&self, wanted: u64, newcomer: Option<(u64, u64)>) {
        let needed = newcomer.map_or(0, |(_, bytes)| bytes);
        let share = wanted.saturating_sub(needed.max(wanted / limits::PROBATION));
        // Each time that the hand comes by takes a read off or lets something go, unless others read as fast.
        while self.weight() > wanted {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.shards.len();
            let gone = self.come_by(&mut write(&self.shards[turn]), share, newcomer.map(|(hash, _)| hash));
            if let Some(Slot { hash, held }) = gone {
                self.left(hash, Some(held), true);
            }
        }
    }

    /// How many bytes may be kept.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// So many bytes may be kept from now on; what is above them goes with whatever comes next.
    pub(super) fn resize(&self, capacity: u64) {
        self.capacity.store(capacity, Ordering::Relaxed);
    }

    /// Bytes kept.
    pub(super) fn weight(&self) -> u64 {
        self.weight.load(Ordering::Relaxed)
    }

    /// How many are kept.
    pub(super) fn count(&self) -> usize {
        self.shards.iter().map(|shard| read(shard).slots.len()).sum()
    }

    fn left(&self, key: u64, gone: Option<Held>, evicted: bool) {
        if let Some(held) = gone {
            held.leave(key, evicted, &self.index);
        }
    }

    /// Returns what it takes the place of. That was read as often as this will be.
    fn put(&self, shard: &mut Shard, place: Option<usize>, hash: u64, held: Held) -> Option<Held> {
        let weight = held.weight() as u64;
        let Some(place) = place else {
            self.weight.fetch_add(weight, Ordering::Relaxed);
            shard.push(Slot { hash, held });
            return None;
        };
        let gone = std::mem::replace(&mut shard.slots[place].held, held);
        // In one step: nobody is to make room for both. Less than nothing wraps, and so does the sum.
        let more = weight.wrapping_sub(gone.weight() as u64);
        self.weight.fetch_add(more, Ordering::Relaxed);
        if *shard.states[place].get_mut() & ESTABLISHED != 0 {
            self.established.fetch_add(more, Ordering::Relaxed);
        }
        Some(gone)
    }

    fn take(&self, shard: &mut Shard, place: usize) -> Slot {
        let (slot, state) = shard.remove(place);
        let weight = slot.held.weight() as u64;
        self.weight.fetch_sub(weight, Ordering::Relaxed);
        if state & ESTABLISHED != 0 {
            self.established.fetch_sub(weight, Ordering::Relaxed);
        }
        slot
    }

    /// Moves the hand on by a few slots, or to the first that is to go; what is established may have its `share`.
    fn come_by(&self, shard: &mut Shard, share: u64, newcomer: Option<u64>) -> Option<Slot> {
        for _ in 0..limits::STORE_HAND {
            if shard.hand >= shard.slots.len() {
                shard.hand = 0;
            }
            let place = shard.hand;
            let state = shard.states.get_mut(place)?.get_mut();
            match *state {
                kept if kept & ESTABLISHED != 0 => {
                    if self.established.load(Ordering::Relaxed) > share {
                        if kept & READS == 0 {
                            return Some(self.take(shard, place));
                        }
                        *state -= 1;
                    }
                }
                new if new & NEW != 0 => *state = new & READS,
                0 if newcomer == Some(shard.slots[place].hash) => {}
                0 => return Some(self.take(shard, place)),
                _ => {
                    *state = ESTABLISHED;
                    self.established.fetch_add(shard.slots[place].held.weight() as u64, Ordering::Relaxed);
                }
            }
            shard.hand += 1;
        }
        None
    }

    /// By bits that do not choose the place in a table.
    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        &self.shards[(hash >> 32) as usize % limits::STORE_SHARDS]
    }
}

impl Shard {
    fn find(&self, key: KeyRef<'_>) -> Option<usize> {
        let place = self.table.find(key.hash(), |place| self.slots[*place as usize].is_under(key));
        place.map(|place| *place as usize)
    }

    fn push(&mut self, slot: Slot) {
        // Doubled, a list would be a quarter empty on average.
        if self.slots.len() == self.slots.capacity() {
            let more = self.slots.len() / 8 + 4;
            self.slots.reserve_exact(more);
            self.states.reserve_exact(more);
        }
        let place = u32::try_from(self.slots.len()).expect("that many do not fit into memory");
        let hash = slot.hash;
        self.slots.push(slot);
        self.states.push(AtomicU8::new(NEW));
        let slots = &self.slots;
        self.table.insert_unique(hash, place, |place| slots[*place as usize].hash);
    }

    /// Takes out the slot at `place`, and puts the last one there.
    fn remove(&mut self, place: usize) -> (Slot, u8) {
        let hash = |shard: &Self, place: usize| shard.slots[place].hash;
        let last = self.slots.len() - 1;
        let (this, moved) = (hash(self, place), hash(self, last));
        let found = self.table.find_entry(this, |found| *found as usize == place);
        found.expect("each slot's place is in the table").remove();
        if place != last {
            let found = self.table.find_mut(moved, |found| *found as usize == last);
            *found.expect("each slot's place is in the table") = place as u32;
        }
        let removed = (self.slots.swap_remove(place), self.states.swap_remove(place).into_inner());
        self.give_back();
        removed
    }

    /// Gives memory back when three quarters of it are spare: somebody else may be short of it.
    fn give_back(&mut self) {
        let Self { table, slots, states, .. } = self;
        if slots.capacity() > 4 * slots.len().max(limits::STORE_HAND) {
            let room = 2 * slots.len();
            slots.shrink_to(room);
            states.shrink_to(room);
            table.shrink_to(room, |place| slots[*place as usize].hash);
        }
    }
}

/// A panic elsewhere leaves a shard whole: nothing that changes it can fail half way.
fn read(shard: &RwLock<Shard>) -> RwLockReadGuard<'_, Shard> {
    shard.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(shard: &RwLock<Shard>) -> RwLockWriteGuard<'_, Shard> {
    shard.write().unwrap_or_else(PoisonError::into_inner)
}
