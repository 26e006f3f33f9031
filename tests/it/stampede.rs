//! Many readers of one cold key: one attempt per region, one reply for all, though some hang up
//! meanwhile.

use std::sync::Arc;

use nearside::tasks::Tasks;
use tokio::task::JoinHandle;

use super::stage::{Answer, Builder, Stage, in_time, until};

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
    let id = stage.app.sidecar.fill.shared.keyed_hashes.record("context", KEY).expect("a route names the type");
    let cell = stage.app.sidecar.fill.shared.freshness.pin(id);
    until("every reader to be admitted", || Arc::strong_count(&cell) >= readers + 2).await;
}

#[tokio::test]
async fn thousand_cold_readers_share_one_attempt() {
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
    assert_eq!(stage.attempts(PATH), [1, 1, 1]);
    assert_eq!(answers.len(), READERS);
    for answer in &answers {
        assert_eq!((answer.status, &answer.body), (200, &answers[0].body));
    }
    let joined = answers.iter().filter(|answer| answer.parameter("collapsed").is_some()).count();
    assert_eq!(joined, READERS - 1, "all were admitted before there was a reply");
    assert_eq!(stage.app.sidecar.fill.shared.fills.under_way(), 0);
}

fn reader(tasks: &Tasks, stage: &Arc<Stage>, http: &reqwest::Client) -> JoinHandle<Option<Answer>> {
    let (stage, request) = (stage.clone(), http.get(stage.url(PATH)));
    tasks.spawn("reader", async move { stage.send(request).await })
}

#[tokio::test]
async fn hang_ups_never_cancel_shared_fill() {
    let stage = Arc::new(patient().start().await);
    let held = stage.world.hold().await;
    let tasks = Tasks::new();
    let http = h2();
    let first = reader(&tasks, &stage, &http);
    in_time("the regions to hold 1", held.until(1)).await;
    let others: Vec<_> = (0..20).map(|_| reader(&tasks, &stage, &http)).collect();
    admitted(&stage, 21).await;
    first.abort();
    others[..10].iter().for_each(JoinHandle::abort);
    // Over HTTP/2 the sidecar sees at once that a caller went; over HTTP/1.1 it may have shut down
    // its sending side only.
    let running = &stage.app.sidecar.fill.shared.tasks;
    until("the sidecar to see eleven callers go", || running.running().get("stream") == Some(&10)).await;
    held.release();
    for reader in others.into_iter().skip(10) {
        assert_eq!(reader.await.unwrap().unwrap().status, 200);
    }
    stage.idle().await;
    assert_eq!(stage.attempts(PATH), [1, 1, 1]);
}

#[tokio::test]
async fn abandoned_fill_still_fills_store() {
    let stage = patient().start().await;
    let held = stage.world.hold().await;
    let reading = h2().get(stage.url(PATH)).send();
    tokio::select! {
        _ = reading => panic!("the regions hold their replies"),
        () = in_time("the regions to hold it", held.until(1)) => {}
    }
    until("the sidecar to see the caller go", || {
        !stage.app.sidecar.fill.shared.tasks.running().contains_key("stream")
    })
    .await;
    held.release();
    stage.idle().await;
    let next = stage.get(PATH).await;
    assert_eq!((next.status, next.parameter("hit")), (200, Some("")));
    assert_eq!(stage.attempts(PATH), [1, 1, 1]);
}
