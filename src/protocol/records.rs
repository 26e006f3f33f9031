//! All records: cells beside entries, slots for the rest, and doubts (R1, R2, R13, R15, R18, R19).
//! A record's state is in exactly one place: in a cell while anything holds it (an entry, a fill),
//! else in a slot of the table, else nowhere. [`super::merge`] says what announcements and served
//! versions do to it.
//!
//! Every change of a record happens under the lock of its shard, and so do the moves between slot
//! and cell, so no floor is lost on the way. A slot that is lost leaves its time and its generation
//! in the shard (`lost_until` and `lost`, R2). Reading a cell takes no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::event::{Action, Scope};
use super::flood::Flood;
use super::merge::{self, Announced, Effect, Rules};
use super::recalls::{self, Recall, Recalls};
use super::record::{Record, Snapshot};
use super::region_views::{RegionViews, TypeDoubts};
use super::tuning::Tuning;
use super::wiring::Wiring;
use crate::model::ids::{Generation, RecordId, RegionSet, Version};
use crate::model::time::Moment;
use crate::protocol::event::Alarm;
use crate::protocol::limits;

mod replies;
mod shard;

use shard::{Kept, Shard, hash_of};

/// Number of records remembered beyond what entries and fills hold.
#[derive(Clone, Copy, Debug)]
pub struct RecordCapacity {
    /// Table slots for records without an entry.
    pub slots: usize,
    /// Records that may be doubted at once (R15).
    pub doubts: usize,
}

impl RecordCapacity {
    /// `slots`, and doubts in proportion to a store of `capacity` bytes: after a restore,
    /// everything stored is doubted.
    pub fn new(slots: usize, capacity: u64) -> Self {
        let (least, most) = limits::DOUBTS;
        let doubts = usize::try_from(capacity / limits::DOUBTED_BYTES).unwrap_or(most);
        Self { slots, doubts: doubts.clamp(least, most) }
    }
}

/// The state of every record that was ever mentioned and is still remembered.
#[derive(Debug)]
pub(crate) struct Records {
    shards: Box<[Mutex<Shard>]>,
    generations: AtomicU64,
    /// The latest moment that anybody passed in, in nanoseconds: [`Records::release`] is passed
    /// none.
    latest: AtomicU64,
    sweeps: AtomicU64,
    flood: Mutex<Flood>,
    recalls: Recalls,
    wiring: Wiring,
    tuning: Tuning,
}

impl Records {
    pub(crate) fn new(room: RecordCapacity, worst_lag: Duration, max_jump: u64, now: Moment) -> Self {
        let (slots, doubts) = (room.slots / limits::RECORD_SHARDS, room.doubts.div_ceil(limits::RECORD_SHARDS));
        Self {
            shards: (0..limits::RECORD_SHARDS).map(|_| Mutex::new(Shard::new(slots, doubts, worst_lag))).collect(),
            generations: AtomicU64::new(0),
            latest: AtomicU64::new(now.as_nanos()),
            sweeps: AtomicU64::new(0),
            flood: Mutex::default(),
            recalls: Recalls::default(),
            wiring: Wiring::default(),
            tuning: Tuning::new(worst_lag, max_jump),
        }
    }

    pub(crate) fn tune(&self, worst_lag: Duration, max_jump: u64) {
        let more = self.tuning.set(worst_lag, max_jump);
        self.shards.iter().for_each(|shard| shard.lock().tune(worst_lag, more));
    }

    /// The live cell of a record: made from its slot if it has one, else from what the shard's last
    /// loss left.
    pub(crate) fn pin(&self, id: RecordId) -> Arc<Record> {
        let mut shard = self.shard(id);
        if let Some(record) = shard.cell(id.hash) {
            return record.clone();
        }
        let latest = self.latest();
        let slot = shard.table.take(id.hash).map(|state| state.marked_by(latest));
        let lost_until = if slot.is_some() { Moment::ZERO } else { shard.lost_until };
        let state = self.recalls.apply(id.record_type, slot, shard.absent(), latest, self.tuning.worst_lag());
        let escaped = shard.doubts.is_open(id.hash);
        let record = Arc::new(Record::new(id, Snapshot { escaped, ..state }, lost_until));
        shard.cells.insert_unique(id.hash, record.clone(), hash_of);
        record
    }

    /// Folds the record's cell back into the table, unless somebody still holds it.
    pub(crate) fn release(&self, id: RecordId) {
        let mut shard = self.shard(id);
        if shard.cell(id.hash).is_some_and(is_unheld) {
            self.fold(&mut shard, id, self.latest());
        }
    }

    /// Folds the cells of one shard that nobody holds: they were released while a reader still held
    /// the entry.
    pub(crate) fn sweep(&self, now: Moment) {
        self.note(now);
        let turn = self.sweeps.fetch_add(1, Ordering::Relaxed) as usize % self.shards.len();
        let mut shard = self.shards[turn].lock();
        let unheld = shard.cells.iter().filter(|record| is_unheld(record));
        let mut unheld: Vec<RecordId> = unheld.map(|record| record.id()).collect();
        unheld.sort_unstable_by_key(|id| id.hash);
        for id in unheld {
            self.fold(&mut shard, id, now);
        }
    }

    /// True if somebody here has read the record and it was there.
    pub(crate) fn is_read(&self, id: RecordId) -> bool {
        self.shard(id).cell(id.hash).is_some_and(|record| record.was_present())
    }

    /// R1, R2, R13, R15: an announcement arrives.
    pub(crate) fn announce(&self, id: RecordId, said: Announced, now: Moment, actions: &mut Vec<Action>) {
        self.note(now);
        let mut shard = self.shard(id);
        if !said.written {
            self.wiring.note_announced(id.record_type, said.region, true);
            if shard.cell(id.hash).is_some_and(|record| record.was_present()) {
                self.wiring.met(id.record_type, RegionSet::EMPTY.with(said.region));
            }
        }
        let rules = self.rules(&shard, id);
        let mut state = self.state(&shard, id, now);
        let floor = state.floor;
        let unheard = state.floor == Version::NONE && state.marker.is_none();
        let before = state;
        let effect = merge::announce(&mut state, said, rules, now, || self.next_generation());
        state.note_stated(said.version.unwrap_or_default(), floor, said.at, now);
        match effect {
            Effect::None => {
                if state != before {
                    shard.keep(id.hash, state, now, self.tuning.worst_lag());
                }
                return;
            }
            Effect::Jumped => {
                let version = said.version.unwrap_or_default();
                shard.doubts.add(id.hash, version, said.region, now, false);
                shard.doubts.announced(id.hash, version, rules.max_jump);
                actions.push(Action::Alarm(said.region, Alarm::VersionJump));
            }
            Effect::Undercut => {
                shard.doubts.disbelieve(id.hash, floor, now);
                actions.push(Action::Alarm(said.region, Alarm::VersionJump));
            }
            Effect::Moved => shard.doubts.close(id.hash, state.escaped),
            Effect::Joined | Effect::Raised => {}
        }
        if let Kept::Slot { lost } = shard.keep(id.hash, state, now, self.tuning.worst_lag()) {
            let flood = self.flood.lock().note(unheard, lost, now);
            actions.extend(flood.map(|why| Action::Alarm(said.region, why)));
        }
        let moved = matches!(effect, Effect::Moved | Effect::Jumped | Effect::Undercut);
        if moved && shard.cell(id.hash).is_some_and(|record| record.was_read_lately(now)) {
            actions.push(Action::Refetch(id));
        }
    }

    /// R18, R19: a RELOAD (or a RESET, if it `forgets` what was stated before then) by `regions`.
    /// Cells are marked now; a record without one is marked when it is next looked at.
    pub(crate) fn recall(
        &self,
        scope: Scope,
        forgets: Option<Moment>,
        regions: RegionSet,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        self.note(now);
        let order = Recall { forgets, regions, at: now, generation: self.next_generation() };
        if !order.is_on() {
            return;
        }
        if let Some(since) = forgets {
            self.recalls.note_reset(scope, since);
        }
        let Some(covered) = recalls::covered(scope) else {
            let Scope::Record(id) = scope else { return };
            let mut shard = self.shard(id);
            if regions != RegionSet::ALL {
                // A RELOAD by hand may name the record correctly where the publisher does not, so
                // it does not show that the wiring works.
                regions.iter().for_each(|region| self.wiring.note_announced(id.record_type, region, true));
            }
            let mut state = self.state(&shard, id, now);
            order.apply(&mut state, self.tuning.worst_lag());
            if let Some(since) = forgets {
                shard.doubts.forget_of(id.hash, since);
                state.escaped &= shard.doubts.is_open(id.hash);
            }
            shard.keep(id.hash, state, now, self.tuning.worst_lag());
            if shard.cell(id.hash).is_some_and(|record| record.was_read_lately(now)) {
                actions.push(Action::Refetch(id));
            }
            return;
        };
        // First the records without a cell: a cell made meanwhile has the order already.
        self.recalls.note(covered, order, self.tuning.worst_lag());
        let mut refetches = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            if let Some(since) = forgets {
                let Shard { cells, doubts, .. } = &mut *shard;
                doubts.forget(since, |hash| {
                    let cell = cells.find(hash, |record| hash_of(record) == hash);
                    cell.is_none_or(|it| covered.is_none_or(|only| only == it.id().record_type))
                });
            }
            for record in &shard.cells {
                if covered.is_none_or(|only| only == record.id().record_type) {
                    let mut state = record.snapshot();
                    order.apply(&mut state, self.tuning.worst_lag());
                    state.escaped &= forgets.is_none() || shard.doubts.is_open(record.id().hash);
                    record.store(state);
                    if refetches.len() < limits::REFETCHES_PER_STEP && record.was_read_lately(now) {
                        refetches.push(record.id());
                    }
                }
            }
        }
        actions.extend(refetches.into_iter().map(Action::Refetch));
    }

    /// R21: finds the versions that were served before anybody announced them and that nobody has
    /// announced by now. A region that vouched for what was stored announces what it serves at
    /// once; others may be ahead of it by `worst_lag`. If a loss noticed since explains it, it does
    /// not count.
    pub(crate) fn look_at_growths(&self, region_views: &RegionViews, now: Moment) {
        let others = self.tuning.worst_lag().max(limits::GROWTH_WAIT);
        let due = self.wiring.due(|growth| {
            let wait = if growth.is_its_vouchers() { limits::GROWTH_WAIT } else { others };
            now.since(growth.at) < wait
        });
        for growth in due {
            let state = self.state(&self.shard(growth.id), growth.id, now);
            let reported = state.generation > growth.generation;
            if reported || growth.is_vouched_against(region_views) {
                self.wiring.settled(growth.id.record_type, reported, now);
            }
        }
    }

    /// R21: which regions state no bound for which type, and which earn it no full TTL.
    pub(crate) fn withheld(&self, now: Moment) -> Arc<[TypeDoubts]> {
        self.wiring.withheld(now, self.tuning.worst_lag())
    }

    pub(crate) fn wiring(&self) -> &Wiring {
        &self.wiring
    }

    /// R2: whether a request for this record, sent at `sent`, may have missed an announcement whose
    /// slot was lost.
    pub(crate) fn may_have_missed(&self, id: RecordId, sent: Moment) -> bool {
        let shard = self.shard(id);
        match shard.cell(id.hash) {
            Some(record) => record.may_have_missed(sent),
            None => shard.table.find(id.hash).is_none() && sent < shard.lost_until,
        }
    }

    /// Number of records that entries and fills hold.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().cells.len()).sum()
    }

    /// State of a record, wherever it is kept.
    fn state(&self, shard: &Shard, id: RecordId, now: Moment) -> Snapshot {
        if let Some(record) = shard.cell(id.hash) {
            return record.snapshot();
        }
        let slot = shard.table.find(id.hash);
        let state = self.recalls.apply(id.record_type, slot, shard.absent(), now, self.tuning.worst_lag());
        Snapshot { escaped: shard.doubts.is_open(id.hash), ..state }
    }

    /// Takes a record's cell away. Its state goes to the table, unless an empty slot would say as
    /// much.
    fn fold(&self, shard: &mut Shard, id: RecordId, now: Moment) {
        let Ok(found) = shard.cells.find_entry(id.hash, |record| hash_of(record) == id.hash) else { return };
        let state = found.remove().0.snapshot();
        let recalled = state.floor == Version::NONE
            && !self.recalls.is_empty()
            && state.generation <= self.recalls.generation(id.record_type);
        if recalled {
            return;
        }
        if state.is_worth_keeping() {
            shard.keep(id.hash, state, now, self.tuning.worst_lag());
        } else {
            // Nothing was announced of it, but a later fill must not find an older generation.
            shard.lost = shard.lost.max(state.generation);
        }
    }

    fn latest(&self) -> Moment {
        Moment::from_nanos(self.latest.load(Ordering::Relaxed))
    }

    fn rules(&self, shard: &Shard, id: RecordId) -> Rules {
        Rules {
            max_jump: self.tuning.max_jump(),
            worst_lag: self.tuning.worst_lag(),
            doubted: shard.doubts.version(id.hash),
        }
    }

    fn next_generation(&self) -> Generation {
        Generation(self.generations.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn note(&self, now: Moment) {
        self.latest.fetch_max(now.as_nanos(), Ordering::Relaxed);
    }

    /// Bits 32 and up choose the shard, the low ones the bucket in its table. Every change is computed
    /// before it is stored, so a panic cannot leave a state half-written.
    fn shard(&self, id: RecordId) -> MutexGuard<'_, Shard> {
        self.shards[(id.hash >> 32) as usize & (limits::RECORD_SHARDS - 1)].lock()
    }
}

/// True if only the shard's own handle is left. Exact under the shard's lock, since new handles are
/// made under it.
fn is_unheld(record: &Arc<Record>) -> bool {
    Arc::strong_count(record) == 1
}

#[cfg(test)]
mod tests;
