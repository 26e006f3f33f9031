//! Batches of changes, fan-outs and the jobs that they become.

use std::time::Duration;

use super::super::failures;
use super::super::jobs;
use super::super::scripted::{Home, LIMITS, PartlyBad, Plan, PlannedStore, views};
use super::super::stored::StoredNote;
use super::super::worker::{JobWorker, Pace};
use super::*;
use crate::engine::committing::Committing;
use crate::engine::counting::{CallCounts, Counting};
use crate::engine::faulty::{FaultRates, Faults, Faulty};
use crate::engine::lease::Lease;
use crate::engine::limits::FEED_BATCH;
use crate::engine::{Item, Tables};
use crate::views::counters::ReadTable;

fn worker(home: &Home, store: Arc<dyn Tables>, lease: &Arc<Lease>, per_second: u32) -> JobWorker {
    JobWorker {
        triggers: Arc::new(Triggers::new(home.mapper_on(store), views(LIMITS))),
        lease: lease.clone(),
        pace: Pace::new(home.clock.clone(), per_second),
        status: Arc::default(),
    }
}

/// Every view, by this definition.
fn limits_task(definition: u64) -> JobTask {
    JobTask::View { name: "limits".to_owned(), definition }
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
async fn batch_maps_each_record_once() {
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
    assert_eq!(home.counters.metrics.removals.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn small_change_maps_views_at_once() {
    let home = crowd(40).await;
    home.triggers(LIMITS).apply(home.put("shard", "a", 3, Some(r#"{"host":"h2"}"#)).await).await.unwrap();
    home.assert_right(LIMITS).await;
    assert!(home.partitions("job").is_empty());
}

#[tokio::test(start_paused = true)]
async fn five_thousand_view_job_survives_crashes() {
    let home = crowd(5_000).await;
    let lease = home.lease().await;
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
async fn single_changes_overtake_paced_job() {
    let home = crowd(1_200).await;
    let lease = home.lease().await;
    let triggers = home.triggers(LIMITS);
    triggers.apply(home.put("shard", "a", 3, Some(r#"{"host":"h2"}"#)).await).await.unwrap();
    let worker = worker(&home, Arc::new(home.store.clone()), &lease, 100);
    let began = home.clock.now();
    let single = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        triggers.apply(home.put("tenant", "t7", 4, Some(r#"{"users":9,"shard":"a"}"#)).await).await.unwrap();
        assert_eq!(home.view("limits", "t7").await.unwrap().1.unwrap(), r#"{"users":9,"host":"h2"}"#);
        assert_eq!(jobs::list(&home.mapper()).await.unwrap().len(), 1, "the job goes on");
    };
    let job = async { while worker.round().await.unwrap() > 0 {} };
    tokio::join!(single, job);
    let took = home.clock.now().since(began).as_secs();
    assert!((11..=13).contains(&took), "1,200 views at 100 a second: {took} s");
    home.assert_right(LIMITS).await;
}

#[tokio::test(start_paused = true)]
async fn repeated_job_request_adds_one_round() {
    let home = crowd(1_200).await;
    let lease = home.lease().await;
    let triggers = home.triggers(LIMITS);
    let worker = worker(&home, Arc::new(home.store.clone()), &lease, 1_000_000);
    triggers.apply(home.put("shard", "a", 3, Some(r#"{"host":"h2"}"#)).await).await.unwrap();
    for _ in 0..4 {
        worker.round().await.unwrap();
    }
    triggers.apply(home.put("shard", "a", 4, Some(r#"{"host":"h3"}"#)).await).await.unwrap();
    let known = jobs::list(&home.mapper()).await.unwrap();
    assert_eq!(known.len(), 1);
    let status = known[0].status();
    assert!(status.done > 0.0, "it does not begin anew, or it would never end");
    assert_eq!(status.what, "views that need a shard");
    while worker.round().await.unwrap() > 0 {}
    home.assert_right(LIMITS).await;
}

/// The record changes during each page, and each change writes the job anew.
#[tokio::test(start_paused = true)]
async fn fan_out_completes_despite_changing_record() {
    let home = crowd(1_200).await;
    let lease = home.lease().await;
    let triggers = home.triggers(LIMITS);
    let worker = worker(&home, Arc::new(home.store.clone()), &lease, 1_000);
    let hot = async {
        for version in 3..203 {
            let body = format!(r#"{{"host":"h{version}"}}"#);
            triggers.apply(home.put("shard", "a", version, Some(&body)).await).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = hot => {}
        () = worker.work() => {}
    }
    let known = jobs::list(&home.mapper()).await.unwrap();
    assert!(known[0].views > 1_200, "its cursor moves on: {}", known[0].views);
    while worker.round().await.unwrap() > 0 {}
    home.assert_right(LIMITS).await;
}

/// Exhaustive: at every call of its first page a record changes of which no feed will ever say
/// anything, and everything is to be mapped again.
#[tokio::test(start_paused = true)]
async fn full_job_requested_midway_runs_again() {
    let mut interrupted = 0;
    for at in 0.. {
        let home = crowd(3).await;
        let lease = home.lease().await;
        jobs::begin(&home.store, &limits_task(2), home.clock.wall()).await.unwrap();
        let other = home.clone();
        let meanwhile = async move {
            for tenant in ["t0", "t1", "t2"] {
                other.put("tenant", tenant, 9, Some(r#"{"users":9,"shard":"a"}"#)).await;
            }
            jobs::begin(&other.store, &limits_task(2), other.clock.wall()).await.unwrap();
        };
        let plan = Plan::Interrupted(tokio::sync::Mutex::new(Some(meanwhile.boxed())));
        let store = PlannedStore::new(home.store.clone(), at, plan);
        let worker = worker(&home, store.clone(), &lease, 1_000_000);
        worker.round().await.unwrap();
        if !store.was_reached() {
            break;
        }
        interrupted += 1;
        while worker.round().await.unwrap() > 0 {}
        home.assert_right(LIMITS).await;
    }
    assert!(interrupted > 5, "{interrupted}");
}

#[tokio::test(start_paused = true)]
async fn unreadable_job_restarts() {
    let home = crowd(1_001).await;
    let lease = home.lease().await;
    let key = ItemKey::new("job", "input#shard/a");
    home.put("shard", "a", 3, Some(r#"{"host":"h2"}"#)).await;
    // By itself: its key says what it was to do.
    for note in [
        "{",
        r#"{"task":{"view":{"name":"limits","definition":2}},"part":0,"after":null,"again":false,"begun":1,"views":0}"#,
    ] {
        home.spoil(Table::Mapping, key.clone(), note);
        let worker = worker(&home, Arc::new(home.store.clone()), &lease, 1_000_000);
        while worker.round().await.unwrap() > 0 {}
        home.assert_right(LIMITS).await;
        assert!(home.partitions("job").is_empty());
        home.put("shard", "a", 4, Some(r#"{"host":"h3"}"#)).await;
    }
    // Through the next change, whose position in the feed is given up for it.
    home.spoil(Table::Mapping, key.clone(), "{");
    home.triggers(LIMITS).apply(home.put("shard", "a", 5, Some("{}")).await).await.unwrap();
    let item = home.store.get(Table::Mapping, &key).await.unwrap().unwrap();
    assert!(item.version == 8 && item.note.unwrap().contains("shard/a"), "it was replaced");
}

/// One of everything that somebody's hands can leave in the tables.
#[tokio::test(start_paused = true)]
async fn unreadable_item_stops_no_page() {
    let home = crowd(1_001).await;
    let lease = home.lease().await;
    let triggers = home.triggers(LIMITS);
    home.spoil(Table::Mapping, ItemKey::new("job", "a job of another kind"), "{}");
    home.spoil(Table::Mapping, ItemKey::new("reference#shard#0#a", "no view"), "");
    home.spoil(Table::Mapping, ItemKey::new("reference#shard#1#a", format!("limits/{}", "x".repeat(1_000))), "");
    home.spoil(Table::Mapping, StoredNote::key("limits", "t5"), "[");
    home.put("tenant", &"x".repeat(1_020), 3, Some("{}")).await;
    home.put("tenant", "not\u{FFFF}announced", 3, Some("{}")).await;
    home.put("tenant", "broken", 3, Some("{")).await;
    home.spoil(Table::Records, ItemKey::new("tenant#00", "elsewhere"), "");
    let all_views = JobTask::View { name: "limits".to_owned(), definition: 2 };
    jobs::begin(&home.store, &all_views, home.clock.wall()).await.unwrap();
    triggers.apply(home.put("shard", "a", 3, Some(r#"{"host":"h2"}"#)).await).await.unwrap();
    let worker = worker(&home, Arc::new(home.store.clone()), &lease, 1_000_000);
    while worker.round().await.unwrap() > 0 {}
    for at in 0..1_001 {
        let view = home.view("limits", &format!("t{at}")).await.unwrap();
        assert_eq!(view.1.unwrap(), r#"{"users":1,"host":"h2"}"#, "t{at}");
    }
    let failed = failures(&home.store).await.unwrap();
    let mut reasons: Vec<&str> = failed.iter().map(|failure| failure.reason.as_str()).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["bad-key", "main-not-an-object"], "the third has no place in the list either");
    assert!(home.counters.metrics.unreadable(ReadTable::Mapping).get() > 1, "the job and the reference");
    // Nor do they stop the feed.
    for key in [&"x".repeat(1_020), "not\u{FFFF}announced", "broken"] {
        triggers.apply(home.put("tenant", key, 4, Some("{")).await).await.unwrap();
    }
    assert_eq!(home.view("limits", "not\u{FFFF}announced").await, None);
}

#[tokio::test(start_paused = true)]
async fn stuck_job_never_blocks_others() {
    let home = crowd(1_001).await;
    let lease = home.lease().await;
    home.triggers(LIMITS).apply(home.put("shard", "a", 3, Some(r#"{"host":"h2"}"#)).await).await.unwrap();
    let all_views = JobTask::View { name: "limits".to_owned(), definition: 2 };
    jobs::begin(&home.store, &all_views, home.clock.wall()).await.unwrap();
    let store = PartlyBad {
        inner: home.store.clone(),
        error: EngineError::Throttled { what: "a partition".to_owned() },
        is_bad: Box::new(|_, partition| partition.starts_with("reference#shard#0")),
    };
    let worker = worker(&home, Arc::new(store), &lease, 1_000_000);
    while home.partitions("job").len() > 1 {
        worker.round().await.unwrap();
    }
    assert!(worker.round().await.is_err(), "none is left that gets anywhere");
    assert_eq!(home.view("limits", "t0").await.unwrap().1.unwrap(), r#"{"users":1,"host":"h2"}"#);
}

#[tokio::test(start_paused = true)]
async fn worker_without_lease_moves_no_job() {
    let home = crowd(1_001).await;
    let old = home.lease().await;
    old.release().await;
    let _new = home.lease().await;
    home.triggers(LIMITS).apply(home.put("shard", "a", 3, Some("{}")).await).await.unwrap();
    let before = jobs::list(&home.mapper()).await.unwrap();
    worker(&home, Arc::new(home.store.clone()), &old, 1_000_000).round().await.unwrap();
    assert!(jobs::list(&home.mapper()).await.unwrap() == before);
}

#[tokio::test(start_paused = true)]
async fn worker_leaves_newer_definitions_job() {
    let home = crowd(3).await;
    let lease = home.lease().await;
    jobs::begin(&home.store, &limits_task(3), home.clock.wall()).await.unwrap();
    let worker = worker(&home, Arc::new(home.store.clone()), &lease, 1_000);
    assert_eq!(worker.round().await, Ok(0));
    assert_eq!(jobs::list(&home.mapper()).await.unwrap().len(), 1);
    home.store.tamper(Table::Mapping, &crate::engine::ItemKey::new("job", "view#limits"), None);
    jobs::begin(&home.store, &limits_task(2), home.clock.wall()).await.unwrap();
    while worker.round().await.unwrap() > 0 {}
    assert!(jobs::list(&home.mapper()).await.unwrap().is_empty());
}

/// One of them only believes that it has the lease. Their steps mix in whatever order the engine's
/// slowness gives.
#[tokio::test(start_paused = true)]
async fn concurrent_mapping_processes_converge() {
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
        let [one, other] = [faults.clone(), faults].map(|faults| {
            let store = Arc::new(Faulty::new(home.store.clone(), faults));
            Triggers::new(home.mapper_on(store), views(LIMITS))
        });
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
                // Only one of them gets everything.
                futures_util::future::join(deliver(one, &change, 300), async {
                    if fastrand::bool() {
                        deliver(other, &change, 900).await;
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

/// Delivers changes, within so many milliseconds and until they are taken.
async fn deliver(process: &Triggers, changes: &[Change], millis: u64) {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(..millis))).await;
    while process.apply(changes.to_vec()).await.is_err() {}
}

/// Commits of views, each of which writes its reference before itself.
#[tokio::test(start_paused = true)]
async fn five_hundred_views_take_few_commits() {
    let home = Home::new();
    home.put("shard", "a", 1, Some(r#"{"host":"h1"}"#)).await;
    let mut changes = Vec::new();
    for at in 0..FEED_BATCH {
        changes.extend(home.put("tenant", &format!("t{at}"), 2, Some(r#"{"users":1,"shard":"a"}"#)).await);
    }
    let store = Arc::new(Committing::new(home.store.clone()));
    Triggers::new(home.mapper_on(store.clone()), views(LIMITS)).apply(changes).await.unwrap();
    home.assert_right(LIMITS).await;
    assert!(store.commits() <= 4, "{}", store.commits());
}

/// Costs by docs/performance.md: each read and each transaction is a call of AWS.
#[tokio::test(start_paused = true)]
async fn a_changed_view_costs_few_calls() {
    let home = Home::new();
    home.put("shard", "a", 1, Some(r#"{"host":"h1"}"#)).await;
    let counts = CallCounts::default();
    let store = Arc::new(Counting { inner: home.store.clone(), counts: counts.clone() });
    let triggers = Triggers::new(home.mapper_on(store), views(LIMITS));
    let mut calls = Vec::new();
    for users in 1..=2 {
        let body = format!(r#"{{"users":{users},"shard":"a"}}"#);
        let change = home.put("tenant", "t", 1 + users, Some(&body)).await;
        let before = counts.now();
        triggers.apply(change).await.unwrap();
        let made = counts.now().since(before);
        calls.push((made.reads, made.puts + made.region_writes));
    }
    assert_eq!(calls, [(5, 2), (4, 1)], "the first writes its reference too");
}
