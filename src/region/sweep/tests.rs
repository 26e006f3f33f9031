//! Changes that a feed left out, and those that are only on their way.

use futures_util::future::{BoxFuture, FutureExt};

use super::*;
use crate::engine::delegate_tables;
use crate::engine::faulty::{FaultRates, Faults, Faulty};
use crate::engine::lease::LeasePlace;
use crate::engine::memory::MemoryStore;
use crate::engine::{Item, Page, Topic};
use crate::model::time::Wall;
use crate::telemetry::limits::RATIONED_LINES;
use crate::telemetry::scripted::CountedLines;

/// Takes everything, and remembers what the region's table had then.
#[derive(Clone)]
struct Witness {
    own: MemoryStore,
    shown: Arc<parking_lot::Mutex<Vec<Vec<u64>>>>,
    messages: Arc<parking_lot::Mutex<Vec<String>>>,
}

impl Topic for Witness {
    fn publish(&self, messages: Vec<String>) -> BoxFuture<'_, Result<Vec<usize>, EngineError>> {
        for message in messages {
            let versions = self.own.dump(Table::Contexts).into_iter().map(|item| item.version);
            self.shown.lock().push(versions.collect());
            self.messages.lock().push(message);
        }
        std::future::ready(Ok(Vec::new())).boxed()
    }
}

/// Is asked, and never answers.
struct Silent;

impl Topic for Silent {
    fn publish(&self, _: Vec<String>) -> BoxFuture<'_, Result<Vec<usize>, EngineError>> {
        std::future::pending().boxed()
    }
}

/// A table of which one bucket cannot be read so many times.
struct BadBucket {
    store: MemoryStore,
    partition: String,
    failures: std::sync::atomic::AtomicI64,
    asked: parking_lot::Mutex<Vec<String>>,
}

impl Tables for BadBucket {
    delegate_tables!(store: get, write, last, scan);

    fn query<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, EngineError>> {
        self.asked.lock().push(partition.to_owned());
        if partition == self.partition && self.failures.fetch_sub(1, Ordering::Relaxed) > 0 {
            let why = "it cannot be read".to_owned();
            return std::future::ready(Err(EngineError::Refused { what: "a bucket".to_owned(), why })).boxed();
        }
        self.store.query(table, partition, after, limit)
    }
}

struct Setting {
    clock: Clock,
    home: MemoryStore,
    own: MemoryStore,
    witness: Witness,
    views: BTreeSet<String>,
    lease: Lease,
    counts: SweepCounts,
}

impl Setting {
    async fn new() -> Self {
        let clock = Clock::simulated(Wall::from_millis(1_000_000));
        let (home, own) = (MemoryStore::new(clock.clone()), MemoryStore::new(clock.clone()));
        let witness = Witness { own: own.clone(), shown: Arc::default(), messages: Arc::default() };
        let views = BTreeSet::from(["limits".to_owned()]);
        let lease = lease(&own, &clock).await;
        Self { clock, home, own, witness, views, lease, counts: SweepCounts::default() }
    }

    fn sweep(&self) -> CopySweep<'_> {
        self.telling(Arc::new(self.witness.clone()))
    }

    fn telling(&self, topic: Arc<dyn Topic>) -> CopySweep<'_> {
        CopySweep {
            home: &self.home,
            own: &self.own,
            publisher: Arc::new(RegionPublisher::new("eu", topic, self.clock.clone())),
            views: Some(&self.views),
            clock: &self.clock,
            every: Duration::from_millis(1),
            begin: 200,
            lease: &self.lease,
            owes: AtomicBool::new(false),
            counts: &self.counts,
        }
    }
}

async fn lease(own: &MemoryStore, clock: &Clock) -> Lease {
    let (tables, holder, clock) = (Arc::new(own.clone()), "a".to_owned(), clock.clone());
    LeasePlace { tables, table: Table::Region, job: "ingest".into(), holder, clock, lines: Arc::default() }
        .acquire()
        .await
}

async fn put(store: &MemoryStore, table: Table, key: &str, version: u64) {
    let item = Item::new(ItemKey::new(bucket::partition("limits", key), key), version).with_body("{}");
    store.write(vec![ItemWrite::Put(table, item, Condition::Any)]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn failing_store_fills_no_sweep_log() {
    let (setting, faults, lines) = (Setting::new().await, Faults::default(), CountedLines::start());
    let own = Faulty::new(setting.own.clone(), faults.clone());
    faults.set(FaultRates { fails: 1.0, ..FaultRates::default() });
    let sweep = CopySweep { own: &own, ..setting.sweep() };
    let shortly = RATIONED_LINES.1 - Duration::from_secs(1);
    assert!(tokio::time::timeout(shortly, sweep.run()).await.is_err());
    assert_eq!(lines.with("what an earlier sweep left"), RATIONED_LINES.0 as usize);
    sweep.round().await.unwrap();
    assert!((1..=RATIONED_LINES.0 as usize).contains(&lines.most().0), "{:?}", lines.most());
}

#[tokio::test(start_paused = true)]
async fn sweep_copies_and_announces_skipped_changes() {
    let setting = Setting::new().await;
    let Setting { home, own, witness, counts, .. } = &setting;
    let sweep = setting.sweep();
    for (key, at_home, in_region) in
        [("older", 5, Some(4)), ("missing", 6, None), ("same", 7, Some(7)), ("newer", 8, Some(9))]
    {
        put(home, Table::Views, key, at_home).await;
        if let Some(version) = in_region {
            put(own, Table::Contexts, key, version).await;
        }
    }
    sweep.round().await.unwrap();
    let mut versions: Vec<u64> = own.dump(Table::Contexts).iter().map(|item| item.version).collect();
    versions.sort_unstable();
    assert_eq!(versions, [5, 6, 7, 9]);
    let shown = witness.shown.lock().clone();
    assert_eq!(shown.len(), 2);
    assert!(shown[1].contains(&5) && shown[1].contains(&6), "put before it is announced");
    assert_eq!(
        (counts.metrics.buckets.get(), counts.metrics.differing.get(), counts.metrics.mended.get()),
        (256, 3, 2)
    );
    sweep.round().await.unwrap();
    assert_eq!(counts.metrics.mended.get(), 2);
}

#[tokio::test(start_paused = true)]
async fn damaged_copy_is_replaced_and_reloaded() {
    let setting = Setting::new().await;
    let Setting { home, own, witness, counts, .. } = &setting;
    put(home, Table::Views, "damaged", 5).await;
    let place = ItemKey::new(bucket::partition("limits", "damaged"), "damaged");
    let damaged = Item::new(place.clone(), 5).with_body("{ }");
    own.write(vec![ItemWrite::Put(Table::Contexts, damaged, Condition::Any)]).await.unwrap();
    let sweep = setting.sweep();
    sweep.round().await.unwrap();
    let copy = own.get(Table::Contexts, &place).await.unwrap().unwrap();
    assert_eq!((copy.version, copy.body.as_deref()), (5, Some(&b"{}"[..])));
    assert_eq!(*witness.shown.lock(), [[5]], "put before it is announced");
    let message = witness.messages.lock()[0].clone();
    assert!(message.contains("RELOAD") && message.contains("damaged"), "{message}");
    assert_eq!(counts.metrics.mended.get(), 1);
    sweep.round().await.unwrap();
    assert_eq!(counts.metrics.mended.get(), 1, "once");
}

#[test]
fn pending_reload_round_trips() {
    let said = Said { record_type: "limits".to_owned(), key: "a".to_owned(), kind: AnnouncementKind::Reload };
    assert!(pending::said(&pending::item(&said)).is_some_and(|read| read == said));
}

#[tokio::test(start_paused = true)]
async fn late_change_is_left_to_feed() {
    let setting = Setting::new().await;
    let Setting { home, own, witness, counts, .. } = &setting;
    let sweep = setting.sweep();
    put(home, Table::Views, "late", 5).await;
    let arrives = async {
        tokio::time::sleep(limits::SWEEP_WAIT / 2).await;
        put(own, Table::Contexts, "late", 5).await;
    };
    let (swept, ()) = futures_util::future::join(sweep.round(), arrives).await;
    swept.unwrap();
    assert_eq!(counts.metrics.differing.get(), 0);
    assert!(witness.shown.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn next_sweep_announces_killed_sweeps_put() {
    let setting = Setting::new().await;
    let Setting { home, own, witness, .. } = &setting;
    put(home, Table::Views, "lost", 5).await;
    let killed = setting.telling(Arc::new(Silent));
    tokio::time::timeout(Duration::from_secs(60), killed.round()).await.unwrap_err();
    assert_eq!(own.dump(Table::Contexts).len(), 1, "it was killed after its put");
    let next = setting.sweep();
    tokio::time::timeout(limits::SWEEP_REST / 2, next.run()).await.unwrap_err();
    assert_eq!(*witness.shown.lock(), [[5]]);
    assert_eq!(own.get(Table::Region, &pending::key()).await, Ok(None), "once");
    next.round().await.unwrap();
    assert_eq!(witness.shown.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn sweep_without_lease_puts_nothing() {
    let setting = Setting::new().await;
    let Setting { home, own, counts, .. } = &setting;
    put(home, Table::Views, "lost", 5).await;
    let _other = lease(own, &setting.clock).await;
    setting.sweep().round().await.unwrap();
    assert!(own.dump(Table::Contexts).is_empty() && counts.metrics.failed.get() > 0);
}

#[tokio::test(start_paused = true)]
async fn round_resumes_and_retries_failed_bucket() {
    let setting = Setting::new().await;
    let partition = bucket::partition("limits", "lost");
    let (failures, asked) = (1.into(), parking_lot::Mutex::default());
    let bad = BadBucket { store: setting.home.clone(), partition: partition.clone(), failures, asked };
    put(&setting.home, Table::Views, "lost", 5).await;
    CopySweep { home: &bad, ..setting.sweep() }.round().await.unwrap();
    let asked = bad.asked.lock();
    assert_eq!(asked[0], bucket::of("limits", 200));
    assert_eq!((asked.len(), asked.last()), (257, Some(&partition)), "the others first");
    let counts = &setting.counts;
    assert_eq!((counts.metrics.buckets.get(), counts.metrics.failed.get(), counts.metrics.mended.get()), (256, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn put_with_lost_answer_is_announced() {
    let setting = Setting::new().await;
    put(&setting.home, Table::Views, "lost", 5).await;
    let faults = Faults::default();
    faults.set(FaultRates { loses_answers: 1.0, ..FaultRates::default() });
    let own = Faulty::new(setting.own.clone(), faults);
    CopySweep { own: &own, ..setting.sweep() }.round().await.unwrap();
    assert_eq!(*setting.witness.shown.lock(), [[5]]);
    assert!(setting.counts.metrics.failed.get() > 0);
}
