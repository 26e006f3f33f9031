//! Changes of a catalogue in memory, whose clock stands still unless it is moved.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::json;

use super::*;
use crate::catalogue::{Author, Reason, RecordTypes, RecordWrite, RequestId, Writer};
use crate::engine::faulty::{FaultRates, Faults, Faulty};
use crate::engine::memory::MemoryStore;
use crate::engine::{Condition, EngineError, Item, ItemKey, ItemWrite, Page, Table, Tables, bucket, delegate_tables};
use crate::model::time::Clock;
use crate::repair::limits::EXAMPLES;
use crate::views::definition::key_digest;

/// The beginning of a minute.
const NOW: u64 = 1_800_000_000_000;

struct Stage {
    catalogue: Catalogue,
    memory: MemoryStore,
    faults: Faults,
}

fn stage() -> Stage {
    fastrand::seed(7);
    let clock = Clock::simulated(Wall::from_millis(NOW));
    let (memory, faults) = (MemoryStore::new(clock.clone()), Faults::default());
    let store = Arc::new(Faulty::new(memory.clone(), faults.clone()));
    Stage { catalogue: Catalogue::new(store, clock, types()), memory, faults }
}

fn types() -> RecordTypes {
    RecordTypes::compile(["shard", "tenant"].map(|name| (name.to_owned(), json!(true)))).unwrap()
}

fn author(name: &str, reason: &str) -> Author {
    Author {
        by: Writer::Consumer(name.into()),
        principal: None,
        request: RequestId::of("r-1").unwrap(),
        reason: Reason::of(reason),
    }
}

fn written(count: u64) -> VersionCounts {
    VersionCounts { written: count, ..VersionCounts::default() }
}

fn group(by: &str, reason: Option<&str>, minute: u64, counts: VersionCounts) -> ChangeGroup {
    ChangeGroup { by: by.to_owned(), reason: reason.map(str::to_owned), minute, counts }
}

impl Stage {
    async fn put(&self, key: &str, by: &str, reason: &str) {
        let write = RecordWrite::put("shard", key, "{}");
        self.catalogue.write(write, None, &author(by, reason)).await.unwrap();
    }

    async fn delete(&self, key: &str, by: &str) {
        let write = RecordWrite::delete("shard", key);
        self.catalogue.write(write, None, &author(by, "")).await.unwrap();
    }

    async fn changes(&self, since: u64, writer: Option<&str>) -> ChangeReport {
        let (since, writer) = (Wall::from_millis(since), writer.map(str::to_owned));
        let query = ChangesQuery { record_type: "shard".to_owned(), since, writer };
        changes(&self.catalogue, &query, &ChangesProgress::default()).await.unwrap()
    }
}

async fn minutes(count: u64) {
    tokio::time::advance(Duration::from_secs(60 * count)).await;
}

#[tokio::test(start_paused = true)]
async fn changes_are_counted_by_who_and_why() {
    let stage = stage();
    for key in ["a", "b", "c"] {
        stage.put(key, "wiki", "").await;
    }
    minutes(2).await;
    stage.put("a", "jira", "case 7").await;
    stage.put("b", "jira", "case 7").await;
    minutes(1).await;
    stage.put("a", "jira", "case 7").await;
    stage.put("a", "wiki", "").await;
    stage.delete("b", "wiki").await;
    let report = stage.changes(NOW + 1, None).await;
    let later = NOW + 3 * 60_000;
    let both = VersionCounts { deleted: 1, ..written(1) };
    let expected = [
        group("consumer/jira", Some("case 7"), NOW + 2 * 60_000, written(2)),
        group("consumer/jira", Some("case 7"), later, written(1)),
        group("consumer/wiki", None, later, both),
    ];
    assert_eq!(report.groups, expected);
    assert_eq!((report.records, report.changed, report.cut, report.more), (3, 2, 0, VersionCounts::default()));
    let mut examples = report.examples.clone();
    examples.sort();
    let mut keys = ["a", "b"].map(key_digest);
    keys.sort();
    assert_eq!(examples, keys);
    // Only the one writer's.
    let report = stage.changes(NOW + 1, Some("consumer/wiki")).await;
    assert_eq!((report.groups, report.changed), (vec![group("consumer/wiki", None, later, both)], 2));
    let report = stage.changes(NOW + 1, Some("consumer/wik")).await;
    assert_eq!((report.groups, report.changed, report.records, report.examples), (vec![], 0, 3, vec![]));
}

#[tokio::test(start_paused = true)]
async fn deleted_records_are_seen() {
    let stage = stage();
    stage.put("a", "wiki", "").await;
    minutes(1).await;
    stage.delete("a", "jira").await;
    let report = stage.changes(NOW, None).await;
    let deleted = VersionCounts { deleted: 1, ..VersionCounts::default() };
    assert_eq!(report.groups, [group("consumer/jira", None, NOW + 60_000, deleted)]);
    assert_eq!((report.records, report.changed), (1, 1));
}

/// A change at the time itself is older, also where its version runs ahead of it.
#[tokio::test(start_paused = true)]
async fn changes_at_the_time_are_older() {
    let stage = stage();
    for _ in 0..3 {
        stage.put("a", "wiki", "").await;
    }
    for (since, counted) in [(NOW - 1, 3), (NOW, 0), (NOW + 1, 0), (NOW + 1_000_000, 0)] {
        let report = stage.changes(since, None).await;
        let sum: u64 = report.groups.iter().map(|group| group.counts.sum()).sum();
        assert_eq!((sum, report.changed), (counted, u64::from(counted > 0)), "{since}");
    }
    tokio::time::advance(Duration::from_millis(1)).await;
    stage.put("a", "jira", "").await;
    assert_eq!(stage.changes(NOW, None).await.groups, [group("consumer/jira", None, NOW, written(1))]);
}

/// A version from before notes, and one that is damaged.
#[tokio::test(start_paused = true)]
async fn changes_without_notes_are_unknown() {
    let stage = stage();
    let bodies = [&b"{}"[..], b"{\xff", b"{}"];
    for (version, body) in (NOW..).zip(bodies) {
        let past = ItemKey::new("shard#a", format!("{version:020}"));
        let now = ItemKey::new(bucket::partition("shard", "a"), "a");
        let writes = [(Table::History, past), (Table::Records, now)]
            .map(|(table, key)| ItemWrite::Put(table, Item::new(key, version).with_body(body), Condition::Any));
        stage.memory.write(writes.into()).await.unwrap();
    }
    let counts = VersionCounts { unreadable: 1, ..written(1) };
    for writer in [None, Some("unknown")] {
        assert_eq!(stage.changes(NOW, writer).await.groups, [group("unknown", None, NOW, counts)]);
    }
    assert_eq!(stage.changes(NOW, Some("anonymous")).await.groups, []);
}

#[tokio::test(start_paused = true)]
async fn histories_are_read_so_far() {
    let stage = stage();
    for _ in 0..COUNTED_VERSIONS {
        stage.put("a", "wiki", "").await;
    }
    let report = stage.changes(NOW - 1, None).await;
    assert_eq!((report.groups[0].counts, report.cut), (written(COUNTED_VERSIONS as u64), 0));
    stage.put("a", "wiki", "").await;
    let report = stage.changes(NOW - 1, None).await;
    assert_eq!((report.groups[0].counts, report.cut), (written(COUNTED_VERSIONS as u64), 1));
    // What of it another writer did may lie behind.
    let report = stage.changes(NOW - 1, Some("consumer/jira")).await;
    assert_eq!((report.changed, report.cut), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn throttled_reads_are_tried_again() {
    let stage = stage();
    for n in 0..300 {
        stage.put(&format!("key-{n}"), "wiki", "").await;
    }
    let quiet = stage.changes(NOW - 1, None).await;
    assert_eq!((quiet.records, quiet.changed, quiet.examples.len()), (300, 300, EXAMPLES));
    stage.faults.set(FaultRates { throttles: 0.2, fails: 0.1, ..FaultRates::default() });
    let query = ChangesQuery { record_type: "shard".to_owned(), since: Wall::from_millis(NOW - 1), writer: None };
    let progress = ChangesProgress::default();
    assert_eq!(changes(&stage.catalogue, &query, &progress).await, Ok(quiet));
    assert_eq!((progress.records(), progress.changed(), progress.percent()), (300, 300, 100));
    stage.faults.set(FaultRates { fails: 1.0, ..FaultRates::default() });
    let failed = changes(&stage.catalogue, &query, &progress).await;
    assert!(matches!(failed, Err(CatalogueError::Unread(_))), "{failed:?}");
    let unknown = ChangesQuery { record_type: "tenants".to_owned(), ..query };
    let failed = changes(&stage.catalogue, &unknown, &progress).await;
    assert!(matches!(failed, Err(CatalogueError::UnknownType { .. })), "{failed:?}");
}

/// Counts the queries that are under way at once, and those of a record's history.
struct Watched {
    inner: MemoryStore,
    under_way: AtomicU64,
    most: AtomicU64,
    histories: AtomicU64,
}

impl Tables for Watched {
    delegate_tables!(inner: get, write, last, scan);

    fn query<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, EngineError>> {
        self.histories.fetch_add(u64::from(table == Table::History), Ordering::Relaxed);
        let now = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        async move {
            tokio::time::advance(Duration::from_millis(1)).await;
            let page = self.inner.query(table, partition, after, limit).await;
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            page
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn few_queries_are_under_way_at_once() {
    let stage = stage();
    for n in 0..100 {
        stage.put(&format!("key-{n}"), "wiki", "").await;
    }
    minutes(1).await;
    stage.put("key-7", "jira", "").await;
    let (inner, none) = (stage.memory.clone(), AtomicU64::default);
    let watched = Arc::new(Watched { inner, under_way: none(), most: none(), histories: none() });
    let catalogue = Catalogue::new(watched.clone(), Clock::simulated(Wall::from_millis(NOW)), types());
    let query = ChangesQuery { record_type: "shard".to_owned(), since: Wall::from_millis(NOW + 1), writer: None };
    // Boxed so, since it may run in a task of its own.
    let report = changes(&catalogue, &query, &ChangesProgress::default()).boxed().await.unwrap();
    assert_eq!((report.records, report.changed), (100, 1));
    assert_eq!(watched.most.load(Ordering::Relaxed), BUCKETS_AT_ONCE as u64);
    assert_eq!(watched.histories.load(Ordering::Relaxed), 1, "the others' are not read");
}

/// Commands answer with it, and scripts read it.
#[tokio::test(start_paused = true)]
async fn report_is_readable_json() {
    let stage = stage();
    stage.put("a", "jira", "case 7").await;
    let report = stage.changes(NOW - 1, Some("consumer/jira")).await;
    let json = serde_json::to_value(&report).unwrap();
    let expected = json!({
        "type": "shard", "since": NOW - 1, "writer": "consumer/jira", "records": 1, "changed": 1, "cut": 0,
        "groups": [{"by": "consumer/jira", "reason": "case 7", "minute": NOW, "written": 1, "deleted": 0,
            "unreadable": 0}],
        "more": {"written": 0, "deleted": 0, "unreadable": 0}, "examples": [key_digest("a")],
    });
    assert_eq!(json, expected);
    assert_eq!(serde_json::from_value::<ChangeReport>(json).unwrap(), report);
}
