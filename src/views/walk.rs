//! Walks along two partitions side by side, key by key.

use std::collections::VecDeque;

use super::limits;
use super::patience::patiently;
use crate::engine::{EngineError, Item, Table, Tables};

/// The items of one partition, in order.
struct PartitionWalk<'t> {
    tables: &'t dyn Tables,
    table: Table,
    partition: String,
    waiting: VecDeque<Item>,
    after: Option<String>,
    is_at_end: bool,
}

impl<'t> PartitionWalk<'t> {
    fn new(tables: &'t dyn Tables, table: Table, partition: String, after: Option<&str>) -> Self {
        let after = after.map(str::to_owned);
        Self { tables, table, partition, waiting: VecDeque::new(), after, is_at_end: false }
    }

    async fn fill(&mut self) -> Result<(), EngineError> {
        while self.waiting.is_empty() && !self.is_at_end {
            let after = self.after.as_deref();
            let query = || self.tables.query(self.table, &self.partition, after, limits::WALK_PAGE);
            let page = patiently(query).await?;
            self.is_at_end = page.next.is_none();
            self.after = page.next.map(|next| next.sort);
            self.waiting.extend(page.items);
        }
        Ok(())
    }

    fn key(&self) -> Option<&str> {
        self.waiting.front().map(|item| item.key.sort.as_str())
    }
}

/// What two partitions have under one key; at least one has something.
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
    /// Begins behind `after`. Each side is tables, one of them, and a partition.
    pub(super) fn new(
        left: (&'t dyn Tables, Table, String),
        right: (&'t dyn Tables, Table, String),
        after: Option<&str>,
    ) -> Self {
        let side = |(tables, table, partition)| PartitionWalk::new(tables, table, partition, after);
        Self { left: side(left), right: side(right) }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Pair>, EngineError> {
        self.left.fill().await?;
        self.right.fill().await?;
        let least = self.left.key().into_iter().chain(self.right.key()).min();
        let Some(key) = least.map(str::to_owned) else { return Ok(None) };
        let take = |side: &mut PartitionWalk<'_>| {
            if side.key() == Some(key.as_str()) { side.waiting.pop_front() } else { None }
        };
        let (left, right) = (take(&mut self.left), take(&mut self.right));
        Ok(Some(Pair { key, left, right }))
    }
}
