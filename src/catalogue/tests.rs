//! The catalogue on stores that are slow, throttle, and lose answers.

mod notes;
mod walk;

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;

use super::limits::{BATCH_RECORDS, PAGE_BYTES, REASON_BYTES, RECORD_BYTES, REMEMBERED};
use super::*;
use crate::access::principal::Principal;
use crate::engine::counting::{CallCounts, Counting};
use crate::engine::faulty::{FaultRates, Faults, Faulty};
use crate::engine::memory::MemoryStore;
use crate::engine::{Condition, ItemWrite};
use crate::model::time::Wall;

const NOW: u64 = 1_800_000_000_000;
const SLOW: FaultRates = FaultRates {
    is_slow: 1.0,
    slowness: Duration::from_millis(3),
    fails: 0.0,
    throttles: 0.0,
    loses_answers: 0.0,
    repeats: 0.0,
    reorders: 0.0,
    skips: 0.0,
    splits: 0.0,
    refuses: 0.0,
};

pub(super) struct Stage {
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) memory: MemoryStore,
    pub(super) faults: Faults,
    clock: Clock,
}

/// A catalogue of tenants, who must have a `plan`, and of shards, which may be anything.
pub(super) fn stage() -> Stage {
    fastrand::seed(7);
    let clock = Clock::simulated(Wall::from_millis(NOW));
    let (memory, faults) = (MemoryStore::new(clock.clone()), Faults::default());
    let schema = json!({"properties": {"plan": {"type": "string"}}, "required": ["plan"]});
    let types = [("tenant".to_owned(), schema), ("shard".to_owned(), json!(true))];
    let store = Arc::new(Faulty::new(memory.clone(), faults.clone()));
    let catalogue = Catalogue::new(store, clock.clone(), RecordTypes::compile(types).unwrap());
    Stage { catalogue: Arc::new(catalogue), memory, faults, clock }
}

fn body(n: u64) -> String {
    format!("{{ \"n\": {n} }}")
}

fn shard(key: &str, n: u64) -> RecordWrite {
    RecordWrite::put("shard", key, body(n))
}

fn once(key: &str) -> IdempotencyKey {
    IdempotencyKey::new("anonymous", key).unwrap()
}

impl Stage {
    async fn put(&self, key: &str, n: u64) -> Result<u64, CatalogueError> {
        self.catalogue.write(shard(key, n), None, &Author::anonymous()).await.map(|(applied, _)| applied.version)
    }

    /// The reason to refuse a batch that ends with this write.
    async fn refusal_of(&self, last: RecordWrite) -> CatalogueError {
        let writes: Vec<_> = (0..3).map(|n| shard(&format!("new-{n}"), n)).chain([last]).collect();
        let Err(CatalogueError::Part { at: 3, why }) =
            self.catalogue.batch(&writes, None, &Author::anonymous()).await
        else {
            unreachable!("the last part cannot be written")
        };
        *why
    }

    async fn delete(&self, key: &str) -> Result<u64, CatalogueError> {
        self.catalogue
            .write(RecordWrite::delete("shard", key), None, &Author::anonymous())
            .await
            .map(|(applied, _)| applied.version)
    }

    /// All versions of a shard, and what was written then.
    async fn history(&self, key: &str) -> Vec<(u64, Option<Bytes>)> {
        let (mut versions, mut after) = (Vec::new(), None);
        loop {
            let page = self.catalogue.history("shard", key, 7, after.as_deref()).await.unwrap();
            versions.extend(page.records.into_iter().map(|it| (it.version, it.body)));
            after = page.next;
            if after.is_none() {
                return versions;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn version_is_time_or_increment() {
    let stage = stage();
    assert_eq!(stage.put("a", 1).await, Ok(NOW));
    assert_eq!(stage.put("a", 2).await, Ok(NOW + 1), "in the same millisecond");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(stage.put("a", 3).await, Ok(NOW + 1000));
    stage.clock.step_wall(-60_000);
    assert_eq!(stage.put("a", 4).await, Ok(NOW + 1001), "the clock went back, the version does not");
    assert_eq!(stage.catalogue.get("shard", "a").await, Ok((NOW + 1001, body(4).into())));
    assert_eq!(stage.history("a").await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn deletion_and_revival_continue_versions() {
    let stage = stage();
    assert_eq!(stage.delete("a").await, Err(not_found(None)));
    assert_eq!(stage.catalogue.get("shard", "a").await, Err(not_found(None)));
    assert_eq!(stage.put("a", 1).await, Ok(NOW));
    assert_eq!(stage.delete("a").await, Ok(NOW + 1));
    assert_eq!(stage.catalogue.get("shard", "a").await, Err(not_found(Some(NOW + 1))));
    assert_eq!(stage.delete("a").await, Err(not_found(Some(NOW + 1))), "no new version");
    let (applied, _) = stage.catalogue.write(shard("a", 2), None, &Author::anonymous()).await.unwrap();
    assert_eq!(applied, RecordWritten { version: NOW + 2, created: true, deleted: false });
    let history = [(NOW, Some(body(1).into())), (NOW + 1, None), (NOW + 2, Some(body(2).into()))];
    assert_eq!(stage.history("a").await, history);
}

fn not_found(version: Option<u64>) -> CatalogueError {
    CatalogueError::NotFound { version }
}

#[tokio::test(start_paused = true)]
async fn versions_never_repeat_under_8_writers() {
    let stage = stage();
    stage.faults.set(SLOW);
    let mut acknowledged: Vec<_> = join_all((0..8).map(async |writer: u64| {
        let mut acknowledged = Vec::new();
        for n in 0..15 {
            match stage.put("hot", writer * 100 + n).await {
                Ok(version) => acknowledged.push((version, Some(body(writer * 100 + n).into()))),
                Err(error) => assert_eq!(error, CatalogueError::Contended),
            }
        }
        acknowledged
    }))
    .await
    .concat();
    assert!(acknowledged.len() > 60, "{}", acknowledged.len());
    acknowledged.sort();
    assert_eq!(stage.history("hot").await, acknowledged, "each once, none besides");
}

#[tokio::test(start_paused = true)]
async fn one_writer_wins_per_if_match() {
    let stage = stage();
    let first = stage.put("a", 0).await.unwrap();
    stage.faults.set(SLOW);
    for conditions in [Preconditions::version_is(first), Preconditions::absent()] {
        let key = if conditions == Preconditions::absent() { "new" } else { "a" };
        let outcomes = join_all((1..=8).map(async |n| {
            // One after the other, so that they would be given different versions.
            tokio::time::sleep(Duration::from_millis(n)).await;
            stage.catalogue.write(shard(key, n).only_if(conditions.clone()), None, &Author::anonymous()).await
        }))
        .await;
        let won: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
        let [(applied, _)] = won[..] else { unreachable!("{outcomes:?}") };
        let lost = CatalogueError::PreconditionFailed { version: Some(applied.version) };
        assert_eq!(outcomes.iter().filter(|outcome| outcome.as_ref() == Err(&lost)).count(), 7, "{outcomes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn idempotency_key_recovers_lost_answer() {
    let stage = stage();
    let first = stage.put("a", 0).await.unwrap();
    let write = shard("a", 1).only_if(Preconditions::version_is(first));
    stage.faults.set(FaultRates { loses_answers: 1.0, ..FaultRates::default() });
    let key = once("k1");
    assert_eq!(
        stage.catalogue.write(write.clone(), Some(&key), &Author::anonymous()).await,
        Err(CatalogueError::OutcomeUnknown)
    );
    stage.faults.set(FaultRates::default());
    // Its own effect would make the condition fail.
    let (again, replayed) = stage.catalogue.write(write.clone(), Some(&key), &Author::anonymous()).await.unwrap();
    assert_eq!((again, replayed), (RecordWritten { version: first + 1, created: false, deleted: false }, true));
    assert_eq!(stage.history("a").await.len(), 2, "applied once");
    let unkeyed = stage.catalogue.write(write, None, &Author::anonymous()).await;
    assert_eq!(unkeyed, Err(CatalogueError::PreconditionFailed { version: Some(first + 1) }));
}

#[tokio::test(start_paused = true)]
async fn keyed_request_is_applied_once() {
    let stage = stage();
    stage.faults.set(FaultRates { fails: 0.2, throttles: 0.1, loses_answers: 0.3, is_slow: 0.5, ..SLOW });
    let mut acknowledged: Vec<_> = join_all((0..8).map(|writer| write_ten(&stage, writer))).await.concat();
    stage.faults.set(FaultRates::default());
    acknowledged.sort();
    assert_eq!(acknowledged.len(), 80);
    assert_eq!(stage.history("hot").await, acknowledged);
}

/// Writes the hot record ten times, each until it is acknowledged; returns the versions and bodies.
async fn write_ten(stage: &Stage, writer: u64) -> Vec<(u64, Option<Bytes>)> {
    let mut acknowledged = Vec::new();
    for n in 0..10 {
        let (key, write) = (once(&format!("{writer}-{n}")), shard("hot", writer * 100 + n));
        loop {
            match stage.catalogue.write(write.clone(), Some(&key), &Author::anonymous()).await {
                Ok((applied, _)) => break acknowledged.push((applied.version, write.body)),
                Err(CatalogueError::Contended | CatalogueError::OutcomeUnknown | CatalogueError::Store(_)) => {
                    tokio::time::sleep(Duration::from_millis(10)).await
                }
                Err(other) => unreachable!("{other}"),
            }
        }
    }
    acknowledged
}

#[tokio::test(start_paused = true)]
async fn concurrent_duplicates_apply_once() {
    let stage = stage();
    stage.faults.set(SLOW);
    let key = once("k");
    let answers = join_all((0..12).map(async |n| {
        // Some look while another's transaction is under way, some just after it took place.
        tokio::time::sleep(Duration::from_millis(n)).await;
        let write = shard("a", 1).only_if(Preconditions::absent());
        stage.catalogue.write(write, Some(&key), &Author::anonymous()).await.unwrap()
    }))
    .await;
    assert_eq!(answers.iter().filter(|(_, replayed)| !replayed).count(), 1, "{answers:?}");
    assert!(answers.iter().all(|(applied, _)| *applied == answers[0].0), "{answers:?}");
    assert_eq!(stage.history("a").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_of_conflicting_keyed_requests_applies() {
    let stage = stage();
    stage.faults.set(SLOW);
    let key = once("k");
    let outcomes = join_all((0..4).map(async |n: u64| {
        stage.catalogue.write(shard(&format!("key-{n}"), n), Some(&key), &Author::anonymous()).await
    }))
    .await;
    let reused = outcomes.iter().filter(|outcome| **outcome == Err(CatalogueError::KeyReused)).count();
    assert_eq!((reused, stage.memory.dump(Table::Records).len()), (3, 1), "{outcomes:?}");
}

#[tokio::test(start_paused = true)]
async fn idempotency_key_lasts_24_hours() {
    let stage = stage();
    let key = once("k");
    let first = stage.catalogue.write(shard("a", 1), Some(&key), &Author::anonymous()).await.unwrap();
    for other in [
        shard("a", 2),
        shard("b", 1),
        RecordWrite::delete("shard", "a"),
        RecordWrite::put("tenant", "a", "{\"plan\":\"free\"}"),
        shard("a", 1).only_if(Preconditions::version_is(first.0.version)),
    ] {
        assert_eq!(
            stage.catalogue.write(other, Some(&key), &Author::anonymous()).await,
            Err(CatalogueError::KeyReused)
        );
    }
    assert_eq!(
        stage.catalogue.batch(&[shard("a", 1)], Some(&key), &Author::anonymous()).await,
        Err(CatalogueError::KeyReused)
    );
    assert_eq!(stage.catalogue.write(shard("a", 1), Some(&key), &Author::anonymous()).await, Ok((first.0, true)));
    let another = IdempotencyKey::new("somebody", "k").unwrap();
    assert!(!stage.catalogue.write(shard("a", 1), Some(&another), &Author::anonymous()).await.unwrap().1);
    tokio::time::advance(REMEMBERED - Duration::from_millis(1)).await;
    assert_eq!(stage.catalogue.write(shard("a", 1), Some(&key), &Author::anonymous()).await, Ok((first.0, true)));
    tokio::time::advance(Duration::from_millis(1)).await;
    // Although the item is still in the store.
    let anew = stage.catalogue.write(shard("b", 1), Some(&key), &Author::anonymous()).await.unwrap();
    assert!(!anew.1 && anew.0.version > first.0.version);
    assert_eq!(stage.catalogue.write(shard("b", 1), Some(&key), &Author::anonymous()).await, Ok((anew.0, true)));
}

#[tokio::test(start_paused = true)]
async fn refused_request_frees_its_key() {
    let stage = stage();
    let key = once("k");
    let guarded = shard("a", 1).only_if(Preconditions::version_is(NOW));
    let refused = stage.catalogue.write(guarded.clone(), Some(&key), &Author::anonymous()).await;
    assert_eq!(refused, Err(CatalogueError::PreconditionFailed { version: None }));
    stage.put("a", 0).await.unwrap();
    assert!(!stage.catalogue.write(guarded, Some(&key), &Author::anonymous()).await.unwrap().1);
}

#[tokio::test(start_paused = true)]
async fn lost_table_never_reissues_versions() {
    let stage = stage();
    let mut newest = 0;
    for n in 0..20 {
        // Twenty in one millisecond: ahead of the clock.
        newest = stage.put("a", n).await.unwrap();
    }
    assert_eq!(newest, NOW + 19);
    stage.memory.lose(Table::Records);
    assert_eq!(stage.put("a", 20).await, Ok(NOW + 20), "the history still knows");
    stage.memory.lose(Table::Records);
    stage.clock.step_wall(-60_000);
    assert_eq!(stage.put("a", 21).await, Ok(NOW + 21), "even where the clock went back");
    stage.clock.step_wall(60_000);
    stage.memory.lose(Table::Records);
    stage.memory.lose(Table::History);
    tokio::time::advance(Duration::from_millis(22)).await;
    assert_eq!(stage.put("a", 22).await, Ok(NOW + 22), "the clock alone is enough, if it does not go back");
}

#[tokio::test(start_paused = true)]
async fn batches_are_atomic() {
    let stage = stage();
    let first = stage.put("there", 0).await.unwrap();
    let stale = shard("there", 1).only_if(Preconditions::absent());
    assert_eq!(stage.refusal_of(stale).await, CatalogueError::PreconditionFailed { version: Some(first) });
    assert_eq!(
        stage.refusal_of(RecordWrite::delete("shard", "gone")).await,
        CatalogueError::NotFound { version: None }
    );
    assert!(matches!(stage.refusal_of(RecordWrite::put("tenant", "a", "{}")).await, CatalogueError::Schema(_)));
    assert!(matches!(
        stage.refusal_of(RecordWrite::put("tenent", "a", "{}")).await,
        CatalogueError::UnknownType { .. }
    ));
    assert_eq!(stage.memory.dump(Table::Records).len(), 1);
    assert_eq!(stage.memory.dump(Table::History).len(), 1);
    let whole = [shard("new", 1), RecordWrite::delete("shard", "there")];
    let answer = stage.catalogue.batch(&whole, Some(&once("b")), &Author::anonymous()).await.unwrap();
    let [new, gone] = answer.applied[..] else { unreachable!("{answer:?}") };
    assert!(new.created && gone.deleted && !answer.replayed);
    let again = stage.catalogue.batch(&whole, Some(&once("b")), &Author::anonymous()).await.unwrap();
    assert_eq!((again.applied, again.replayed), (answer.applied, true));
}

#[tokio::test(start_paused = true)]
async fn largest_batch_fits_one_transaction() {
    let stage = stage();
    let writes: Vec<_> = (0..BATCH_RECORDS).map(large).collect();
    let (key, author) = (once(&"k".repeat(255)), author_of_long_names());
    assert_eq!(stage.catalogue.batch(&writes, Some(&key), &author).await.unwrap().applied.len(), BATCH_RECORDS);
    let more: Vec<_> = (0..=BATCH_RECORDS).map(|n| shard(&n.to_string(), 1)).collect();
    let refusals = [&more[..], &[], &[shard("a", 1), shard("a", 2)], &vec![large(0); 50][..]];
    for writes in refusals {
        assert!(matches!(
            stage.catalogue.batch(writes, None, &Author::anonymous()).await,
            Err(CatalogueError::BadBatch(_))
        ));
    }
}

/// Everything that a note may hold, at its longest.
fn author_of_long_names() -> Author {
    let sub = "\"".repeat(8_000);
    Author {
        by: Writer::Consumer("c".repeat(64).into()),
        principal: Some(Principal::token(&"\\".repeat(256), &sub)),
        request: RequestId::of(&"\"".repeat(128)).unwrap(),
        reason: Reason::of(&"\"".repeat(REASON_BYTES)),
    }
}

/// A write with a key of 512 bytes; the bodies of fifty are 1.8 MB together.
fn large(n: usize) -> RecordWrite {
    RecordWrite::put("shard", format!("{n:0512}"), format!("{{\"a\":\"{}\"}}", "x".repeat(36_720 - 8)))
}

#[tokio::test(start_paused = true)]
async fn failed_and_unanswered_writes_are_distinguished() {
    let stage = stage();
    stage.faults.set(FaultRates { throttles: 1.0, ..FaultRates::default() });
    assert!(matches!(stage.put("a", 1).await, Err(CatalogueError::Store(EngineError::Throttled { .. }))));
    stage.faults.set(FaultRates { fails: 1.0, ..FaultRates::default() });
    assert!(matches!(stage.put("a", 1).await, Err(CatalogueError::Store(EngineError::Unavailable { .. }))), "a read");
    assert!(matches!(stage.catalogue.get("shard", "a").await, Err(CatalogueError::Unread(_))));
    assert!(stage.memory.dump(Table::History).is_empty());
}

#[tokio::test(start_paused = true)]
async fn unreturned_record_is_read_again() {
    let stage = stage();
    let version = stage.put("a", 1).await.unwrap();
    let ((), read) = tokio::join!(fail_for_a_moment(&stage), stage.catalogue.get("shard", "a"));
    assert_eq!(read.unwrap().0, version);
    let ((), written) = tokio::join!(fail_for_a_moment(&stage), stage.put("a", 2));
    assert!(written.unwrap() > version);
}

async fn fail_for_a_moment(stage: &Stage) {
    stage.faults.set(FaultRates { fails: 1.0, ..FaultRates::default() });
    tokio::task::yield_now().await;
    stage.faults.set(FaultRates::default());
}

#[tokio::test(start_paused = true)]
async fn listing_has_live_records_once() {
    let stage = stage();
    let mut expected = BTreeSet::new();
    for n in 0..300 {
        let key = format!("key-{n}");
        let version = stage.put(&key, n).await.unwrap();
        if n % 10 == 0 {
            stage.delete(&key).await.unwrap();
        } else {
            expected.insert((key, version));
        }
    }
    for limit in [1, 7, 200] {
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = stage.catalogue.list("shard", limit, after.as_deref()).await.unwrap();
            assert!(page.records.len() <= limit);
            listed.extend(page.records.into_iter().map(|it| (it.key, it.version)));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(listed.len(), expected.len(), "{limit}");
        assert_eq!(BTreeSet::from_iter(listed), expected, "{limit}");
    }
    assert_eq!(stage.catalogue.list("tenant", 9, Some("?")).await, Err(CatalogueError::BadCursor));
    assert_eq!(stage.catalogue.history("shard", "key-1", 9, Some("x")).await, Err(CatalogueError::BadCursor));
    let never = stage.catalogue.history("shard", "never", 9, None).await;
    assert_eq!(never, Err(CatalogueError::NotFound { version: None }));
}

/// A bucket at a time, it would take as long as 256 queries.
#[tokio::test(start_paused = true)]
async fn small_type_lists_in_few_rounds() {
    let stage = stage();
    for key in 0..40 {
        stage.put(&format!("key-{key}"), key).await.unwrap();
    }
    stage.faults.set(SLOW);
    let began = stage.clock.now();
    let page = stage.catalogue.list("shard", 200, None).await.unwrap();
    assert_eq!((page.records.len(), page.next), (40, None));
    assert!(stage.clock.now() - began <= 45 * SLOW.slowness, "{:?}", stage.clock.now() - began);
    let whole: Vec<_> = page.records.into_iter().map(|it| it.key).collect();
    let (mut one_by_one, mut after) = (Vec::new(), None);
    for _ in 0..=40 {
        let page = stage.catalogue.list("shard", 1, after.as_deref()).await.unwrap();
        one_by_one.extend(page.records.into_iter().map(|it| it.key));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(one_by_one, whole);
}

/// A configuration that no longer has its type takes nothing back of what was promised.
#[tokio::test(start_paused = true)]
async fn replay_survives_removed_record_type() {
    let stage = stage();
    let first = stage.catalogue.write(shard("a", 1), Some(&once("k")), &Author::anonymous()).await.unwrap();
    let types = RecordTypes::compile([("tenant".to_owned(), json!(true))]).unwrap();
    let later = Catalogue::new(Arc::new(stage.memory.clone()), stage.clock.clone(), types);
    assert_eq!(later.write(shard("a", 1), Some(&once("k")), &Author::anonymous()).await, Ok((first.0, true)));
    assert_eq!(
        later.write(shard("a", 2), Some(&once("k")), &Author::anonymous()).await,
        Err(CatalogueError::KeyReused)
    );
    for key in [Some(once("another")), None] {
        let refused = later.write(shard("a", 1), key.as_ref(), &Author::anonymous()).await;
        assert!(matches!(refused, Err(CatalogueError::UnknownType { .. })), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn page_ends_at_one_mebibyte() {
    let stage = stage();
    let largest = format!("{{\"a\":\"{}\"}}", "x".repeat(RECORD_BYTES - 8));
    for n in 0..40 {
        let write = RecordWrite::put("shard", format!("k{n}"), largest.clone());
        stage.catalogue.write(write, None, &Author::anonymous()).await.unwrap();
        stage
            .catalogue
            .write(RecordWrite::put("shard", "one", largest.clone()), None, &Author::anonymous())
            .await
            .unwrap();
    }
    let listed = stage.catalogue.list("shard", 200, None).await.unwrap();
    assert_eq!(listed.records.len(), PAGE_BYTES / RECORD_BYTES);
    let versions = stage.catalogue.history("shard", "one", 200, None).await.unwrap();
    assert_eq!(versions.records.len(), limits::PAGE_STEP, "read at a time, shown at a time");
    assert_eq!(stage.history("one").await.len(), 40);
}

#[tokio::test(start_paused = true)]
async fn outcomes_are_counted_by_label() {
    let stage = stage();
    stage.put("a", 1).await.unwrap();
    stage.put("a", 2).await.unwrap();
    stage.delete("a").await.unwrap();
    stage.catalogue.history("shard", "a", 1, None).await.unwrap();
    let mut registry = prometheus_client::registry::Registry::with_prefix("nearside");
    registry.register_collector(Box::new(stage.catalogue.counts().clone()));
    let mut page = String::new();
    prometheus_client::encoding::text::encode(&mut page, &registry).unwrap();
    for line in [
        "nearside_catalogue_writes_total{outcome=\"created\"} 1",
        "nearside_catalogue_writes_total{outcome=\"replayed\"} 0",
        "nearside_catalogue_reads_total{what=\"history\"} 1",
        "nearside_catalogue_conflicts_total 0",
        "nearside_catalogue_store_duration_seconds_count{call=\"write\"} 3",
    ] {
        assert!(page.contains(&format!("{line}\n")), "{line}\n{page}");
    }
}

/// A disk that flips a bit, or somebody who writes into the table.
#[tokio::test(start_paused = true)]
async fn damaged_record_blocks_no_page() {
    let stage = stage();
    for key in ["a", "b", "c"] {
        stage.put(key, 1).await.unwrap();
        stage.put(key, 2).await.unwrap();
    }
    for (table, key) in [(Table::Records, place("shard", "b")), (Table::History, history_of(&stage, "a"))] {
        let mut item = stage.memory.get(table, &key).await.unwrap().unwrap();
        item.body = Some(Bytes::from_static(b"{\"n\": \xff}"));
        stage.memory.write(vec![ItemWrite::Put(table, item, Condition::Any)]).await.unwrap();
    }
    for limit in [1, 2, 200] {
        let (mut keys, mut after) = (BTreeSet::new(), None);
        for _ in 0..10 {
            let page = stage.catalogue.list("shard", limit, after.as_deref()).await.unwrap();
            keys.extend(page.records.into_iter().map(|it| it.key));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!((keys, after), (["a", "c"].map(str::to_owned).into(), None), "{limit}");
        let mut page = stage.catalogue.history("shard", "a", limit, None).await.unwrap();
        if let Some(next) = page.next {
            page.records.extend(stage.catalogue.history("shard", "a", limit, Some(&next)).await.unwrap().records);
        }
        let shown: Vec<_> = page.records.iter().map(|it| (it.is_unreadable, it.body.is_some())).collect();
        assert_eq!(shown, [(true, false), (false, true)], "{limit}");
    }
    let damaged = stage.catalogue.get("shard", "b").await;
    assert!(matches!(damaged, Err(CatalogueError::Damaged { .. })), "{damaged:?}");
    stage.put("b", 3).await.unwrap();
    assert!(stage.catalogue.get("shard", "b").await.is_ok(), "written again, it is well");
}

/// Item key of the first version of a shard.
fn history_of(stage: &Stage, key: &str) -> ItemKey {
    let partition = history("shard", key);
    stage
        .memory
        .dump(Table::History)
        .into_iter()
        .find(|item| item.key.partition == partition)
        .expect("it was written")
        .key
}

/// Costs by docs/performance.md: each read and each transaction is a call of AWS.
#[tokio::test(start_paused = true)]
async fn a_write_costs_few_calls() {
    let Stage { memory, clock, .. } = stage();
    let counts = CallCounts::default();
    let store = Arc::new(Counting { inner: memory, counts: counts.clone() });
    let types = RecordTypes::compile([("shard".to_owned(), json!(true))]).unwrap();
    let catalogue = Catalogue::new(store, clock, types);
    let mut calls = Vec::new();
    for key in [None, None, Some(once("1"))] {
        let before = counts.now();
        catalogue.write(shard("a", 1), key.as_ref(), &Author::anonymous()).await.unwrap();
        let made = counts.now().since(before);
        calls.push((made.reads, made.puts + made.region_writes));
    }
    assert_eq!(calls, [(2, 1), (1, 1), (2, 1)], "the first looks into the history, the last for its key");
}
