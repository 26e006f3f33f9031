//! The operators' port over real sockets: pages, hosts, bounds.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::admin::commands::access::Access;
use crate::admin::status::RaceHealth;
use crate::config;
use crate::http::limits::{HEADER_WAIT, IDLE_WAIT, LAST_REPLY_WAIT, REQUEST_HEAD_BYTES};
use crate::request::scripted::{Act, World, shows};

struct Port {
    address: SocketAddr,
    tasks: Tasks,
}

/// An admin port that serves a fixed status.
async fn port(change: impl FnOnce(&mut status::Facts<'_>, &Metrics)) -> Port {
    let tasks = Tasks::new();
    let listener =
        crate::http::listener::bind_tcp("127.0.0.1:0".parse().unwrap(), "admin.listen", "admin.listen").unwrap();
    let address = listener.local_addr().unwrap();
    let status = status::tests::status(change);
    let metrics = Arc::new(Metrics::new(&["eu-west-1".to_owned(), "us-east-1".to_owned()]));
    let access = Access::new(&config::Admin { listen: address, ..Default::default() }).unwrap();
    let pages = Pages {
        status: Arc::new(move || status.clone()),
        metrics,
        admits: Arc::default(),
        commands: Commands::new(
            World::new([(1, Act::from(shows(1))), (1, Act::from(shows(1))), (1, Act::from(shows(1)))])
                .sidecar
                .clone(),
            access,
        ),
    };
    start([Listener::Tcp(listener)], port_connections(64), pages, &tasks, tasks.stopping());
    Port { address, tasks }
}

impl Port {
    /// Sends `request` as it is and reads until the connection ends.
    async fn say(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn get(&self, path: &str) -> String {
        self.say(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")).await
    }
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

fn all_down(facts: &mut status::Facts<'_>, _: &Metrics) {
    facts.regions.races = vec![RaceHealth { outlier: true, ..RaceHealth::default() }; 2];
}

#[tokio::test]
async fn fresh_sidecar_is_ready_without_reasons() {
    let port = port(|_, _| {}).await;
    let answer = port.get("/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(body(&answer), "{\"state\":\"fresh\",\"reasons\":[]}");
    let said: serde_json::Value = serde_json::from_str(body(&port.get("/status").await)).unwrap();
    assert_eq!(said["warnings"][0], "us-east-1: subscription pending, no proof yet");
}

#[tokio::test]
async fn degraded_sidecar_is_still_ready() {
    let answer = port(all_down).await.get("/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(body(&answer).starts_with("{\"state\":\"degraded\",\"reasons\":[\""), "{answer}");
}

#[tokio::test]
async fn draining_sidecar_is_alive_but_unready() {
    let port = port(|facts, _| facts.draining = true).await;
    assert!(port.get("/readyz").await.starts_with("HTTP/1.1 503 "));
    assert!(port.get("/livez").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn the_probe_agrees_with_readyz() {
    async fn probed(port: &Port) -> bool {
        let address = port.address;
        tokio::task::spawn_blocking(move || {
            health::probe(health::AdminPort::plain(address), Duration::from_secs(5)).is_ok()
        })
        .await
        .unwrap()
    }
    assert!(probed(&port(all_down).await).await);
    assert!(!probed(&port(|facts, _| facts.draining = true).await).await);
}

#[tokio::test]
async fn metrics_are_openmetrics_text() {
    let answer = port(|_, _| {}).await.get("/metrics").await;
    assert!(answer.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{answer}");
    assert!(body(&answer).ends_with("# EOF\n"), "{answer}");
    assert!(answer.contains("nearside_proof_age_seconds{region=\"eu-west-1\"} 1.5"), "{answer}");
}

#[tokio::test]
async fn status_is_json_and_index_escapes() {
    let port = port(|_, _| {}).await;
    let status = port.get("/status").await;
    assert!(status.contains("content-type: application/json"), "{status}");
    let said: serde_json::Value = serde_json::from_str(body(&status)).unwrap();
    assert_eq!(said["service"], "tenant <context>");
    let index = port.get("/").await;
    assert!(index.contains("tenant &lt;context&gt;") && !index.contains("<context>"), "{index}");
    for path in ["/readyz", "/status", "/metrics", "/livez"] {
        assert!(index.contains(&format!("href=\"{path}\"")), "{path}");
    }
}

#[tokio::test]
async fn no_page_exposes_secret_settings() {
    let port = port(|_, _| {}).await;
    for path in ["/", "/readyz", "/status", "/metrics", "/livez"] {
        let answer = port.get(path).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        assert!(!answer.contains("s3cret"), "{path}: {answer}");
    }
}

#[tokio::test]
async fn foreign_host_gets_421() {
    let answer =
        port(|_, _| {}).await.say("GET /status HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
    assert!(!answer.contains("eu-west-1"), "{answer}");
}

#[tokio::test]
async fn missing_host_allowed_in_http10_only() {
    let port = port(|_, _| {}).await;
    let answer = port.say("GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(port.say("GET /livez HTTP/1.0\r\n\r\n").await.starts_with("HTTP/1.0 200 "));
}

#[tokio::test]
async fn other_methods_and_paths_are_refused() {
    let port = port(|_, _| {}).await;
    assert!(port.get("/admin").await.starts_with("HTTP/1.1 404 "));
    let post = "POST /status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert!(port.say(post).await.starts_with("HTTP/1.1 405 "));
}

#[tokio::test]
async fn oversized_head_closes_connection() {
    let padding = "x".repeat(2 * REQUEST_HEAD_BYTES);
    let stream = TcpStream::connect(port(|_, _| {}).await.address).await.unwrap();
    let (mut read, mut write) = stream.into_split();
    // The refusal may arrive, and the connection close, before everything is written.
    let _ =
        write.write_all(format!("GET /livez HTTP/1.1\r\nHost: localhost\r\nX: {padding}\r\n\r\n").as_bytes()).await;
    let mut answer = [0; 12];
    read.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 431");
}

#[tokio::test(start_paused = true)]
async fn partial_head_times_out_before_idle() {
    let port = port(|_, _| {}).await;
    for (said, wait) in [("GET /livez HT", HEADER_WAIT), ("", IDLE_WAIT)] {
        let started = tokio::time::Instant::now();
        port.say(said).await;
        let waited = started.elapsed();
        assert!(waited >= wait && waited <= wait + HEADER_WAIT, "{said}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn excess_silent_connections_make_room() {
    let port = port(|_, _| {}).await;
    let mut silent = Vec::new();
    for _ in 0..limits::ADMIN_CONNECTIONS {
        silent.push(TcpStream::connect(port.address).await.unwrap());
    }
    let started = tokio::time::Instant::now();
    assert!(port.get("/livez").await.starts_with("HTTP/1.1 200 "));
    assert!(started.elapsed() < HEADER_WAIT, "a silent one made room: {:?}", started.elapsed());
    drop(silent);
}

#[tokio::test]
async fn stopping_closes_port_and_idle_connections() {
    let port = port(|_, _| {}).await;
    let mut idle = TcpStream::connect(port.address).await.unwrap();
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut first = [0; 15];
    idle.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    assert!(port.tasks.drain(LAST_REPLY_WAIT).await.is_empty());
}

#[tokio::test]
async fn request_with_two_hosts_is_refused() {
    let port = port(|_, _| {}).await;
    for (target, lines, says) in [
        ("/status", "Host: localhost\r\nHost: localhost\r\n", "several Host headers"),
        ("/status", "Host: localhost\r\nhost: evil.example\r\n", "several Host headers"),
        ("/status", "", "names no Host"),
        ("/status", "Host: local host\r\n", "write a name or an address"),
        ("http://evil.example/status", "Host: localhost\r\n", "another host than its Host header"),
        ("http://localhost/status", "Host: evil.example\r\n", "another host than its Host header"),
        ("http://user@localhost/status", "Host: localhost\r\n", "write a name or an address"),
        ("http://localhost/status", "", "names no Host"),
    ] {
        let answer = port.say(&format!("GET {target} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && body(&answer).contains(says), "{target} {lines}: {answer}");
    }
    for (target, host, status) in [
        ("http://localhost:1/status", "127.0.0.1", "200"),
        ("http://LOCALHOST/status", "localhost:8701", "200"),
        ("http://evil.example/status", "evil.example", "421"),
    ] {
        let answer = port.say(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{target} {host}: {answer}");
    }
}
