//! Everything that can differ, found once; and nothing found where changes are only on their way.

use bytes::Bytes;

use super::super::scripted::{Home, LIMITS, views};
use super::super::stored;
use super::*;
use crate::engine::follow::Apply;
use crate::engine::memory::MemoryStore;
use crate::engine::{Item, ItemKey, Table};

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
async fn each_way_to_differ_is_found_once() {
    let (home, region) = world(50).await;
    let body = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
    home.put("tenant", "t0", 6, Some("{}")).await;
    home.put("shard", "s1", 6, Some(r#"{"host":"i"}"#)).await;
    home.put("tenant", "t2", 4, Some(r#"{"users":1,"shard":"s2"}"#)).await;
    home.put("tenant", "t3", 6, Some("[]")).await;
    home.put("tenant", "unseen", 6, Some("{}")).await;
    changed(&home.store, Table::Views, "t4", |item| item.body = body("{}"));
    home.store.tamper(Table::Views, &place("t5"), None);
    home.store.tamper(Table::Records, &stored::current("tenant", "t6"), None);
    copy(&home, &region);
    region.tamper(Table::Contexts, &place("t5"), None);
    region.tamper(Table::Contexts, &place("t10"), None);
    region.tamper(Table::Contexts, &place("nobody"), Some(Item::new(place("nobody"), 1)));
    changed(&region, Table::Contexts, "t11", |item| item.version -= 1);
    changed(&region, Table::Contexts, "t12", |item| item.version += 1);
    changed(&region, Table::Contexts, "t13", |item| item.body = None);
    changed(&region, Table::Contexts, "t14", |item| item.body = body("{ }"));
    let report = verification(&home, &region).run().await.unwrap();
    let found: Vec<_> =
        report.differing.iter().map(|((place, how), count)| (place.as_str(), how.word(), *count)).collect();
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
async fn changes_that_are_on_their_way_do_not_count_and_one_that_is_lost_does() {
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
async fn a_region_misses_nothing_of_a_view_that_it_does_not_take() {
    let (home, region) = world(5).await;
    region.tamper(Table::Contexts, &place("t1"), None);
    let mut verification = verification(&home, &region);
    assert!(!verification.run().await.unwrap().is_clean());
    verification.regions[0].views = Some(BTreeSet::from(["profile".to_owned()]));
    let report = verification.run().await.unwrap();
    assert!(report.is_clean() && report.buckets == 0, "{report:?}");
}
