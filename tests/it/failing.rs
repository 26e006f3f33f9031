//! Regions that fail, one test per way: what the caller gets, and how many attempts it cost.
//!
//! Time is the stage's: what lies an hour ahead is reached by suspending its clock.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use nearside::fill::limits::ERROR_MEMORY;
use nearside::http::limits::REPLY_BODY_BYTES;
use nearside::race::limits::{HEDGE_WAIT, OUTLIER_FAILURES, PROBE_WAIT};
use nearside_lab::chaos_server::chaos::{Latency, Mode};
use nearside_lab::chaos_server::reply::ScriptedReply;

use super::stage::{Answer, Stage, until};

const PATH: &str = "/v1/contexts/tenant-1";
const HOUR: Duration = Duration::from_secs(3600);
const REGIONS: [&str; 3] = ["eu-west-1", "us-east-1", "ap-southeast-2"];
/// Ways in which a region gives nothing that is worth anything.
const WORTHLESS: [Mode; 7] = [
    Mode::Off,
    Mode::Garbage,
    Mode::Truncate,
    Mode::Endless,
    Mode::Drip,
    Mode::Silent,
    Mode::Status(StatusCode::INTERNAL_SERVER_ERROR),
];

fn path(key: usize) -> String {
    format!("/v1/contexts/tenant-{key}")
}

/// A reply for [`crate::world::World`]'s regions.
fn reply(status: u16, headers: &[(header::HeaderName, &str)], body: impl Into<Bytes>) -> ScriptedReply {
    let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect();
    ScriptedReply { status: StatusCode::from_u16(status).unwrap(), headers, body: body.into(), version: None }
}

/// Every region answers [`PATH`] so.
fn script_all(stage: &Stage, reply: &ScriptedReply) {
    assert!(stage.world.regions.iter().all(|region| region.script(PATH, Some(reply.clone()))));
}

/// Our own words, with what became of each region.
fn assert_is_a_problem_that_names_every_region(answer: &Answer) {
    assert_eq!(answer.header("content-type"), "application/problem+json", "{answer:?}");
    let document = answer.json();
    assert_eq!(document["type"], "urn:nearside:problem:no-region-answered");
    assert_eq!(document["status"], answer.status);
    let regions = document["regions"].as_array().unwrap();
    for name in REGIONS {
        let attempt =
            regions.iter().find(|attempt| attempt["region"] == name).unwrap_or_else(|| panic!("{name}: {document}"));
        assert!(attempt["outcome"].as_str().is_some_and(|word| !word.is_empty()), "{document}");
    }
}

#[tokio::test]
async fn unusable_reply_never_wins_race() {
    let stage = Stage::quiet()
        .world(|world| world.latency(Latency::millis(20, 0)).region(0, Latency::millis(0, 0), Duration::ZERO))
        .start()
        .await;
    for (key, mode) in (1..).zip(WORTHLESS) {
        stage.set(0, mode).await;
        let answer = stage.get(&path(key)).await;
        assert_eq!((answer.status, answer.version()), (200, Some(1)), "{mode:?}");
        assert_eq!(answer.json()["key"], format!("tenant-{key}"), "{mode:?}");
        assert_ne!(answer.parameter("detail"), Some(REGIONS[0]), "{mode:?}");
        assert_eq!(stage.get(&path(key)).await.body, answer.body, "{mode:?}: what was kept is what was served");
    }
}

#[tokio::test]
async fn unusable_replies_never_exceed_deadline() {
    for mode in WORTHLESS {
        let stage = Stage::quiet().set("race.deadline", r#""300ms""#).start().await;
        stage.set_all(mode).await;
        let asked = stage.clock.now();
        let answer = stage.get(PATH).await;
        // Any of them would hold the caller for 8 s at the least, and most of them for ever.
        assert!(stage.clock.now() - asked < Duration::from_secs(5), "{mode:?}");
        if mode != Mode::Status(StatusCode::INTERNAL_SERVER_ERROR) {
            assert!(matches!(answer.status, 502 | 504), "{mode:?}: {}", answer.status);
            assert_is_a_problem_that_names_every_region(&answer);
        }
    }
}

#[tokio::test]
async fn a_dead_region_fails_no_request() {
    let stage = Stage::quiet().start().await;
    stage.set(0, Mode::Off).await;
    for key in 1..=20 {
        let answer = stage.get(&path(key)).await;
        assert_eq!((answer.status, answer.version()), (200, Some(1)));
    }
}

#[tokio::test]
async fn full_outage_serves_stale_until_limit() {
    let stage = Stage::quiet().start().await;
    let stored = stage.get(PATH).await;
    stage.idle().await;
    stage.set_all(Mode::Off).await;
    stage.clock.suspend(2 * HOUR);
    let stale = stage.get(PATH).await;
    assert_eq!((stale.status, &stale.body), (200, &stored.body));
    assert_eq!((stale.parameter("detail"), stale.parameter("hit")), (Some("stale-if-error"), Some("")));
    assert!(stale.header("age").parse::<u64>().unwrap() >= 7200, "{}", stale.header("age"));
    stage.clock.suspend(24 * HOUR);
    let gone = stage.get(PATH).await;
    assert_eq!(gone.status, 502, "stale_if_error is over");
    assert_is_a_problem_that_names_every_region(&gone);
}

#[tokio::test]
async fn full_outage_problem_names_each_region() {
    let stage = Stage::quiet().start().await;
    stage.set_all(Mode::Off).await;
    let answer = stage.get(PATH).await;
    assert_eq!(answer.status, 502);
    assert_is_a_problem_that_names_every_region(&answer);
}

#[tokio::test]
async fn best_error_keeps_its_retry_after() {
    let stage = Stage::quiet().start().await;
    let body = r#"{"title":"being restored"}"#;
    let error = reply(503, &[(header::RETRY_AFTER, "7"), (header::CONTENT_TYPE, "application/json")], body);
    assert!(stage.world.region(1).script(PATH, Some(error)));
    stage.set(0, Mode::Off).await;
    stage.set(2, Mode::Truncate).await;
    let answer = stage.get(PATH).await;
    assert_eq!((answer.status, answer.header("retry-after"), &answer.body[..]), (503, "7", body.as_bytes()));
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!((answer.parameter("fwd-status"), answer.parameter("detail")), (Some("503"), Some(REGIONS[1])));
}

#[tokio::test]
async fn miss_storm_causes_no_race_storm() {
    let stage = Stage::quiet().start().await;
    script_all(&stage, &reply(500, &[], "no"));
    let began = stage.clock.now();
    for _ in 0..10 {
        let burst = (0..20).map(|_| stage.get(PATH));
        let answers = futures_util::future::join_all(burst).await;
        assert!(answers.iter().all(|answer| (answer.status, &answer.body[..]) == (500, b"no")));
    }
    // An error is remembered for a second at first: on a machine that takes longer, one race a
    // second is right.
    let races = 1 + (stage.clock.now() - began).as_secs();
    assert!(
        stage.attempts(PATH).iter().all(|attempts| *attempts <= races),
        "{:?} in {races} s",
        stage.attempts(PATH)
    );
    stage.idle().await;
    let before = stage.attempts_in_all(PATH);
    stage.clock.suspend(ERROR_MEMORY.1);
    stage.get(PATH).await;
    assert!(stage.attempts_in_all(PATH) > before, "and then it is asked again");
}

#[tokio::test]
async fn region_429_retry_after_is_respected() {
    let stage = Stage::quiet().start().await;
    assert!(stage.world.region(0).script(PATH, Some(reply(429, &[(header::RETRY_AFTER, "30")], "slower"))));
    let answer = stage.get(PATH).await;
    assert_eq!(answer.status, 200, "the others answer");
    stage.idle().await;
    assert_eq!(stage.attempts(PATH), [1, 1, 1]);
    for key in 2..12 {
        assert_eq!(stage.get(&path(key)).await.status, 200);
        stage.idle().await;
        assert_eq!(stage.attempts(&path(key)), [0, 1, 1]);
    }
    stage.clock.suspend(Duration::from_secs(31));
    assert_eq!(stage.get(&path(12)).await.status, 200);
    stage.idle().await;
    assert_eq!(stage.attempts(&path(12)), [1, 1, 1]);
}

#[tokio::test]
async fn last_region_is_asked_despite_429() {
    let stage = Stage::quiet().world(|world| world.regions(1)).start().await;
    assert!(stage.world.region(0).script(PATH, Some(reply(429, &[(header::RETRY_AFTER, "30")], "slower"))));
    let refused = stage.get(PATH).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "30"));
    assert_eq!(stage.get(&path(2)).await.status, 200);
}

#[tokio::test]
async fn outlier_is_skipped_probed_and_restored() {
    let stage = Stage::quiet().start().await;
    stage.set(0, Mode::Status(StatusCode::INTERNAL_SERVER_ERROR)).await;
    let began = stage.clock.now();
    let mut attempts = 0;
    for key in 1..=50 {
        assert_eq!(stage.get(&path(key)).await.status, 200);
        stage.idle().await;
        attempts += stage.attempts(&path(key))[0];
    }
    let probes = (stage.clock.now() - began).div_duration_f64(PROBE_WAIT.0) as u64;
    assert!(attempts >= u64::from(OUTLIER_FAILURES), "{attempts}");
    assert!(attempts <= u64::from(OUTLIER_FAILURES) + probes, "{attempts} attempts, at most {probes} of them probes");
    stage.set(0, Mode::Healthy).await;
    stage.clock.suspend(PROBE_WAIT.1);
    for key in [51, 52] {
        stage.get(&path(key)).await;
        stage.idle().await;
        assert_eq!(stage.attempts(&path(key)), [1, 1, 1], "a probe, and then as before");
    }
}

#[tokio::test]
async fn a_race_asks_all_regions_or_the_primary_as_its_mode_says() {
    for (mode, at_once) in [("all", 3), ("hedge", 1)] {
        let stage = Stage::quiet().set("race.mode", &format!("{mode:?}")).set("race.primary", r#""us-east-1""#);
        let stage = stage.start().await;
        let asked = stage.clock.now();
        let answer = stage.get(PATH).await;
        let quick = stage.clock.now() - asked < HEDGE_WAIT;
        stage.idle().await;
        let attempts = stage.attempts(PATH);
        assert_eq!((answer.status, attempts[1]), (200, 1), "{mode}: the primary is asked");
        // On a machine that stalls for longer than the others' turn takes to come, they are asked
        // rightly.
        assert!(attempts.iter().sum::<u64>() == at_once || !quick, "{mode}: {attempts:?}");
        assert!(attempts.iter().all(|attempts| *attempts <= 1), "{mode}: {attempts:?}");
    }
}

#[tokio::test]
async fn late_primary_is_joined_by_others() {
    let stage = Stage::quiet().set("race.mode", r#""hedge""#).start().await;
    stage.set(0, Mode::Silent).await;
    assert_eq!(stage.get(PATH).await.status, 200);
    assert_eq!(stage.attempts(PATH)[0], 1);
}

#[tokio::test]
async fn oversized_body_streams_without_being_stored() {
    let stage = Stage::quiet().set("race.deadline", r#""5s""#).start().await;
    let body = vec![b'x'; REPLY_BODY_BYTES + 1];
    script_all(&stage, &reply(200, &[(header::CONTENT_TYPE, "text/plain")], body.clone()));
    for _ in 0..2 {
        let before = stage.attempts_in_all(PATH);
        let answer = stage.get(PATH).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, "text/plain"));
        assert!(answer.body == body, "{} bytes", answer.body.len());
        assert_eq!(answer.parameter("hit"), None);
        stage.idle().await;
        assert!(stage.attempts_in_all(PATH) > before, "nothing was stored");
    }
    assert_eq!(stage.get(&path(2)).await.status, 200);
    until("streams to end", || stage.app.sidecar.fill.regions.status().iter().all(|region| region.in_flight == 0))
        .await;
}
