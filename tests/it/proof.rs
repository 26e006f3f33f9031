//! Proof of a region's topic: the first minute, weak proof, heartbeats; and what is remembered of
//! it.

use std::path::Path;
use std::time::Duration;

use nearside::model::time::Clock;
use nearside::protocol::event::{Grade, SubscriptionState};
use nearside::sidecar::announcements::heartbeat::Heartbeat;

use super::announced::{Announced, NOTHING, Wish, changed, until};
use super::emulator::Emulator;

/// Effects the first minute, in which a subscription alone proves nothing.
const BEYOND: Duration = Duration::from_secs(61);

/// Says on a region's topic what `nearside heartbeat` would.
async fn beat(announced: &Announced, region: usize) {
    let topic = announced.topics[region].clone();
    Heartbeat::new(&Emulator::shared().sdk(), topic, Clock::System).await.publish().await.unwrap();
}

/// A sidecar more than a minute after it subscribed. Its clocks have run ahead of everybody else's,
/// so that messages seem a minute old when they come, and prove nothing by themselves.
async fn a_minute_later(wish: Wish) -> Announced {
    let clock = Clock::simulated(Clock::System.wall());
    let announced = Announced::subscribed(Wish { clock: clock.clone(), ..wish }).await;
    clock.suspend(BEYOND);
    announced
}

/// Both halves of weak proof come in: a poll all of whose messages were applied, then a sound look
/// at the attributes.
async fn prove_weakly(announced: &Announced, region: usize) {
    // When the second is there, the poll that brought the first one has ended.
    for _ in 0..2 {
        let before = announced.counted("unrouted").await;
        announced.publish(region, NOTHING).await;
        announced.until_counted("unrouted", before + 1).await;
    }
    let attested = announced.status(region).attested;
    until("a look at the attributes", async || announced.status(region).attested > attested).await;
}

#[tokio::test]
async fn topics_without_heartbeats_work_at_once() {
    let announced = Announced::subscribed(Wish::over("sqs", "first-minute")).await;
    let (state, reasons) = announced.ready().await;
    assert_eq!(state, "warming", "{reasons}");
    assert_eq!(announced.region_view(0).state, SubscriptionState::Probing);
    announced.put("x", 1);
    assert_eq!(announced.read("x").await.version, 1);
    let seen = announced.read("x").await;
    assert!(seen.is_hit() && seen.label.contains("detail=provisional"), "soft TTL: {seen:?}");
    announced.put("x", 2);
    announced.publish(0, &changed("x", 2)).await;
    until("an announced change is seen", async || announced.read("x").await.version == 2).await;
    announced.stop().await;
}

#[tokio::test]
async fn weak_proof_suffices_after_a_minute() {
    let announced = a_minute_later(Wish::over("sqs", "weak")).await;
    assert_eq!(announced.ready().await.0, "warming");
    prove_weakly(&announced, 1).await;
    assert_eq!(announced.region_view(1).state, SubscriptionState::Live);
    assert_eq!(announced.region_view(1).grade, Grade::Weak);
    // A lease holds. What proved it is announced under a type that no route names.
    assert_eq!(announced.ready().await.0, "doubtful");
    announced.put("x", 1);
    announced.read("x").await;
    // The reader has its answer before the slowest region has said the same.
    until("all agree, one is live", async || {
        let seen = announced.read("x").await;
        assert!(seen.is_hit(), "{seen:?}");
        !seen.label.contains("detail=")
    })
    .await;
    announced.stop().await;
}

#[tokio::test]
async fn weak_proof_fails_where_heartbeats_required() {
    let required = Wish { freshness: "heartbeats = \"required\"".to_owned(), ..Wish::over("sqs", "required") };
    let announced = a_minute_later(required).await;
    prove_weakly(&announced, 1).await;
    assert_eq!(announced.region_view(1).state, SubscriptionState::Probing);
    announced.stop().await;
}

#[tokio::test]
async fn heartbeat_makes_region_live_at_once() {
    let required = Wish { freshness: "heartbeats = \"required\"".to_owned(), ..Wish::over("sqs", "heartbeat-path") };
    let announced = Announced::subscribed(required).await;
    assert_eq!(announced.region_view(2).state, SubscriptionState::Probing);
    beat(&announced, 2).await;
    until("the region is live", async || announced.region_view(2).state == SubscriptionState::Live).await;
    assert_eq!(announced.region_view(2).grade, Grade::Path);
    assert_eq!(announced.ready().await.0, "fresh");
    assert_eq!(announced.counted("heartbeat").await, 1);
    announced.stop().await;
}

fn remembered(file: &Path) -> Wish {
    Wish { freshness: format!("state_file = {file:?}"), ..Wish::over("sqs", "remembered") }
}

#[tokio::test]
async fn heartbeat_regions_are_remembered_across_restart() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("heartbeats");
    let announced = Announced::subscribed(remembered(&file)).await;
    beat(&announced, 0).await;
    let topic = announced.topics[0].arn.clone();
    until("it is written down", async || std::fs::read_to_string(&file).is_ok_and(|text| text.contains(&topic)))
        .await;
    announced.stop().await;

    let announced = a_minute_later(remembered(&file)).await;
    prove_weakly(&announced, 0).await;
    prove_weakly(&announced, 1).await;
    assert_eq!(announced.region_view(0).state, SubscriptionState::Probing, "its silence means something");
    assert_eq!(announced.region_view(1).state, SubscriptionState::Live, "this one never sent any");
    announced.stop().await;
}

/// R9: the proof dates from publication, which by our clock is too long ago; and the operator is
/// informed that it is the clock.
#[tokio::test]
async fn fast_clock_is_named_and_measured() {
    let clock = Clock::simulated(Clock::System.wall() + Duration::from_secs(20));
    let announced = Announced::subscribed(Wish { clock, ..Wish::over("sqs", "skewed") }).await;
    beat(&announced, 2).await;
    announced.until_counted("heartbeat", 1).await;
    assert_eq!(announced.region_view(2).state, SubscriptionState::Probing);
    let (_, reasons) = announced.ready().await;
    let reported = "ap-southeast-2: announcements arrive 20.";
    assert!(reasons.contains(reported) && reasons.contains("this host's clock is ahead"), "{reasons}");
    let metric = "nearside_announcement_lag_seconds{region=\"ap-southeast-2\"} 20.";
    let metrics = announced.page("metrics").await;
    assert!(metrics.contains(metric), "{metrics}");
    announced.stop().await;
}

/// R9: a virtual machine that its host paused, and that found out when its calendar was set right.
#[tokio::test]
async fn uncounted_pause_ages_every_entry() {
    let clock = Clock::simulated(Clock::System.wall());
    let announced = Announced::subscribed(Wish { clock: clock.clone(), ..Wish::over("sqs", "uncounted") }).await;
    beat(&announced, 0).await;
    until("the region is live", async || announced.region_view(0).state == SubscriptionState::Live).await;
    announced.put("x", 1);
    announced.read("x").await;
    until("a confirmed hit", async || {
        let seen = announced.read("x").await;
        seen.is_hit() && !seen.label.contains("detail=")
    })
    .await;
    // Nobody announces it: only its age can tell that it is to be asked for.
    announced.put("x", 2);
    clock.pause(Duration::from_secs(300));
    let made_up = "nearside_uncounted_pauses_seconds_total 300.";
    until("the next tick", async || announced.page("metrics").await.contains(made_up)).await;
    assert_eq!(announced.read("x").await.version, 2, "it is five minutes older");
    assert_ne!(announced.region_view(0).state, SubscriptionState::Live, "and so is the proof");
    let warned = announced.warnings().await;
    assert!(warned.contains("this machine was paused"), "{warned}");
    announced.stop().await;
}
