//! For tests: a catalogue in memory, stores that die or are interrupted at a given call, and a check
//! that everything is as it should be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::Mutex;

use super::counters::ViewsCounters;
use super::definition::ViewDefinition;
use super::mapper::{self, Mapper};
use super::stored;
use super::triggers::Triggers;
use crate::engine::delegate_tables;
use crate::engine::lease::{Lease, LeasePlace};
use crate::engine::memory::MemoryStore;
use crate::engine::{
    Change, Condition, EngineError, Item, ItemKey, ItemWrite, Page, ScanSegment, Table, Tables, WriteError,
};
use crate::model::time::{Clock, Wall};

/// A view of a tenant and the shard that it names.
pub(super) const LIMITS: &str = r#"
[[view]]
name = "limits"
definition = 2
from = "tenant"
needs = { shard = "shard:{/shard}" }
[view.fields]
users = "/users"
host = "shard:/host"
"#;

pub(super) fn views(text: &str) -> Vec<Arc<ViewDefinition>> {
    super::read("views.toml", text, None).unwrap().into_iter().map(Arc::new).collect()
}

/// The home region's tables, and a clock that a test moves.
#[derive(Clone)]
pub(super) struct Home {
    pub(super) store: MemoryStore,
    pub(super) clock: Clock,
    pub(super) counters: ViewsCounters,
}

impl Home {
    pub(super) fn new() -> Self {
        let clock = Clock::simulated(Wall::from_millis(1_000_000));
        Self { store: MemoryStore::new(clock.clone()), clock, counters: ViewsCounters::default() }
    }

    /// Writes a record, or its tombstone, as the catalogue would; returns what the feed brings.
    pub(super) async fn put(&self, record_type: &str, key: &str, version: u64, body: Option<&str>) -> Vec<Change> {
        let mut item = Item::new(stored::current(record_type, key), version);
        item.body = body.map(|body| Bytes::from(body.to_owned()));
        let change = Change { key: item.key.clone(), item: Some(item.clone()), written: self.clock.wall() };
        self.store.write(vec![ItemWrite::Put(Table::Records, item, Condition::Any)]).await.unwrap();
        vec![change]
    }

    pub(super) fn mapper(&self) -> Mapper {
        self.mapper_on(Arc::new(self.store.clone()))
    }

    pub(super) fn mapper_on(&self, store: Arc<dyn Tables>) -> Mapper {
        Mapper::new(store, self.clock.clone(), self.counters.clone())
    }

    pub(super) async fn lease(&self) -> Arc<Lease> {
        let tables = Arc::new(self.store.clone());
        let (holder, clock) = ("test".to_owned(), self.clock.clone());
        let place =
            LeasePlace { tables, table: Table::Mapping, job: "views".into(), holder, clock, lines: Arc::default() };
        Arc::new(place.acquire().await)
    }

    pub(super) fn triggers(&self, text: &str) -> Triggers {
        Triggers::new(self.mapper(), views(text))
    }

    /// View that a reader sees: version and content.
    pub(super) async fn view(&self, view: &str, key: &str) -> Option<(u64, Option<String>)> {
        let item = self.store.get(Table::Views, &stored::current(view, key)).await.unwrap()?;
        let text = item.body.map(|body| String::from_utf8(body.to_vec()).unwrap());
        Some((item.version, text))
    }

    pub(super) fn partitions(&self, start: &str) -> Vec<ItemKey> {
        let items = self.store.dump(Table::Mapping);
        items.into_iter().map(|item| item.key).filter(|key| key.partition.starts_with(start)).collect()
    }

    /// Puts what no process of ours would write.
    pub(super) fn spoil(&self, table: Table, key: ItemKey, note: &str) {
        self.store.tamper(table, &key.clone(), Some(Item::new(key, 7).with_note(note)));
    }

    /// Each view is what its records say now, is noted so, and has exactly the references that it
    /// needs.
    pub(super) async fn assert_right(&self, text: &str) {
        let references = self.assert_right_but_for_references(text, "").await;
        let kept: BTreeSet<ItemKey> = self.partitions("reference#").into_iter().collect();
        assert_eq!(kept, references);
        assert!(self.partitions("failure#").is_empty());
    }

    /// Asserts each view as [`Self::assert_right`] does, but superfluous references may have been
    /// left. Returns those that are needed.
    pub(super) async fn assert_right_but_for_references(&self, text: &str, when: &str) -> BTreeSet<ItemKey> {
        let mapper = self.mapper();
        let mut references = BTreeSet::new();
        for view in views(text) {
            let of_type = format!("{}#", view.from);
            let records = self.store.dump(Table::Records);
            for main in records.into_iter().filter(|item| item.key.partition.starts_with(&of_type)) {
                let key = main.key.sort.as_str();
                let targets = mapper::targets(&view, &main).unwrap();
                let inputs = mapper.inputs(&targets).await.unwrap();
                references.extend(targets.iter().flatten().map(|it| stored::reference(it, &view.name, key)));
                let (vector, content) = mapper::made(&view, &main, targets, inputs);
                let shown = self.store.get(Table::Views, &stored::current(&view.name, key)).await.unwrap();
                let shown = shown.unwrap_or_else(|| panic!("no view {key} {when}"));
                assert_eq!(shown.body, content.unwrap(), "the content of {key} {when}");
                let note = mapper.note(&view.name, key).await.unwrap().note;
                assert_eq!((note.vector, note.version, note.failed), (vector, shown.version, false), "{key} {when}");
            }
        }
        let kept: BTreeSet<ItemKey> = self.partitions("reference#").into_iter().collect();
        assert!(references.is_subset(&kept), "a reference is missing {when}");
        references
    }

    /// Asserts that the version of no view shrinks.
    pub(super) fn assert_versions_grow(&self, seen: &mut BTreeMap<String, u64>) {
        for item in self.store.dump(Table::Views) {
            let known = seen.entry(item.key.sort).or_default();
            assert!(item.version >= *known);
            *known = item.version;
        }
    }
}

/// Event at a call.
pub(super) enum Plan {
    /// The process is killed before it.
    DiesBefore,
    /// The process is killed after it, before it has the answer.
    DiesAfter,
    /// This happens before it.
    Interrupted(Mutex<Option<BoxFuture<'static, ()>>>),
}

fn killed() -> EngineError {
    EngineError::Unavailable { what: "a call".to_owned(), why: "killed".to_owned() }
}

/// A store with a plan for one call, counted from 0.
pub(super) struct PlannedStore {
    pub(super) inner: MemoryStore,
    pub(super) at: usize,
    pub(super) plan: Plan,
    pub(super) calls: AtomicUsize,
}

impl PlannedStore {
    pub(super) fn new(inner: MemoryStore, at: usize, plan: Plan) -> Arc<Self> {
        Arc::new(Self { inner, at, plan, calls: AtomicUsize::new(0) })
    }

    /// True if the call came to pass.
    pub(super) fn was_reached(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > self.at
    }

    async fn call<T, E: From<EngineError>>(&self, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        match &self.plan {
            Plan::DiesBefore if number >= self.at => return Err(killed().into()),
            Plan::DiesAfter if number > self.at => return Err(killed().into()),
            Plan::DiesAfter if number == self.at => return work.await.and_then(|_| Err(killed().into())),
            Plan::Interrupted(work) if number == self.at => {
                if let Some(work) = work.lock().await.take() {
                    work.await;
                }
            }
            _ => {}
        }
        work.await
    }
}

impl Tables for PlannedStore {
    fn get<'a>(&'a self, table: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.call(async move { self.inner.get(table, key).await }).boxed()
    }

    fn write(&self, writes: Vec<ItemWrite>) -> BoxFuture<'_, Result<(), WriteError>> {
        self.call(async move { self.inner.write(writes).await }).boxed()
    }

    fn query<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, EngineError>> {
        self.call(async move { self.inner.query(table, partition, after, limit).await }).boxed()
    }

    fn last<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        through: &'a str,
    ) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.call(async move { self.inner.last(table, partition, through).await }).boxed()
    }

    fn scan(
        &self,
        table: Table,
        segment: ScanSegment,
        after: Option<ItemKey>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, EngineError>> {
        self.call(async move { self.inner.scan(table, segment, after, limit).await }).boxed()
    }
}

/// Which partition of which table.
type IsBad = Box<dyn Fn(Table, &str) -> bool + Send + Sync>;

/// A store whose reads of some partitions fail.
pub(super) struct PartlyBad {
    pub(super) inner: MemoryStore,
    pub(super) error: EngineError,
    pub(super) is_bad: IsBad,
}

impl PartlyBad {
    /// As where somebody else put an item into a table of DynamoDB.
    pub(super) fn refusing(inner: MemoryStore, is_bad: impl Fn(Table, &str) -> bool + Send + Sync + 'static) -> Self {
        let error = EngineError::Refused { what: "a read".to_owned(), why: "no item of ours".to_owned() };
        Self { inner, error, is_bad: Box::new(is_bad) }
    }

    fn read(&self, table: Table, partition: &str) -> Result<(), EngineError> {
        if (self.is_bad)(table, partition) { Err(self.error.clone()) } else { Ok(()) }
    }
}

impl Tables for PartlyBad {
    delegate_tables!(inner: write, last, scan);

    fn get<'a>(&'a self, table: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        async move {
            self.read(table, &key.partition)?;
            self.inner.get(table, key).await
        }
        .boxed()
    }

    fn query<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, EngineError>> {
        async move {
            self.read(table, partition)?;
            self.inner.query(table, partition, after, limit).await
        }
        .boxed()
    }
}
