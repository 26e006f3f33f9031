//! A version 5 that was announced, and a lagging region that answers version 4 first: 4 is never
//! served as fresh, whenever the announcement comes.

use std::sync::Arc;
use std::time::Duration;

use nearside::fill::effects::apply_actions;
use nearside::model::ids::{RecordId, RegionId, Version};
use nearside::protocol::event::{Event, Says};
use nearside::tasks::Tasks;
use nearside::telemetry::metrics::races::AttemptOutcome;
use nearside_lab::chaos_server::chaos::{ChaosOrder, Latency, Mode};
use tokio::task::JoinHandle;

use super::stage::{Answer, Builder, Stage, in_time, until};

const KEY: &str = "tenant-1";
const PATH: &str = "/v1/contexts/tenant-1";
const ANNOUNCER: usize = 0;
const LAGGARDS: [usize; 2] = [1, 2];
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// All regions LIVE and at version 4; from now on the laggards ingest nothing more.
async fn at_version_4(builder: Builder) -> Stage {
    let stage = builder.start().await;
    stage.live().await;
    while put(&stage) < 4 {}
    in_time("all regions to ingest", stage.world.ingested()).await;
    floor(&stage, 4).await;
    for laggard in LAGGARDS {
        let region = stage.world.region(laggard);
        region.turn(|knobs| knobs.lag = NEVER).await;
    }
    stage
}

/// A change; its version.
fn put(stage: &Stage) -> u64 {
    stage.world.catalogue.put(KEY, "{}").unwrap()
}

fn record(stage: &Stage) -> RecordId {
    stage.app.sidecar.fill.shared.keyed_hashes.record("context", KEY).expect("a route names the type")
}

/// Resolves once the sidecar has received `version`.
async fn floor(stage: &Stage, version: u64) {
    let cell = stage.app.sidecar.fill.shared.freshness.pin(record(stage));
    until("the announcement to be applied", || cell.snapshot().floor >= Version(version)).await;
}

/// Version 5 in the announcer alone, announced over its topic and applied.
async fn announced(stage: &Stage) {
    assert_eq!(put(stage), 5);
    floor(stage, 5).await;
}

/// Version 5 in the announcer alone, unannounced.
async fn unannounced(stage: &Stage) {
    assert!(stage.world.obey("eu-west-1", ChaosOrder::Mute(true)).await);
    assert_eq!(put(stage), 5);
    until("the announcer to ingest", || {
        stage.world.region(ANNOUNCER).read(KEY).is_some_and(|stored| stored.version == 5)
    })
    .await;
}

/// The announcement, at this very moment.
fn announce(stage: &Stage) {
    let sidecar = &stage.app.sidecar;
    let (now, wall) = (stage.clock.now(), stage.clock.wall());
    let says = Says::Changed(record(stage), Some(Version(5)));
    let region = RegionId(ANNOUNCER as u8);
    let event = Event::Message { region, published: wall, queued: None, numbered: None, says };
    apply_actions(&sidecar.fill, sidecar.fill.shared.freshness.step(now, wall, event));
}

/// Asserts that an answer below 5 says so.
fn assert_not_4_as_fresh(answer: &Answer) {
    assert_eq!(answer.status, 200);
    let labelled = answer.parameter("detail") == Some("below-floor");
    assert!(answer.version() == Some(5) || labelled, "{:?} {}", answer.version(), answer.label());
    assert_eq!(answer.json()["version"], answer.version().unwrap(), "the body is that version's");
}

/// With nothing in the way any more, 5 is what there is.
async fn assert_5_from_now_on(stage: &Stage) {
    stage.idle().await;
    for _ in 0..3 {
        let answer = stage.get(PATH).await;
        assert_eq!(answer.version(), Some(5), "{}", answer.label());
    }
}

/// The announcer takes its time; the laggards answer at once.
fn slow_announcer() -> Builder {
    Stage::builder().world(|world| world.region(ANNOUNCER, Latency::millis(50, 0), Duration::ZERO))
}

#[tokio::test]
async fn lagging_region_never_wins_after_announcement() {
    let stage = at_version_4(slow_announcer()).await;
    announced(&stage).await;
    let answer = stage.get(PATH).await;
    assert_not_4_as_fresh(&answer);
    assert_eq!(stage.attempts(PATH), [1, 1, 1]);
    assert_5_from_now_on(&stage).await;
}

#[tokio::test]
async fn stored_reply_ends_at_newer_announcement() {
    let stage = at_version_4(slow_announcer()).await;
    let before = stage.get(PATH).await;
    stage.idle().await;
    let hit = stage.get(PATH).await;
    assert_eq!((before.version(), hit.version(), hit.parameter("hit")), (Some(4), Some(4), Some("")));
    announced(&stage).await;
    assert_not_4_as_fresh(&stage.get(PATH).await);
    assert_5_from_now_on(&stage).await;
}

#[tokio::test]
async fn lagging_region_loses_fill_during_announcement() {
    let stage = Arc::new(at_version_4(Stage::builder()).await);
    unannounced(&stage).await;
    let held = stage.world.hold().await;
    let tasks = Tasks::new();
    let reader = {
        let stage = stage.clone();
        tasks.spawn("reader", async move { stage.get(PATH).await })
    };
    in_time("the regions to hold 1", held.until(1)).await;
    announce(&stage);
    for laggard in LAGGARDS {
        stage.world.region(laggard).release();
        until("the laggard's attempt to be judged", || {
            stage.app.sidecar.fill.shared.metrics.races.attempts(RegionId(laggard as u8), AttemptOutcome::TooOld) == 1
        })
        .await;
    }
    held.release();
    let answer = reader.await.unwrap().unwrap();
    assert_not_4_as_fresh(&answer);
    assert_5_from_now_on(&stage).await;
}

fn reader(tasks: &Tasks, stage: &Arc<Stage>) -> JoinHandle<Option<Answer>> {
    let stage = stage.clone();
    tasks.spawn("reader", async move { stage.get(PATH).await })
}

#[tokio::test]
async fn late_reader_never_joins_older_fill() {
    let stage = Arc::new(at_version_4(Stage::builder()).await);
    // Every attempt of the first fill arrives while all regions still have 4.
    let held = stage.world.hold().await;
    let tasks = Tasks::new();
    let early = reader(&tasks, &stage);
    in_time("the regions to hold 1", held.until(1)).await;
    announced(&stage).await;
    let late = reader(&tasks, &stage);
    in_time("the regions to hold 2", held.until(2)).await;
    held.release();
    let (early, late) = (early.await.unwrap().unwrap(), late.await.unwrap().unwrap());
    assert_not_4_as_fresh(&early);
    assert_not_4_as_fresh(&late);
    assert_eq!(late.parameter("collapsed"), None);
    assert!(stage.attempts(PATH).iter().all(|attempts| *attempts >= 2), "{:?}", stage.attempts(PATH));
    assert_5_from_now_on(&stage).await;
}

#[tokio::test]
async fn lagging_fill_ends_at_later_announcement() {
    let stage = at_version_4(Stage::builder()).await;
    unannounced(&stage).await;
    let announcer = stage.world.region(ANNOUNCER);
    announcer.turn(|knobs| knobs.held = true).await;
    let before = stage.get(PATH).await;
    assert_eq!((before.status, before.version()), (200, Some(4)), "nobody has announced 5");
    announce(&stage);
    let (after, ()) = tokio::join!(stage.get(PATH), async {
        in_time("the announcer to be asked", announcer.until_held(2)).await;
        announcer.release();
    });
    assert_not_4_as_fresh(&after);
    assert_5_from_now_on(&stage).await;
}

#[tokio::test]
async fn dead_announcer_leaves_nothing_falsely_fresh() {
    let stage = at_version_4(Stage::builder()).await;
    assert_eq!(stage.get(PATH).await.version(), Some(4), "a stored reply changes nothing");
    stage.idle().await;
    unannounced(&stage).await;
    stage.set(ANNOUNCER, Mode::Off).await;
    announce(&stage);
    for _ in 0..3 {
        let answer = stage.get(PATH).await;
        assert_eq!((answer.status, answer.version()), (200, Some(4)), "there is nothing better");
        assert_eq!(answer.parameter("detail"), Some("below-floor"), "{}", answer.label());
        assert_eq!(answer.parameter("hit"), None, "what is below the floor is not stored");
    }
    stage.world.region(LAGGARDS[0]).turn(|knobs| knobs.lag = Duration::ZERO).await;
    until("a laggard to catch up", || {
        stage.world.region(LAGGARDS[0]).read(KEY).is_some_and(|stored| stored.version == 5)
    })
    .await;
    assert_5_from_now_on(&stage).await;
}

#[tokio::test]
async fn strict_mode_answers_504_over_stale() {
    let stage = at_version_4(Stage::builder().set("freshness.strict", "true")).await;
    assert_eq!(stage.get(PATH).await.version(), Some(4), "a stored reply changes nothing");
    stage.idle().await;
    unannounced(&stage).await;
    stage.set(ANNOUNCER, Mode::Off).await;
    announce(&stage);
    let answer = stage.get(PATH).await;
    let kind = answer.header("content-type");
    assert_eq!((answer.status, kind), (504, "application/problem+json"), "{:?} {}", answer.version(), answer.label());
    assert_eq!(answer.json()["type"], "urn:nearside:problem:below-floor");
}
