//! Walks along two partitions side by side, key by key.

use std::collections::VecDeque;

use super::limits;
use super::retry::retry_transient;
use crate::engine::{EngineError, Item, Table, Tables};

/// The items of one partition, in order.
pub(super) struct PartitionWalk<'t> {
    tables: &'t dyn Tables,
    table: Table,
    partition: String,
    waiting: VecDeque<Item>,
    after: Option<String>,
    is_at_end: bool,
}

impl<'t> PartitionWalk<'t> {
    /// Begins behind `after`.
    pub(super) fn new(tables: &'t dyn Tables, table: Table, partition: String, after: Option<&str>) -> Self {
        let after = after.map(str::to_owned);
        Self { tables, table, partition, waiting: VecDeque::new(), after, is_at_end: false }
    }

    async fn fill(&mut self) -> Result<(), EngineError> {
        while self.waiting.is_empty() && !self.is_at_end {
            let after = self.after.as_deref();
            let page =
                retry_transient(|| self.tables.query(self.table, &self.partition, after, limits::WALK_PAGE)).await?;
            self.is_at_end = page.next.is_none();
            self.after = page.next.map(|next| next.sort);
            self.waiting.extend(page.items);
        }
        Ok(())
    }

    fn key(&self) -> Option<&str> {
        self.waiting.front().map(|item| item.key.sort.as_str())
    }

    /// The next item, if it has this key.
    fn take(&mut self, key: &str) -> Option<Item> {
        self.waiting.pop_front_if(|item| item.key.sort == key)
    }
}

/// Items of two partitions under one key; at least one has something.
pub(super) struct Pair {
    pub(super) key: String,
    pub(super) left: Option<Item>,
    pub(super) right: Option<Item>,
}

/// The items of two partitions, in the order of their keys.
pub(super) struct PairWalk<'t> {
    left: PartitionWalk<'t>,
    right: PartitionWalk<'t>,
}

impl<'t> PairWalk<'t> {
    pub(super) const fn new(left: PartitionWalk<'t>, right: PartitionWalk<'t>) -> Self {
        Self { left, right }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Pair>, EngineError> {
        self.left.fill().await?;
        self.right.fill().await?;
        let least = self.left.key().into_iter().chain(self.right.key()).min();
        let Some(key) = least.map(str::to_owned) else { return Ok(None) };
        let (left, right) = (self.left.take(&key), self.right.take(&key));
        Ok(Some(Pair { key, left, right }))
    }
}
