//! Batches of changes, fan-outs and the jobs that they become.

use std::time::Duration;

use super::super::jobs;
use super::super::scripted::{Home, LIMITS, Plan, PlannedStore, views};
use super::super::worker::{JobWorker, Pace};
use super::*;
use crate::engine::faulty::{FaultRates, Faults, Faulty};
use crate::engine::lease::{Lease, LeasePlace};
use crate::engine::{Item, Tables};

async fn lease(home: &Home) -> Arc<Lease> {
    let place = LeasePlace {
        tables: Arc::new(home.store.clone()),
        table: Table::Mapping,
        job: "views",
        holder: "test".to_owned(),
        clock: home.clock.clone(),
    };
    Arc::new(place.acquire().await)
}

fn worker(home: &Home, store: Arc<dyn Tables>, lease: &Arc<Lease>, per_second: u32) -> JobWorker {
    JobWorker {
        triggers: Arc::new(Triggers::new(home.mapper_on(store), views(LIMITS))),
        lease: lease.clone(),
        pace: Pace::new(home.clock.clone(), per_second),
        status: Arc::default(),
    }
}

/// So many tenants on shard `a`, mapped.
async fn crowd(count: usize) -> Home {
    let home = Home::new();
    let triggers = home.triggers(LIMITS);
    home.put("shard", "a", 1, Some(r#"{"host":"h1"}"#)).await;
    for at in 0..count {
        let change = home.put("tenant", &format!("t{at}"), 2, Some(r#"{"users":1,"shard":"a"}"#)).await;
        triggers.apply(change).await.unwrap();
    }
    home
}

#[tokio::test(start_paused = true)]
async fn a_batch_maps_each_record_once_and_takes_no_removal_for_a_deletion() {
    let home = Home::new();
    let triggers = home.triggers(LIMITS);
    let mut changes = Vec::new();
    for version in 1..=3 {
        changes.extend(home.put("tenant", "acme", version, Some(&format!(r#"{{"users":{version}}}"#))).await);
    }
    changes.reverse();
    let key = changes[0].key.clone();
    changes.push(Change { key, item: None, written: home.clock.wall() });
    changes.extend(home.put("elsewhere", "acme", 1, Some("{}")).await);
    let odd = crate::engine::ItemKey::new("no-bucket", "x");
    changes.push(Change { item: Some(Item::new(odd.clone(), 1)), key: odd, written: home.clock.wall() });
    triggers.apply(changes).await.unwrap();
    assert_eq!(home.view("limits", "acme").await, Some((1_000_000, Some(r#"{"users":3}"#.to_owned()))));
    assert_eq!(home.store.dump(Table::Views).len(), 1);
    assert_eq!(home.counters.removals.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_touches_few_views_maps_them_at_once() {
    let home = crowd(40).await;
    home.triggers(LIMITS).apply(home.put("shard", "a", 3, Some(r#"{"host":"h2"}"#)).await).await.unwrap();
    home.assert_right(LIMITS).await;
    assert!(home.partitions("job").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_change_that_touches_five_thousand_views_is_a_job_that_survives_crashes() {
    let home = crowd(5_000).await;
    let lease = lease(&home).await;
    home.triggers(LIMITS).apply(home.put("shard", "a", 3, Some(r#"{"host":"h2"}"#)).await).await.unwrap();
    assert_eq!(home.partitions("job").len(), 1, "written down");
    assert_eq!(home.view("limits", "t0").await.unwrap().1.unwrap(), r#"{"users":1,"host":"h1"}"#, "not done yet");
    // Killed again and again, each time in the middle of a page.
    let (mut crashes, mut rounds) = (0, 0);
    while !home.partitions("job").is_empty() {
        let dying = PlannedStore::new(home.store.clone(), 1_500 + rounds, Plan::DiesBefore);
        let worker = worker(&home, dying, &lease, 1_000_000);
        while let Ok(1..) = worker.round().await {}
        crashes += usize::from(!home.partitions("job").is_empty());
        rounds += 1;
        assert!(rounds < 100, "each process gets somewhere");
    }
    assert!(crashes > 5, "{crashes}");
    home.assert_right(LIMITS).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_keeps_its_pace_and_single_changes_overtake_it() {
    let home = crowd(1_200).await;
    let lease = lease(&home).await;
    let triggers = home.triggers(LIMITS);
    triggers.apply(home.put("shard", "a", 3, Some(r#"{"host":"h2"}"#)).await).await.unwrap();
    let worker = worker(&home, Arc::new(home.store.clone()), &lease, 100);
    let began = home.clock.now();
    let single = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        triggers.apply(home.put("tenant", "t7", 4, Some(r#"{"users":9,"shard":"a"}"#)).await).await.unwrap();
        assert_eq!(home.view("limits", "t7").await.unwrap().1.unwrap(), r#"{"users":9,"host":"h2"}"#);
        assert_eq!(jobs::list(&home.store).await.unwrap().len(), 1, "the job goes on");
    };
    let job = async { while worker.round().await.unwrap() > 0 {} };
    tokio::join!(single, job);
    let took = home.clock.now().since(began).as_secs();
    assert!((11..=13).contains(&took), "1,200 views at 100 a second: {took} s");
    home.assert_right(LIMITS).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_asked_for_again_goes_round_once_more() {
    let home = crowd(1_200).await;
    let lease = lease(&home).await;
    let triggers = home.triggers(LIMITS);
    let worker = worker(&home, Arc::new(home.store.clone()), &lease, 1_000_000);
    triggers.apply(home.put("shard", "a", 3, Some(r#"{"host":"h2"}"#)).await).await.unwrap();
    for _ in 0..4 {
        worker.round().await.unwrap();
    }
    triggers.apply(home.put("shard", "a", 4, Some(r#"{"host":"h3"}"#)).await).await.unwrap();
    let status = super::super::jobs(&home.store).await.unwrap();
    assert_eq!(status.len(), 1);
    assert!(status[0].done > 0.0, "it does not begin anew, or it would never end");
    assert_eq!(status[0].what, "views that need a shard");
    while worker.round().await.unwrap() > 0 {}
    home.assert_right(LIMITS).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_without_the_lease_moves_no_job() {
    let home = crowd(1_001).await;
    let old = lease(&home).await;
    old.release().await;
    let _new = lease(&home).await;
    home.triggers(LIMITS).apply(home.put("shard", "a", 3, Some("{}")).await).await.unwrap();
    let before = jobs::list(&home.store).await.unwrap();
    worker(&home, Arc::new(home.store.clone()), &old, 1_000_000).round().await.unwrap();
    assert!(jobs::list(&home.store).await.unwrap() == before);
}

#[tokio::test(start_paused = true)]
async fn a_worker_leaves_the_job_of_a_newer_definition_to_whoever_has_it() {
    let home = crowd(3).await;
    let lease = lease(&home).await;
    let task = |definition| JobTask::View { name: "limits".to_owned(), definition };
    jobs::begin(&home.store, &task(3), home.clock.wall()).await.unwrap();
    let worker = worker(&home, Arc::new(home.store.clone()), &lease, 1_000);
    assert_eq!(worker.round().await, Ok(0));
    assert_eq!(jobs::list(&home.store).await.unwrap().len(), 1);
    home.store.tamper(Table::Mapping, &crate::engine::ItemKey::new("job", "view#limits"), None);
    jobs::begin(&home.store, &task(2), home.clock.wall()).await.unwrap();
    while worker.round().await.unwrap() > 0 {}
    assert!(jobs::list(&home.store).await.unwrap().is_empty());
}

/// One of them only believes that it has the lease. Their steps mix in whatever order the engine's
/// slowness gives.
#[tokio::test(start_paused = true)]
async fn two_processes_that_map_the_same_changes_at_once_agree_in_the_end() {
    for seed in 0..40 {
        fastrand::seed(seed);
        let (home, faults) = (Home::new(), Faults::default());
        faults.set(FaultRates {
            is_slow: 0.7,
            slowness: Duration::from_millis(40),
            fails: 0.02,
            loses_answers: 0.02,
            ..FaultRates::default()
        });
        let process = || {
            let store = Arc::new(Faulty::new(home.store.clone(), faults.clone()));
            Triggers::new(home.mapper_on(store), views(LIMITS))
        };
        let (one, other) = (process(), process());
        let mut deliveries = Vec::new();
        for version in 1..60 {
            let at = Duration::from_millis(30 * version);
            let (record_type, key, body) = match fastrand::u8(..3) {
                0 => ("shard", format!("s{}", fastrand::u8(..3)), format!(r#"{{"host":"h{version}"}}"#)),
                _ => {
                    let body = format!(r#"{{"users":{},"shard":"s{}"}}"#, fastrand::u8(..2), fastrand::u8(..3));
                    ("tenant", format!("t{}", fastrand::u8(..3)), body)
                }
            };
            let body = (fastrand::u8(..6) > 0).then_some(body);
            let (home, one, other) = (&home, &one, &other);
            deliveries.push(async move {
                tokio::time::sleep(at).await;
                let change = home.put(record_type, &key, version, body.as_deref()).await;
                let deliver = async |process: &Triggers, most: u64| {
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(..most))).await;
                    while process.apply(change.clone()).await.is_err() {}
                };
                // Only one of them gets everything.
                futures_util::future::join(deliver(one, 300), async {
                    if fastrand::bool() {
                        deliver(other, 900).await;
                    }
                })
                .await;
            });
        }
        futures_util::future::join_all(deliveries).await;
        home.assert_right_but_for_references(LIMITS, &format!("seed {seed}")).await;
        assert!(home.partitions("failure#").is_empty());
    }
}
