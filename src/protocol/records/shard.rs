//! A shard of the records: its cells, its slots and its doubts, all under one lock.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashTable;

use crate::model::ids::Generation;
use crate::model::time::Moment;
use crate::protocol::doubts::Doubts;
use crate::protocol::record::{Record, Snapshot};
use crate::protocol::table::FloorTable;
use crate::switch::{Rule, is_on};

#[derive(Debug)]
pub(crate) struct Shard {
    /// Hashed by the records' own hashes, which are keyed already.
    pub(crate) cells: HashTable<Arc<Record>>,
    pub(crate) table: FloorTable,
    pub(crate) doubts: Doubts,
    /// R2: a request sent before this may have missed an announcement whose slot was lost.
    pub(crate) lost_until: Moment,
    /// The generation that a record without a cell or slot counts as having.
    pub(crate) lost: Generation,
    /// Time at which a slot was last lost, and with it perhaps something that was said without a
    /// version.
    lost_at: Moment,
}

pub(crate) enum Kept {
    Cell,
    /// Kept in a slot; `lost` if another record's slot had to make way.
    Slot {
        lost: bool,
    },
}

impl Shard {
    pub(crate) fn new(slots: usize, doubts: usize, worst_lag: Duration) -> Self {
        Self {
            cells: HashTable::new(),
            table: FloorTable::new(slots),
            doubts: Doubts::new(doubts, worst_lag),
            lost_until: Moment::ZERO,
            lost: Generation::default(),
            lost_at: Moment::ZERO,
        }
    }

    pub(crate) fn cell(&self, hash: u64) -> Option<&Arc<Record>> {
        self.cells.find(hash, |record| hash_of(record) == hash)
    }

    pub(crate) fn absent(&self) -> Snapshot {
        let (generation, unversioned_at) = (self.lost, self.lost_at);
        Snapshot { generation, unversioned: generation, unversioned_at, ..Snapshot::default() }
    }

    /// Another `worst_lag` applies from now on, longer by `more`.
    pub(crate) fn tune(&mut self, worst_lag: Duration, more: Duration) {
        self.doubts.tune(worst_lag);
        if self.lost_until != Moment::ZERO {
            // R2: what was lost may be missed for longer.
            self.lost_until = self.lost_until + more;
        }
    }

    /// Stores a record's state in its cell, or else in a slot.
    pub(crate) fn keep(&mut self, hash: u64, state: Snapshot, now: Moment, worst_lag: Duration) -> Kept {
        if let Some(record) = self.cell(hash) {
            record.store(state);
            return Kept::Cell;
        }
        if !is_on(Rule::R2) {
            return Kept::Slot { lost: false };
        }
        let lost = self.table.put(hash, state, now);
        if let Some(lost) = lost {
            self.lose(lost, now, worst_lag);
        }
        Kept::Slot { lost: lost.is_some() }
    }

    pub(crate) fn lose(&mut self, lost: Snapshot, now: Moment, worst_lag: Duration) {
        self.lost = self.lost.max(lost.generation);
        self.lost_until = self.lost_until.max(now + worst_lag);
        self.lost_at = self.lost_at.max(now);
    }
}

pub(crate) fn hash_of(record: &Arc<Record>) -> u64 {
    record.id().hash
}
