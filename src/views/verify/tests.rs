//! Everything that can differ, found once; and nothing found where changes are only on their way.

use futures_util::future::BoxFuture;

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::scripted::{Home, LIMITS, PartlyBad, views};
use super::super::stored;
use super::*;
use crate::engine::delegate_tables;
use crate::engine::follow::Apply;
use crate::engine::memory::MemoryStore;
use crate::engine::{Item, ItemKey, Page};

/// So many tenants, each on a shard of its own, mapped; and a region that has all of it.
async fn world(count: usize) -> (Home, MemoryStore) {
    let home = Home::new();
    let triggers = home.triggers(LIMITS);
    for at in 0..count {
        let (tenant, shard) = (format!("t{at}"), format!("s{at}"));
        home.put("shard", &shard, 5, Some(r#"{"host":"h"}"#)).await;
        let body = (at % 10 != 9).then(|| format!(r#"{{"users":1,"shard":"{shard}"}}"#));
        triggers.apply(home.put("tenant", &tenant, 5, body.as_deref()).await).await.unwrap();
    }
    let region = MemoryStore::new(home.clock.clone());
    copy(&home, &region);
    (home, region)
}

fn copy(home: &Home, region: &MemoryStore) {
    for item in home.store.dump(Table::Views) {
        region.tamper(Table::Contexts, &item.key.clone(), Some(item));
    }
}

fn verification(home: &Home, region: &MemoryStore) -> Verification {
    Verification {
        mapper: home.mapper(),
        regions: vec![VerifiedRegion {
            name: "here".to_owned(),
            tables: Arc::new(region.clone()),
            views: Some(BTreeSet::from(["limits".to_owned()])),
        }],
        views: views(LIMITS),
        wait: Duration::from_secs(20),
        views_per_second: 1_000,
        shows_keys: false,
    }
}

fn place(key: &str) -> ItemKey {
    stored::current("limits", key)
}

fn changed(store: &MemoryStore, table: Table, key: &str, change: impl FnOnce(&mut Item)) {
    let mut item = store.dump(table).into_iter().find(|item| item.key == place(key)).unwrap();
    change(&mut item);
    store.tamper(table, &place(key), Some(item));
}

#[tokio::test(start_paused = true)]
async fn everything_alike_is_a_clean_report() {
    let (home, region) = world(50).await;
    let before = (home.store.dump(Table::Mapping), home.store.dump(Table::Views));
    let report = verification(&home, &region).run().await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.views, report.buckets), (50, 256));
    assert!(before == (home.store.dump(Table::Mapping), home.store.dump(Table::Views)), "it writes nothing");
}

#[tokio::test(start_paused = true)]
async fn each_difference_is_found_once() {
    let (home, region) = world(50).await;
    home.put("tenant", "t0", 6, Some("{}")).await;
    home.put("shard", "s1", 6, Some(r#"{"host":"i"}"#)).await;
    home.put("tenant", "t2", 4, Some(r#"{"users":1,"shard":"s2"}"#)).await;
    home.put("tenant", "t3", 6, Some("[]")).await;
    home.put("tenant", "unseen", 6, Some("{}")).await;
    changed(&home.store, Table::Views, "t4", |item| item.body = Some("{}".into()));
    home.store.tamper(Table::Views, &place("t5"), None);
    home.store.tamper(Table::Records, &stored::current("tenant", "t6"), None);
    copy(&home, &region);
    region.tamper(Table::Contexts, &place("t5"), None);
    region.tamper(Table::Contexts, &place("t10"), None);
    region.tamper(Table::Contexts, &place("nobody"), Some(Item::new(place("nobody"), 1)));
    changed(&region, Table::Contexts, "t11", |item| item.version -= 1);
    changed(&region, Table::Contexts, "t12", |item| item.version += 1);
    changed(&region, Table::Contexts, "t13", |item| item.body = None);
    changed(&region, Table::Contexts, "t14", |item| item.body = Some("{ }".into()));
    let report = verification(&home, &region).run().await.unwrap();
    let found: Vec<_> =
        report.differing.iter().map(|((place, how), count)| (place.as_str(), how.into_str(), *count)).collect();
    assert_eq!(
        found,
        [
            ("here", "missing", 1),
            ("here", "extra", 1),
            ("here", "older", 1),
            ("here", "newer", 1),
            ("here", "different", 2),
            ("views", "missing", 2),
            ("views", "extra", 1),
            ("views", "older", 1),
            ("views", "newer", 1),
            ("views", "different", 1),
            ("views", "old-input", 1),
            ("views", "unmappable", 1),
        ]
    );
    assert_eq!(report.examples.len(), 14);
    assert!(report.examples.iter().all(|example| example.key.len() == 8 && !example.key.contains('t')));
    let shown = Verification { shows_keys: true, ..verification(&home, &region) }.run().await.unwrap();
    assert!(shown.examples.iter().any(|example| example.key == "unseen"));
}

#[tokio::test(start_paused = true)]
async fn only_lost_changes_count_as_differences() {
    let (home, region) = world(50).await;
    let triggers = home.triggers(LIMITS);
    home.put("tenant", "t1", 6, Some(r#"{"users":7}"#)).await;
    let writes = async {
        for version in 10.. {
            for at in [2, 3, 4] {
                let body = format!(r#"{{"users":{version},"shard":"s{at}"}}"#);
                let change = home.put("tenant", &format!("t{at}"), version, Some(&body)).await;
                tokio::time::sleep(Duration::from_millis(700)).await;
                triggers.apply(change).await.unwrap();
                // The region is later still.
                tokio::time::sleep(Duration::from_millis(700)).await;
                copy(&home, &region);
            }
        }
    };
    let verification = Verification { views_per_second: 10, ..verification(&home, &region) };
    let report = tokio::select! {
        report = verification.run() => report.unwrap(),
        () = writes => unreachable!("they go on"),
    };
    let expected = BTreeMap::from([(("views".to_owned(), Disagreement::Older), 1)]);
    assert_eq!(report.differing, expected);
}

#[tokio::test(start_paused = true)]
async fn region_misses_no_untaken_view() {
    let (home, region) = world(5).await;
    region.tamper(Table::Contexts, &place("t1"), None);
    let mut verification = verification(&home, &region);
    assert!(!verification.run().await.unwrap().is_clean());
    verification.regions[0].views = Some(BTreeSet::from(["profile".to_owned()]));
    let report = verification.run().await.unwrap();
    assert!(report.is_clean() && report.buckets == 0, "{report:?}");
}

/// Puts an item where nobody reads that key.
fn misplace(store: &MemoryStore, table: Table, name: &str, key: &str) {
    let wrong = (bucket::bucket(key) + 1) % engine::limits::BUCKETS;
    let key = ItemKey::new(bucket::of(name, wrong), key);
    store.tamper(table, &key.clone(), Some(Item::new(key, 5).with_body("{}")));
}

/// An item in a place that nobody reads is not one in the right place.
#[tokio::test(start_paused = true)]
async fn unreadable_or_misplaced_item_is_difference() {
    let (home, region) = world(20).await;
    home.put("tenant", "not\u{FFFE}announced", 5, Some("{}")).await;
    misplace(&home.store, Table::Records, "tenant", "t1");
    misplace(&home.store, Table::Views, "limits", "t2");
    copy(&home, &region);
    misplace(&region, Table::Contexts, "limits", "t3");
    let note = bucket::partition("vector#limits", "t4");
    let home_store = Arc::new(PartlyBad::refusing(home.store.clone(), move |_, partition| partition == note));
    let unread = bucket::bucket("t5");
    let partition = bucket::of("limits", unread);
    let region = Arc::new(PartlyBad::refusing(region, move |_, bucket| bucket == partition));
    let mut verification = verification(&home, &MemoryStore::new(home.clock.clone()));
    verification.mapper = home.mapper_on(home_store);
    verification.regions[0].tables = region;
    let report = verification.run().await.unwrap();
    let found: Vec<_> =
        report.differing.iter().map(|((place, how), count)| (place.as_str(), how.into_str(), *count)).collect();
    assert_eq!(
        found,
        [
            ("here", "extra", 1),
            ("here", "unreadable", 1),
            ("views", "extra", 1),
            ("views", "unmappable", 2),
            ("views", "unreadable", 1),
        ]
    );
    assert!(report.examples.iter().any(|example| example.key == format!("bucket {unread:02x}")));
    assert!(!report.is_partial);
}

#[tokio::test(start_paused = true)]
async fn excess_differences_are_reported_partially() {
    let (home, region) = world(5).await;
    for at in 0..limits::SUSPECTS + 500 {
        let key = place(&format!("x{at}"));
        region.tamper(Table::Contexts, &key.clone(), Some(Item::new(key, 1)));
    }
    let report = verification(&home, &region).run().await.unwrap();
    let differing = report.differing.values().sum::<u64>();
    assert!(report.is_partial && !report.is_clean());
    assert!((limits::SUSPECTS..limits::SUSPECTS + 500).contains(&(differing as usize)), "{differing}");
}

/// A store that takes its time, another one for each call, and counts who asks it at once.
struct Busy {
    inner: MemoryStore,
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Busy {
    async fn call<T>(&self, work: impl Future<Output = T>) -> T {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(fastrand::u64(1..50))).await;
        self.now.fetch_sub(1, Ordering::Relaxed);
        work.await
    }
}

impl Tables for Busy {
    delegate_tables!(inner: write, last, scan);

    fn get<'a>(&'a self, table: Table, key: &'a ItemKey) -> BoxFuture<'a, Result<Option<Item>, EngineError>> {
        self.call(self.inner.get(table, key)).boxed()
    }

    fn query<'a>(
        &'a self,
        table: Table,
        partition: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, EngineError>> {
        self.call(self.inner.query(table, partition, after, limit)).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn parallel_buckets_are_reported_in_order() {
    fastrand::seed(1);
    let (home, region) = world(300).await;
    for at in (0..300).step_by(10) {
        home.store.tamper(Table::Views, &place(&format!("t{at}")), None);
        region.tamper(Table::Contexts, &place(&format!("t{at}")), None);
    }
    let busy = Arc::new(Busy { inner: region, now: AtomicUsize::new(0), most: AtomicUsize::new(0) });
    let mut verification = verification(&home, &MemoryStore::new(home.clock.clone()));
    (verification.regions[0].tables, verification.shows_keys) = (busy.clone(), true);
    let report = verification.run().await.unwrap();
    assert_eq!(busy.most.load(Ordering::Relaxed), limits::VERIFIED_AT_ONCE);
    let buckets: Vec<u16> = report.examples.iter().map(|example| bucket::bucket(&example.key)).collect();
    assert_eq!(buckets.len(), limits::EXAMPLES);
    assert!(buckets.is_sorted(), "{buckets:?}");
}
