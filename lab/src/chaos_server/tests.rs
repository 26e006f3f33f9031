//! Tests each knob over a real socket, with a client that knows nothing about it.

use std::future::ready;
use std::time::Duration;

use http::StatusCode;
use nearside::model::time::Moment;
use nearside::tasks::TaskGroup;

use super::chaos::Latency;
use super::*;

const PATH: &str = "/v1/contexts/tenant-1";

/// A region that answers every request with the same 200, until it is dropped.
struct Region {
    server: Arc<ChaosServer>,
    clock: Clock,
    tasks: Tasks,
}

impl Region {
    fn start() -> Self {
        let (clock, tasks) = (Clock::System, Tasks::new());
        let knobs = Knobs { mode: Mode::Healthy, latency: Latency::millis(0, 0), lag: Duration::ZERO, held: false };
        let server = Arc::new(ChaosServer::new("eu-west-1".to_owned(), Port::hold(0).unwrap(), clock.clone(), knobs));
        let mut whole = ScriptedReply::json(StatusCode::OK, r#"{"key":"tenant-1","limits":{"users":20}}"#);
        whole.version = Some(1);
        let serving = server.clone().run(server.open().unwrap(), tasks.clone(), move |_| ready(whole.clone()));
        tasks.spawn("region", serving);
        Self { server, clock, tasks }
    }
}

impl std::ops::Deref for Region {
    type Target = ChaosServer;

    fn deref(&self) -> &ChaosServer {
        &self.server
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.tasks.stopping().cancel();
    }
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap()
}

/// Reply to a client that waits at most `within`: status and body length, or a word for what went
/// wrong.
async fn get(client: &reqwest::Client, region: &ChaosServer, within: Duration) -> Result<(u16, usize), &'static str> {
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
    let region = Region::start();
    let (status, length) = get(&client(), &region, 5 * SECOND).await.unwrap();
    assert_eq!((status, length > 20), (200, true));
    assert_eq!((region.traffic.total(), region.traffic.to(PATH)), (1, 1));
    let last = region.traffic.last(PATH, Moment::ZERO).unwrap();
    assert_eq!((last.status, last.version), (StatusCode::OK, Some(1)));
}

#[tokio::test]
async fn disabled_region_refuses_and_resets_connections() {
    let region = Region::start();
    let client = client();
    assert!(get(&client, &region, 5 * SECOND).await.is_ok(), "leaves a kept-alive connection");
    region.set(Mode::Silent).await;
    let mut under_way = TaskGroup::new();
    let (asking, asked) = (client.clone(), region.server.clone());
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
async fn slow_region_is_late_until_recovered() {
    let region = Region::start();
    let client = client();
    region.set(Mode::Slow(Duration::from_millis(80))).await;
    let before = region.clock.now();
    assert!(get(&client, &region, 5 * SECOND).await.is_ok());
    assert!(region.clock.now() - before >= Duration::from_millis(80));
    region.set(Mode::Slow(3600 * SECOND)).await;
    let mut under_way = TaskGroup::new();
    let (asking, asked) = (client.clone(), region.server.clone());
    under_way.start(async move { get(&asking, &asked, 20 * SECOND).await });
    while region.traffic.total() < 2 {
        tokio::task::yield_now().await;
    }
    region.set(Mode::Healthy).await;
    assert!(under_way.next().await.unwrap().is_ok());
}

#[tokio::test]
async fn status_mode_answers_on_same_connection() {
    let (region, client) = (Region::start(), client());
    region.set(Mode::Status(StatusCode::SERVICE_UNAVAILABLE)).await;
    assert_eq!(get(&client, &region, 5 * SECOND).await.unwrap().0, 503);
    region.set(Mode::Healthy).await;
    assert_eq!(get(&client, &region, 5 * SECOND).await.unwrap().0, 200);
}

#[tokio::test]
async fn dripping_region_sends_byte_per_second() {
    let region = Region::start();
    let client = client();
    region.set(Mode::Drip).await;
    let before = region.clock.now();
    let mut response = client.get(format!("{}{PATH}", region.url())).send().await.unwrap();
    assert!(region.clock.now() - before < SECOND / 2, "the head comes at once");
    let announced = response.content_length().unwrap();
    let first = response.chunk().await.unwrap().unwrap();
    assert_eq!(first.len(), 1);
    assert!(region.clock.now() - before >= SECOND);
    region.set(Mode::Healthy).await;
    let rest = response.bytes().await.unwrap();
    assert_eq!(1 + rest.len() as u64, announced);
    assert!(region.clock.now() - before < 5 * SECOND);
}

#[tokio::test]
async fn truncating_region_sends_half_its_length() {
    let (region, client) = (Region::start(), client());
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
async fn garbling_region_sends_non_http() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let region = Region::start();
    region.set(Mode::Garbage).await;
    assert_eq!(get(&client(), &region, 5 * SECOND).await, Err("request"));
    let mut stream = tokio::net::TcpStream::connect(region.address()).await.unwrap();
    stream.write_all(format!("GET {PATH} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut sent = Vec::new();
    stream.read_to_end(&mut sent).await.unwrap();
    assert!(!sent.is_empty() && !sent.starts_with(b"HTTP/"));
}

#[tokio::test]
async fn endless_body_exceeds_storage_limits() {
    let region = Region::start();
    region.set(Mode::Endless).await;
    let mut response = client().get(format!("{}{PATH}", region.url())).send().await.unwrap();
    assert_eq!(response.content_length(), None);
    let mut sent = 0;
    while sent <= 1 << 20 {
        sent += response.chunk().await.unwrap().expect("it does not end").len();
    }
}

#[tokio::test]
async fn silent_region_never_answers() {
    let region = Region::start();
    region.set(Mode::Silent).await;
    assert_eq!(get(&client(), &region, Duration::from_millis(60)).await, Err("timeout"));
    assert_eq!(region.traffic.total(), 1);
}
