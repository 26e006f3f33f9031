//! Triggers by a change of a record: the views that are made from it, and those that need it.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt, try_join_all};
use futures_util::stream::{self, StreamExt};
use tokio::sync::Semaphore;

use super::canary::{self, CANARY};
use super::definition::{JoinTarget, ViewDefinition};
use super::grants;
use super::jobs::{self, JobTask};
use super::limits;
use super::mapper::{MapOutcome, Mapper};
use super::retry::retry_transient;
use super::stored::reference_partition;
use super::vector::Trigger;
use crate::access::record::GRANTS;
use crate::engine::follow::Apply;
use crate::engine::{Change, EngineError, ItemKey, Table, bucket};
use crate::views::counters::ReadTable;

/// Maps what changes touch, by the definitions that this process acts on.
pub(super) struct Triggers {
    pub(super) mapper: Mapper,
    pub(super) views: Vec<Arc<ViewDefinition>>,
    permits: Semaphore,
}

/// A view by its definition's place and its key.
type Touched = (Arc<ViewDefinition>, String);

impl Triggers {
    pub(super) fn new(mapper: Mapper, views: Vec<Arc<ViewDefinition>>) -> Self {
        let permits = Semaphore::new(mapper.store.writes_at_once());
        Self { mapper, views, permits }
    }

    /// Number of views that are mapped at once.
    pub(super) fn at_once(&self) -> usize {
        self.mapper.store.writes_at_once()
    }

    /// Maps a view, and again for a while if the engine fails transiently.
    pub(super) async fn map(
        &self,
        view: &ViewDefinition,
        key: &str,
        trigger: Trigger<'_>,
    ) -> Result<MapOutcome, EngineError> {
        let _permit = self.permits.acquire().await;
        retry_transient(|| self.mapper.map(view, key, trigger)).await
    }

    /// The view of a reference, if this process acts on it.
    pub(super) fn referrer(&self, reference: &ItemKey) -> Option<Touched> {
        let Some((name, key)) = reference.sort.split_once('/') else {
            self.mapper.unreadable(ReadTable::Mapping, reference);
            return None;
        };
        let view = self.views.iter().find(|view| view.name == name)?;
        Some((view.clone(), key.to_owned()))
    }

    async fn touch(&self, record: JoinTarget, version: u64) -> Result<(), EngineError> {
        if record.record_type == CANARY {
            return canary::pass_on(&*self.mapper.store, version).await;
        }
        if record.record_type == GRANTS {
            return grants::pass_on(&*self.mapper.store).await.map(drop);
        }
        for view in self.views.iter().filter(|view| view.from == record.record_type) {
            self.map(view, &record.key, Trigger::Main(version)).await?;
        }
        if !self.views.iter().any(|view| view.needs.iter().any(|need| need.record_type == record.record_type)) {
            return Ok(());
        }
        let Some(touched) = self.few_that_need(&record).await? else {
            self.mapper.counters.metrics.jobs_begun.inc();
            let task = JobTask::Input { target: record, version };
            return jobs::begin(&*self.mapper.store, &task, self.mapper.clock.wall()).await;
        };
        let trigger = Trigger::Input(&record, version);
        all(self.at_once(), touched.iter().map(|(view, key)| self.map(view, key, trigger).boxed()).collect()).await
    }

    /// The views that need a record; `None` if there are too many to be mapped at once.
    async fn few_that_need(&self, record: &JoinTarget) -> Result<Option<Vec<Touched>>, EngineError> {
        let parts = (0..limits::REFERENCE_PARTS).map(|part| self.first_that_need(reference_partition(record, part)));
        let touched: Vec<Touched> = try_join_all(parts).await?.into_iter().flatten().collect();
        Ok((touched.len() <= limits::VIEWS_AT_ONCE).then_some(touched))
    }

    /// All in one part of the index, or at least one too many.
    async fn first_that_need(&self, partition: String) -> Result<Vec<Touched>, EngineError> {
        let (mut touched, mut after) = (Vec::new(), None::<String>);
        loop {
            let most = limits::VIEWS_AT_ONCE + 1;
            let page = self.mapper.store.query(Table::Mapping, &partition, after.as_deref(), most).await?;
            touched.extend(page.items.iter().filter_map(|item| self.referrer(&item.key)));
            match page.next {
                Some(next) if touched.len() <= limits::VIEWS_AT_ONCE => after = Some(next.sort),
                _ => return Ok(touched),
            }
        }
    }
}

/// Runs some of them at a time, and stops at the first that fails.
pub(super) async fn all<'f, T>(
    at_once: usize,
    work: Vec<BoxFuture<'f, Result<T, EngineError>>>,
) -> Result<(), EngineError> {
    let mut running = stream::iter(work).buffer_unordered(at_once);
    while let Some(result) = running.next().await {
        result?;
    }
    Ok(())
}

impl Apply for Triggers {
    fn apply(&self, changes: Vec<Change>) -> BoxFuture<'_, Result<(), EngineError>> {
        // Of a record the newest change stands for all.
        let mut newest: BTreeMap<JoinTarget, u64> = BTreeMap::new();
        for Change { key, item, .. } in changes {
            let Some(item) = item else {
                // Somebody's hands, or a TTL. A deletion is a tombstone.
                self.mapper.counters.metrics.removals.inc();
                continue;
            };
            let Some(record_type) = bucket::name_of(&key.partition) else {
                self.mapper.unreadable(ReadTable::Records, &key);
                continue;
            };
            let record = JoinTarget { record_type: record_type.to_owned(), key: key.sort };
            let version = newest.entry(record).or_default();
            *version = item.version.max(*version);
        }
        let touches = newest.into_iter().map(|(record, version)| self.touch(record, version).boxed());
        all(self.at_once(), touches.collect()).boxed()
    }
}

#[cfg(test)]
mod tests;
