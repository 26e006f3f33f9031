//! The whole service on a memory engine with every fault that the contract allows.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use super::super::scripted::{Home, LIMITS, views};
use super::*;
use crate::engine::faulty::{FaultRates, Faults, Faulty};
use crate::engine::{FeedBatch, FeedShard, Position, ShardId, Stream};
use crate::tasks::FailingTask;
use crate::tasks::Tasks;
use crate::telemetry::limits::RATIONED_LINES;
use crate::telemetry::scripted::CountedLines;

fn service(home: &Home, text: &str, holder: &str, faults: &Faults) -> ViewsService {
    ViewsService {
        definitions: views(text),
        store: Arc::new(Faulty::new(home.store.clone(), faults.clone())),
        feed: Arc::new(Faulty::new(home.store.feed(Stream::Changes), faults.clone())),
        clock: home.clock.clone(),
        holder: holder.to_owned(),
        views_per_second: 10_000,
        sweep_period: Duration::from_secs(60),
        counters: home.counters.clone(),
        status: Arc::default(),
        progress: Arc::default(),
    }
}

/// Runs it for a while, then kills it.
async fn run_for(service: &ViewsService, seconds: u64) {
    let stopping = CancellationToken::new();
    let ended = tokio::time::timeout(Duration::from_secs(seconds), Box::pin(service.run(&stopping))).await;
    assert!(ended.is_err(), "it serves until it is stopped");
}

async fn write_something(home: &Home, version: u64) {
    let shard = fastrand::u8(..3);
    let body = (fastrand::u8(..4) > 0).then(|| format!(r#"{{"users":{version},"shard":"s{shard}"}}"#));
    home.put("tenant", &format!("t{}", fastrand::u8(..10)), version, body.as_deref()).await;
    let body = (fastrand::u8(..4) > 0).then(|| format!(r#"{{"host":"h{version}"}}"#));
    home.put("shard", &format!("s{shard}"), version, body.as_deref()).await;
}

#[tokio::test(start_paused = true)]
async fn views_are_right_after_engine_faults() {
    for seed in 0..8 {
        fastrand::seed(seed);
        let (home, faults) = (Home::new(), Faults::default());
        for version in 1..20 {
            write_something(&home, version).await;
        }
        faults.set(FaultRates {
            fails: 0.02,
            throttles: 0.02,
            loses_answers: 0.02,
            repeats: 0.2,
            reorders: 0.3,
            splits: 0.3,
            is_slow: 0.2,
            slowness: Duration::from_millis(100),
            ..FaultRates::default()
        });
        for term in 0..4 {
            let service = service(&home, LIMITS, &format!("p{term}"), &faults);
            let writes = async {
                for step in 0..20 {
                    write_something(&home, 100 * (term + 1) + step).await;
                    tokio::time::sleep(Duration::from_secs(2)).await;
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = run_for(&service, 60) => {}
                () = writes => {}
            }
        }
        faults.set(FaultRates::default());
        run_for(&service(&home, LIMITS, "last", &faults), 60).await;
        home.assert_right_but_for_references(LIMITS, &format!("seed {seed}")).await;
        assert!(home.partitions("job").is_empty(), "seed {seed}");
        assert!(home.partitions("failure#").is_empty());
    }
}

/// One window of lines: of the lease, the definitions, the jobs and the feed, whichever a term comes to.
#[tokio::test(start_paused = true)]
async fn failing_store_fills_no_views_log() {
    for (seed, fails) in [(1, 1.0), (2, 0.9), (3, 0.6), (4, 0.3)] {
        fastrand::seed(seed);
        let (home, faults, lines) = (Home::new(), Faults::default(), CountedLines::start());
        home.put("tenant", "acme", 1, Some(r#"{"users":1}"#)).await;
        let service = service(&home, LIMITS, "a", &faults);
        let fail = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            faults.set(FaultRates { fails, ..FaultRates::default() });
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = run_for(&service, RATIONED_LINES.1.as_secs() - 1) => {}
            () = fail => {}
        }
        let (count, said) = lines.most();
        assert!((1..=RATIONED_LINES.0 as usize).contains(&count), "{fails}: {count} of {said:?}");
    }
}

/// A feed that has forgotten whatever is asked of it.
struct TrimmedFeed(Arc<dyn Feed>);

impl Feed for TrimmedFeed {
    fn shards(&self) -> BoxFuture<'_, Result<Vec<FeedShard>, EngineError>> {
        self.0.shards()
    }

    fn open(&self, _: &ShardId, _: Position) -> BoxStream<'static, Result<FeedBatch, EngineError>> {
        let trimmed = EngineError::Trimmed { what: "a shard".to_owned() };
        Box::pin(futures_util::stream::iter([Err(trimmed)]))
    }
}

#[tokio::test(start_paused = true)]
async fn trimmed_feed_fills_no_log() {
    let (home, faults, lines) = (Home::new(), Faults::default(), CountedLines::start());
    let mut service = service(&home, LIMITS, "a", &faults);
    service.feed = Arc::new(TrimmedFeed(service.feed.clone()));
    run_for(&service, RATIONED_LINES.1.as_secs() - 1).await;
    assert_eq!(lines.with("the feed forgot changes"), RATIONED_LINES.0 as usize);
}

#[tokio::test(start_paused = true)]
async fn trimmed_feed_or_raise_maps_everything() {
    let (home, faults) = (Home::new(), Faults::default());
    home.put("tenant", "before", 1, Some(r#"{"users":1}"#)).await;
    home.store.trim(Stream::Changes, 0);
    run_for(&service(&home, LIMITS, "a", &faults), 30).await;
    home.assert_right(LIMITS).await;
    home.put("tenant", "missed", 2, Some(r#"{"users":2}"#)).await;
    home.put("tenant", "last", 3, Some(r#"{"users":3}"#)).await;
    home.store.trim(Stream::Changes, 1);
    run_for(&service(&home, LIMITS, "b", &faults), 60).await;
    home.assert_right(LIMITS).await;
    let raised = LIMITS.replace("definition = 2", "definition = 3").replace("users =", "seats =");
    run_for(&service(&home, &raised, "c", &faults), 60).await;
    home.assert_right(&raised).await;
    assert_eq!(home.view("limits", "missed").await.unwrap().1.unwrap(), r#"{"seats":2}"#);
}

/// The old process serves between two newer ones, and touches nothing; what it does not map is
/// mapped by the next.
#[tokio::test(start_paused = true)]
async fn old_process_between_new_loses_nothing() {
    let (home, faults) = (Home::new(), Faults::default());
    let raised = LIMITS.replace("definition = 2", "definition = 3").replace("users =", "seats =");
    home.put("tenant", "acme", 1, Some(r#"{"users":1}"#)).await;
    run_for(&service(&home, &raised, "new", &faults), 60).await;
    home.put("tenant", "acme", 2, Some(r#"{"users":2}"#)).await;
    let old = service(&home, LIMITS, "old", &faults);
    run_for(&old, 60).await;
    assert_eq!(home.view("limits", "acme").await.unwrap().1.unwrap(), r#"{"seats":1}"#);
    let shown = old.status.get();
    assert!(shown.active.is_empty() && shown.left_alone == ["limits"] && shown.jobs.is_empty());
    run_for(&service(&home, &raised, "new again", &faults), 60).await;
    home.assert_right(&raised).await;
}

/// Somebody else has the lease by then, and the jobs.
#[tokio::test(start_paused = true)]
async fn service_without_lease_reports_no_work() {
    let (home, faults) = (Home::new(), Faults::default());
    home.put("tenant", "acme", 1, Some("[]")).await;
    let (service, stopping) = (service(&home, LIMITS, "a", &faults), CancellationToken::new());
    let stop = async {
        tokio::time::sleep(limits::FAILURES_LOOK * 2).await;
        let state = service.status.get();
        assert!(state.holds_lease && state.active.len() == 1 && state.failures == 1);
        stopping.cancel();
    };
    let (ended, ()) = tokio::join!(service.run(&stopping), stop);
    assert_eq!(ended, Ok(()));
    let state = service.status.get();
    assert!(!state.holds_lease && state.active.is_empty() && state.failures == 0);
    assert_eq!((home.counters.metrics.failures.get(), home.counters.metrics.jobs.get()), (0, 0));
}

/// A feed whose first reading panics.
struct PanickingFeed(Arc<dyn Feed>, AtomicBool);

impl Feed for PanickingFeed {
    fn shards(&self) -> BoxFuture<'_, Result<Vec<FeedShard>, EngineError>> {
        self.0.shards()
    }

    fn open(&self, shard: &ShardId, from: Position) -> BoxStream<'static, Result<FeedBatch, EngineError>> {
        assert!(self.1.swap(true, Ordering::Relaxed), "on purpose");
        self.0.open(shard, from)
    }
}

#[tokio::test(start_paused = true)]
async fn panicked_reader_is_counted_and_restarted() {
    let (home, faults) = (Home::new(), Faults::default());
    home.put("tenant", "acme", 1, Some(r#"{"users":1}"#)).await;
    let mut service = service(&home, LIMITS, "a", &faults);
    service.feed = Arc::new(PanickingFeed(service.feed.clone(), AtomicBool::new(false)));
    let (tasks, own) = (Tasks::new(), service.clone());
    let stopping = tasks.stopping();
    tasks.spawn_service("views", move || {
        let (own, stopping) = (own.clone(), stopping.clone());
        async move { own.run(&stopping).await }
    });
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(tasks.failing(), [FailingTask { name: "views", panics: 1 }]);
    assert!(service.status.get().holds_lease, "it gave the lease back, and took it again");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((tasks.failing(), tasks.panics()["views"]), (Vec::new(), 1));
    assert!(tasks.drain(Duration::from_secs(5)).await.is_empty());
    home.assert_right(LIMITS).await;
}

#[tokio::test(start_paused = true)]
async fn changed_definition_under_number_ends_service() {
    let (home, faults) = (Home::new(), Faults::default());
    run_for(&service(&home, LIMITS, "a", &faults), 30).await;
    let changed = service(&home, &LIMITS.replace("users =", "seats ="), "b", &faults);
    let error = changed.run(&CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, AdoptError::Changed { number: 2, .. }));
}

/// G1's last line: what the feed leaves out for ever, the sweep finds.
#[tokio::test(start_paused = true)]
async fn feed_skips_are_still_mapped() {
    for seed in 0..4 {
        fastrand::seed(seed);
        let (home, faults) = (Home::new(), Faults::default());
        run_for(&service(&home, LIMITS, "first", &faults), 30).await;
        faults.set(FaultRates { skips: 0.5, ..FaultRates::default() });
        let writes = async {
            for version in 1..20 {
                write_something(&home, version).await;
                tokio::time::sleep(Duration::from_secs(3)).await;
            }
            std::future::pending::<()>().await;
        };
        let second = service(&home, LIMITS, "second", &faults);
        tokio::select! {
            () = run_for(&second, 600) => {}
            () = writes => {}
        }
        home.assert_right_but_for_references(LIMITS, &format!("seed {seed}")).await;
        assert!(home.counters.metrics.differences() > 0, "something was skipped");
    }
}
