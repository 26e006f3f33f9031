//! Many readers of one cold key: one leg per region, one reply for all, whoever hangs up meanwhile.

use std::sync::Arc;

use nearside::tasks::Tasks;

use super::stage::{Builder, Stage, in_time, until};

const READERS: usize = 1000;
const KEY: &str = "tenant-1";
const PATH: &str = "/v1/contexts/tenant-1";

/// The regions hold their replies for as long as the test takes to arrange its callers.
fn patient() -> Builder {
    Stage::quiet().set("race.deadline", r#""30s""#).set("drain.deadline", r#""30s""#)
}

/// Callers that share one HTTP/2 connection.
fn h2() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().tls_certs_only([]).http2_prior_knowledge().build().unwrap()
}

/// Resolves once `readers` readers wait for what they asked of `KEY`.
///
/// What a waiting reader asks for holds the record's cell, besides freshness itself and the look
/// taken here.
async fn admitted(stage: &Stage, readers: usize) {
    let id = stage.app.sidecar.keyring.record("context", KEY).expect("a route names the type");
    let cell = stage.app.sidecar.freshness.pin(id);
    until("every reader to be admitted", || Arc::strong_count(&cell) >= readers + 2).await;
}

#[tokio::test]
async fn a_thousand_readers_of_a_cold_key_send_one_leg_to_each_region_and_get_the_same_reply() {
    let stage = Arc::new(patient().start().await);
    let held = stage.world.hold().await;
    let tasks = Tasks::new();
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let stage = stage.clone();
            tasks.spawn("reader", async move { stage.get(PATH).await })
        })
        .collect();
    admitted(&stage, READERS).await;
    in_time("the regions to hold 1", held.until(1)).await;
    held.release();
    let mut answers = Vec::new();
    for reader in readers {
        answers.push(reader.await.unwrap().expect("nobody stops it"));
    }
    stage.idle().await;
    assert_eq!(stage.legs(PATH), [1, 1, 1]);
    assert_eq!(answers.len(), READERS);
    for answer in &answers {
        assert_eq!((answer.status, &answer.body), (200, &answers[0].body));
    }
    let joined = answers.iter().filter(|answer| answer.parameter("collapsed").is_some()).count();
    assert_eq!(joined, READERS - 1, "all were admitted before there was a reply");
    assert_eq!(stage.app.sidecar.fills.under_way(), 0);
}

#[tokio::test]
async fn callers_who_hang_up_in_the_middle_cancel_nothing_that_others_wait_for() {
    let stage = Arc::new(patient().start().await);
    let held = stage.world.hold().await;
    let tasks = Tasks::new();
    let http = h2();
    let read = || {
        let (stage, request) = (stage.clone(), http.get(stage.url(PATH)));
        tasks.spawn("reader", async move { stage.send(request).await })
    };
    let first = read();
    in_time("the regions to hold 1", held.until(1)).await;
    let others: Vec<_> = (0..20).map(|_| read()).collect();
    admitted(&stage, 21).await;
    first.abort();
    others[..10].iter().for_each(tokio::task::JoinHandle::abort);
    // Over HTTP/2 the sidecar sees at once that a caller went; over HTTP/1.1 it may have shut down
    // its sending side only.
    let streams = || stage.app.sidecar.tasks.running().get("stream").copied().unwrap_or(0);
    until("the sidecar to see eleven callers go", || streams() == 10).await;
    held.release();
    for reader in others.into_iter().skip(10) {
        assert_eq!(reader.await.unwrap().unwrap().status, 200);
    }
    stage.idle().await;
    assert_eq!(stage.legs(PATH), [1, 1, 1]);
}

#[tokio::test]
async fn a_fill_that_everybody_left_still_fills() {
    let stage = patient().start().await;
    let held = stage.world.hold().await;
    let reading = h2().get(stage.url(PATH)).send();
    tokio::select! {
        _ = reading => panic!("the regions hold their replies"),
        () = in_time("the regions to hold it", held.until(1)) => {}
    }
    until("the sidecar to see the caller go", || !stage.app.sidecar.tasks.running().contains_key("stream")).await;
    held.release();
    stage.idle().await;
    let next = stage.get(PATH).await;
    assert_eq!((next.status, next.parameter("hit")), (200, Some("")));
    assert_eq!(stage.legs(PATH), [1, 1, 1]);
}
