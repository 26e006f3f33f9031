//! Tests each knob over a real socket, with a client that knows nothing about it.

use std::time::Duration;

use http::StatusCode;

use super::*;
use crate::lab::world::World;
use crate::lab::world::chaos::Mode;
use crate::model::time::Moment;
use crate::tasks::TaskGroup;

const PATH: &str = "/v1/contexts/tenant-1";

async fn world() -> World {
    World::builder().regions(1).records(3).start().await.unwrap()
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap()
}

/// What a client gets that waits at most `within`: status and body length, or a word for what went
/// wrong.
async fn get(client: &reqwest::Client, region: &WorldRegion, within: Duration) -> Result<(u16, usize), &'static str> {
    let response = client.get(format!("{}{PATH}", region.url())).timeout(within).send().await.map_err(word)?;
    let status = response.status().as_u16();
    response.bytes().await.map_err(word).map(|body| (status, body.len()))
}

fn word(error: reqwest::Error) -> &'static str {
    match () {
        () if error.is_timeout() => "timeout",
        () if error.is_connect() => "connect",
        () if error.is_body() || error.is_decode() => "body",
        () => "request",
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_healthy_region_answers_and_counts() {
    let world = world().await;
    let region = world.region(0);
    let (status, length) = get(&client(), region, 5 * SECOND).await.unwrap();
    assert_eq!((status, length > 20), (200, true));
    assert_eq!((region.traffic.total(), region.traffic.to(PATH)), (1, 1));
    let last = region.traffic.last(PATH, Moment::ZERO).unwrap();
    assert_eq!((last.status, last.version), (StatusCode::OK, Some(1)));
}

#[tokio::test]
async fn a_region_switched_off_refuses_and_resets_what_it_had_until_it_is_back() {
    let world = world().await;
    let region = world.region(0).clone();
    let client = client();
    assert!(get(&client, &region, 5 * SECOND).await.is_ok(), "leaves a kept-alive connection");
    region.set(Mode::Silent).await;
    let mut under_way = TaskGroup::new();
    let (asking, asked) = (client.clone(), region.clone());
    under_way.start(async move { get(&asking, &asked, 20 * SECOND).await });
    while region.traffic.total() < 2 {
        tokio::task::yield_now().await;
    }
    region.set(Mode::Off).await;
    assert_eq!(under_way.next().await.unwrap(), Err("request"), "the request under way is reset");
    assert_eq!(get(&client, &region, 5 * SECOND).await, Err("connect"));
    region.set(Mode::Healthy).await;
    assert!(get(&client, &region, 5 * SECOND).await.is_ok(), "at the same address");
}

#[tokio::test]
async fn a_slow_region_answers_late_and_at_once_when_it_recovers() {
    let world = world().await;
    let region = world.region(0).clone();
    let client = client();
    region.set(Mode::Slow(Duration::from_millis(80))).await;
    let before = world.clock.now();
    assert!(get(&client, &region, 5 * SECOND).await.is_ok());
    assert!(world.clock.now() - before >= Duration::from_millis(80));
    region.set(Mode::Slow(3600 * SECOND)).await;
    let mut under_way = TaskGroup::new();
    let (asking, asked) = (client.clone(), region.clone());
    under_way.start(async move { get(&asking, &asked, 20 * SECOND).await });
    while region.traffic.total() < 2 {
        tokio::task::yield_now().await;
    }
    region.set(Mode::Healthy).await;
    assert!(under_way.next().await.unwrap().is_ok());
}

#[tokio::test]
async fn a_region_told_a_status_answers_with_it_on_the_same_connection() {
    let world = world().await;
    let (region, client) = (world.region(0), client());
    region.set(Mode::Status(StatusCode::SERVICE_UNAVAILABLE)).await;
    assert_eq!(get(&client, region, 5 * SECOND).await.unwrap().0, 503);
    region.set(Mode::Healthy).await;
    assert_eq!(get(&client, region, 5 * SECOND).await.unwrap().0, 200);
}

#[tokio::test]
async fn a_dripping_region_sends_its_head_and_then_a_byte_a_second_until_it_recovers() {
    let world = world().await;
    let region = world.region(0).clone();
    let client = client();
    region.set(Mode::Drip).await;
    let before = world.clock.now();
    let mut response = client.get(format!("{}{PATH}", region.url())).send().await.unwrap();
    assert!(world.clock.now() - before < SECOND / 2, "the head comes at once");
    let announced = response.content_length().unwrap();
    let first = response.chunk().await.unwrap().unwrap();
    assert_eq!(first.len(), 1);
    assert!(world.clock.now() - before >= SECOND);
    region.set(Mode::Healthy).await;
    let rest = response.bytes().await.unwrap();
    assert_eq!(1 + rest.len() as u64, announced);
    assert!(world.clock.now() - before < 5 * SECOND);
}

#[tokio::test]
async fn a_truncating_region_announces_all_and_sends_half() {
    let world = world().await;
    let (region, client) = (world.region(0), client());
    region.set(Mode::Truncate).await;
    let mut response = client.get(format!("{}{PATH}", region.url())).send().await.unwrap();
    let announced = response.content_length().unwrap() as usize;
    let mut sent = 0;
    let ended = loop {
        match response.chunk().await {
            Ok(Some(chunk)) => sent += chunk.len(),
            Ok(None) => break "whole",
            Err(error) => break word(error),
        }
    };
    assert_eq!((ended, sent), ("body", announced / 2));
}

#[tokio::test]
async fn a_garbling_region_sends_what_is_not_http() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let world = world().await;
    let region = world.region(0);
    region.set(Mode::Garbage).await;
    assert_eq!(get(&client(), region, 5 * SECOND).await, Err("request"));
    let mut stream = tokio::net::TcpStream::connect(region.address()).await.unwrap();
    stream.write_all(format!("GET {PATH} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut sent = Vec::new();
    stream.read_to_end(&mut sent).await.unwrap();
    assert!(!sent.is_empty() && !sent.starts_with(b"HTTP/"));
}

#[tokio::test]
async fn an_endless_body_goes_on_beyond_what_anybody_stores() {
    let world = world().await;
    let region = world.region(0);
    region.set(Mode::Endless).await;
    let mut response = client().get(format!("{}{PATH}", region.url())).send().await.unwrap();
    assert_eq!(response.content_length(), None);
    let mut sent = 0;
    while sent <= 1 << 20 {
        sent += response.chunk().await.unwrap().expect("it does not end").len();
    }
}

#[tokio::test]
async fn a_silent_region_takes_the_request_and_never_answers() {
    let world = world().await;
    let region = world.region(0);
    region.set(Mode::Silent).await;
    assert_eq!(get(&client(), region, Duration::from_millis(60)).await, Err("timeout"));
    assert_eq!(region.traffic.total(), 1);
}

#[tokio::test]
async fn held_replies_show_what_was_there_when_the_requests_arrived() {
    let world = world().await;
    let region = world.region(0).clone();
    let held = world.hold().await;
    let mut readers = TaskGroup::new();
    for _ in 0..50 {
        let url = format!("{}{PATH}", region.url());
        let client = client();
        readers.start(async move {
            let response = client.get(url).send().await.unwrap();
            response.headers()["x-record-version"].to_str().unwrap().to_owned()
        });
    }
    held.until(50).await;
    assert_eq!(world.catalogue.put("tenant-1", "7"), Ok(2));
    world.ingested().await;
    held.release();
    while let Some(version) = readers.next().await {
        assert_eq!(version, "1");
    }
    let now = client().get(format!("{}{PATH}", region.url())).send().await.unwrap();
    assert_eq!(now.headers()["x-record-version"], "2");
}

#[tokio::test]
async fn a_region_ingests_in_order_and_only_once_its_lag_has_passed() {
    let world = World::builder().regions(2).records(1).start().await.unwrap();
    world.region(1).turn(|knobs| knobs.lag = 3600 * SECOND).await;
    world.catalogue.put("tenant-1", "1").unwrap();
    world.catalogue.put("tenant-1", "2").unwrap();
    while world.region(0).cursor() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.region(0).read("tenant-1").unwrap().version, 3);
    assert_eq!(world.region(1).read("tenant-1").unwrap().version, 1);
    assert_eq!((world.region(0).publisher.sequence(), world.region(1).publisher.sequence()), (2, 0));
    world.region(1).turn(|knobs| knobs.lag = Duration::ZERO).await;
    world.ingested().await;
    assert_eq!(world.region(1).read("tenant-1").unwrap().version, 3);
    assert_eq!(world.region(1).publisher.sequence(), 2, "each change was announced");
}

#[tokio::test]
async fn writes_reach_the_catalogue_and_bad_ones_are_refused() {
    let world = world().await;
    let (region, client) = (world.region(0), client());
    let url = |key: &str| format!("{}/v1/contexts/{key}", region.url());
    let put =
        async |key: &str, body: &'static str| client.put(url(key)).body(body).send().await.unwrap().status().as_u16();
    assert_eq!(put("new", "{\"a\":1}").await, 200);
    assert_eq!(put("new", "{broken").await, 422);
    assert_eq!(client.delete(url("new")).send().await.unwrap().headers()["x-record-version"], "2");
    assert_eq!(client.post(url("new")).send().await.unwrap().status(), 405);
    assert_eq!(world.catalogue.read("new").unwrap().version, 2);
}

#[tokio::test]
async fn a_scripted_path_answers_so_until_that_ends() {
    let world = world().await;
    let (region, client) = (world.region(0), client());
    assert!(region.script(PATH, Some(reply::problem(StatusCode::UNAUTHORIZED, "who are you"))));
    assert_eq!(get(&client, region, 5 * SECOND).await.unwrap().0, 401);
    assert!(region.script(PATH, None));
    assert_eq!(get(&client, region, 5 * SECOND).await.unwrap().0, 200);
}
