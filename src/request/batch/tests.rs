//! Batches through a whole sidecar, against regions that answer by key and count what they are asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::{Value, json};

use http::{HeaderMap, HeaderName, Method, header};

use super::limits;
use crate::config::PathTemplate;
use crate::http::admission::Admitted;
use crate::http::body::Body;
use crate::http::exchange::{Failure, Origin, Outgoing, Reply};
use crate::model::ids::{RegionId, Version};
use crate::model::time::Clock;
use crate::race::gather::request::{self, BatchRequest, Wanted};
use crate::race::gather::upstream;
use crate::request::answer::respond;
use crate::request::scripted::{A, B, C, REGIONS, SECOND, World, ms, shows, token};
use crate::request::serve::serve;
use crate::request::settings::Settings;
use crate::routing::router::CALLED;

mod overtaken;
mod stalled;
mod turns;
mod whole;

/// Reply of a region for one key.
#[derive(Clone)]
struct Says {
    status: u16,
    version: u64,
    headers: HeaderMap,
    body: Bytes,
}

/// A 200 that shows the key, its version and the caller.
fn at(version: u64) -> Says {
    let body = format!("{{ \"v\": {version} }}").into();
    Says { status: 200, version, headers: json_type(), body }
}

fn json_type() -> HeaderMap {
    HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))])
}

type Script = Box<dyn Fn(RegionId, &str, &HeaderMap) -> Option<Says> + Send + Sync>;

/// Three regions that answer by key. `None` from the script is a connection that breaks; in a
/// batch, a part that is missing.
struct Regions {
    clock: Clock,
    script: Mutex<Script>,
    /// Region, keys, and whether it was one request for several.
    asked: Mutex<Vec<(RegionId, Vec<String>, bool)>>,
    /// Status of answers to requests for several keys; 200 has their parts.
    batch_status: AtomicU16,
    /// Failures of the next batches.
    failing: Mutex<Vec<Failure>>,
    latency_ms: AtomicUsize,
}

impl Regions {
    fn reply(&self, region: RegionId, status: u16, headers: HeaderMap, body: Bytes) -> Reply {
        let versions = crate::http::client::incoming::versions(&headers, &"x-record-version".parse().unwrap());
        let (sent, sent_wall) = (self.clock.now(), self.clock.wall());
        let status = StatusCode::from_u16(status).unwrap();
        Reply { region, status, headers, body, versions, sent, sent_wall, received: sent, grants: None }
    }

    fn says(&self, region: RegionId, key: &str, asked: &HeaderMap) -> Option<Says> {
        let mut says = (self.script.lock())(region, key, asked)?;
        if says.version > 0 {
            says.headers.insert("x-record-version", says.version.into());
        }
        let tag = says.headers.get(header::ETAG);
        if tag.is_some() && tag == asked.get(header::IF_NONE_MATCH) {
            (says.status, says.body) = (304, Bytes::new());
        }
        Some(says)
    }

    fn now(&self, region: RegionId, request: &Outgoing) -> Result<Reply, Failure> {
        if request.method != Method::POST {
            let key = request.path_and_query.split('/').nth(3).unwrap();
            let key = percent_encoding::percent_decode_str(key).decode_utf8().unwrap().into_owned();
            self.asked.lock().push((region, vec![key.clone()], false));
            let says = self.says(region, &key, &request.headers).ok_or(Failure::Truncated)?;
            return Ok(self.reply(region, says.status, says.headers, says.body));
        }
        assert_eq!(request.path_and_query, "/v1/many/full?x=1");
        let BatchRequest { keys, headers } = request::read(&request.headers, &request.body).unwrap();
        assert!(headers, "it needs the heads");
        let names = keys.iter().map(|wanted| wanted.key.clone()).collect();
        self.asked.lock().push((region, names, true));
        if let Some(failure) = self.failing.lock().pop() {
            return Err(failure);
        }
        let status = self.batch_status.load(Ordering::Relaxed);
        if status == whole::NO_BATCH {
            return Ok(self.reply(region, 200, json_type(), "[]".into()));
        }
        if status != 200 {
            let mut headers = json_type();
            headers.insert("x-record-version", whole::OF_THE_BATCH.into());
            return Ok(self.reply(region, status, headers, "{\"whole\":1}".into()));
        }
        let parts = keys.iter().map(|wanted| self.part(region, &request.headers, wanted));
        let parts: Vec<_> = parts.map(|part| part.unwrap_or("{}".to_owned())).collect();
        let body = format!("{{\"parts\":[{}]}}", parts.join(",")).into();
        Ok(self.reply(region, 200, json_type(), body))
    }

    fn part(&self, region: RegionId, headers: &HeaderMap, wanted: &Wanted) -> Option<String> {
        let mut own = headers.clone();
        wanted.put(&mut own);
        let says = self.says(region, &wanted.key, &own)?;
        let lines: Vec<_> = says.headers.iter().map(|(k, v)| (k.as_str(), v.to_str().unwrap())).collect();
        let head = json!({ "key": wanted.key, "status": says.status, "headers": lines }).to_string();
        let body = String::from_utf8(says.body.to_vec()).unwrap();
        let body = if body.is_empty() { String::new() } else { format!(",\"body\":{body}") };
        Some(format!("{}{body}}}", head.strip_suffix('}').unwrap()))
    }
}

struct Fronts(Arc<Regions>);

impl Origin for Fronts {
    fn ask(
        &self,
        region: RegionId,
        request: Arc<Outgoing>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Reply, Failure>> {
        let regions = self.0.clone();
        let latency = ms(regions.latency_ms.load(Ordering::Relaxed) as u64);
        let late = Failure::Deadline { within, head: false };
        let reply = async move {
            let sent = regions.clock.now();
            let mut reply = regions.now(region, &request)?;
            tokio::time::sleep(latency).await;
            (reply.sent, reply.received) = (sent, regions.clock.now());
            Ok(reply)
        };
        async move { tokio::time::timeout(within, reply).await.unwrap_or(Err(late)) }.boxed()
    }
}

/// A world whose first route takes batches, at its regions too.
fn world(
    script: impl Fn(RegionId, &str, &HeaderMap) -> Option<Says> + Send + Sync + 'static,
) -> (World, Arc<Regions>) {
    let mut world = World::new([1; REGIONS].map(|after| (after, shows(1).into())));
    let regions = Arc::new(Regions {
        clock: world.sidecar.fill.shared.clock.clone(),
        script: Mutex::new(Box::new(script)),
        asked: Mutex::default(),
        batch_status: AtomicU16::new(200),
        failing: Mutex::default(),
        latency_ms: AtomicUsize::new(1),
    });
    let mut config = world.sidecar.fill.config.clone();
    config.service.routes[0].batch = Some(PathTemplate::parse("/v1/batch/{view}").unwrap());
    config.service.routes[0].upstream_batch = Some(PathTemplate::parse("/v1/many/{view}").unwrap());
    world.sidecar = world.sidecar.renewed(config, Arc::new(Fronts(regions.clone()))).unwrap();
    (world, regions)
}

fn set(regions: &Regions, script: impl Fn(RegionId, &str, &HeaderMap) -> Option<Says> + Send + Sync + 'static) {
    *regions.script.lock() = Box::new(script);
}

/// Requests to each region since the last call, in the order of the regions.
fn asked(regions: &Regions) -> Vec<(RegionId, Vec<String>, bool)> {
    let mut asked = std::mem::take(&mut *regions.asked.lock());
    asked.sort();
    asked
}

async fn post(settings: Arc<Settings>, body: String, more: HeaderMap) -> Response<Body> {
    let path_and_query = "/v1/batch/full?x=1".to_owned();
    let mut headers = json_type();
    headers.extend(more);
    let admitted = Admitted { method: Method::POST, path_len: 14, path_and_query, headers, body: body.into() };
    respond(serve(&settings, admitted).await, &settings.fill.shared.names)
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

async fn many_with(world: &World, keys: &[&str], more: HeaderMap) -> Vec<Value> {
    let response = post(world.sidecar.clone(), json!({ "keys": keys }).to_string(), more).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["cache-control"], "no-store");
    let document: Value = serde_json::from_str(&text(response).await).unwrap();
    let parts = document["parts"].as_array().unwrap().clone();
    assert!(parts.iter().map(|part| part["key"].as_str().unwrap()).eq(keys.iter().copied()), "in order");
    parts
}

async fn many(world: &World, keys: &[&str]) -> Vec<Value> {
    many_with(world, keys, HeaderMap::new()).await
}

fn names(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|n| format!("k{n:04}")).collect()
}

fn strs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

async fn refusal(world: &World, body: &str, more: HeaderMap) -> (u16, String) {
    let response = post(world.sidecar.clone(), body.to_owned(), more).await;
    let status = response.status().as_u16();
    let document: Value = serde_json::from_str(&text(response).await).unwrap();
    (status, document["type"].as_str().unwrap().trim_start_matches("urn:nearside:problem:").to_owned())
}

#[tokio::test(start_paused = true)]
async fn parts_follow_key_order_with_duplicates() {
    let (world, regions) = world(|_, key, _| Some(at(key.len() as u64)));
    let started = world.now();
    let parts = many(&world, &["aaa", "b", "aaa", "cc"]).await;
    assert!(world.now() - started < ms(5), "nothing waits once every race has begun");
    assert_eq!(parts.iter().map(|part| part["version"].as_u64().unwrap()).collect::<Vec<_>>(), [3, 1, 3, 2]);
    assert!(parts.iter().all(|part| part["status"] == 200 && part["body"]["v"] == part["version"]));
    assert_eq!(
        asked(&regions),
        [A, B, C].map(|region| (region, vec!["aaa".to_owned(), "b".to_owned(), "cc".to_owned()], true)),
        "one request each"
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_region_gets_only_missing_keys() {
    let (world, regions) = world(|_, _, _| Some(at(5)));
    world.live().await;
    let all = names(0, 1000);
    many(&world, &strs(&all[..990])).await;
    world.pass(SECOND).await;
    asked(&regions);
    let parts = many(&world, &strs(&all)).await;
    assert!(parts.iter().all(|part| part["status"] == 200 && part["version"] == 5));
    let before = CALLED.get();
    many(&world, &strs(&all[..990])).await;
    assert_eq!(CALLED.get() - before, 990, "what is stored is routed once for each key");
    assert_eq!(asked(&regions), [A, B, C].map(|region| (region, all[990..].to_vec(), true)));
    let line = post(world.sidecar.clone(), json!({ "keys": all }).to_string(), HeaderMap::new()).await;
    let line = line.headers()["cache-status"].to_str().unwrap().to_owned();
    assert!(line.starts_with("nearside; hit; ttl="), "all of it is stored now: {line}");
    assert!(asked(&regions).is_empty());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn excess_keys_are_fetched_in_waves() {
    let (world, regions) = world(|_, _, _| Some(at(5)));
    let all = names(0, 300);
    let parts = many(&world, &strs(&all)).await;
    assert!(parts.iter().all(|part| part["status"] == 200));
    let sizes: Vec<_> = asked(&regions).iter().map(|(_, keys, _)| keys.len()).collect();
    assert_eq!(sizes.len(), 3 * REGIONS);
    assert!(sizes.iter().all(|size| *size <= limits::WAVE));
    assert_eq!(world.sidecar.shared.batches.turns.available_permits(), world.sidecar.shared.batches.most);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn race_is_decided_per_key() {
    let (world, regions) = world(|region, key, _| {
        // The first region lags for `x`, the others for `y`.
        Some(at(if (region == A) == (key == "y") { 5 } else { 4 }))
    });
    world.live().await;
    world.announce(B, "x", 5);
    world.announce(A, "y", 5);
    let parts = many(&world, &["x", "y"]).await;
    assert_eq!(parts.iter().map(|part| part["version"].as_u64()).collect::<Vec<_>>(), [Some(5), Some(5)]);
    assert!(parts.iter().all(|part| part.get("label").is_none()), "{parts:?}");
    assert_eq!(asked(&regions).len(), REGIONS, "one request to each region");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn floors_hold_for_their_key_only() {
    let (world, regions) = world(|_, _, asked| {
        let floor = asked.get("x-record-floor").map_or(0, |floor| floor.to_str().unwrap().parse().unwrap());
        Some(at(10 + floor))
    });
    world.live().await;
    world.announce(A, "x", 3);
    world.announce(A, "y", 4);
    let parts = many(&world, &["x", "y", "z"]).await;
    assert_eq!(parts.iter().map(|part| part["version"].as_u64().unwrap()).collect::<Vec<_>>(), [13, 14, 10]);
    assert_eq!(asked(&regions).len(), REGIONS);
    world.stop().await;
}

/// The caller that each part shows.
fn callers(parts: &[Value]) -> Vec<&str> {
    parts.iter().map(|part| part["body"]["who"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn callers_never_share_batch_parts() {
    let (world, _regions) = world(|_, key, asked| {
        let who = asked.get("authorization").map_or("nobody", |token| token.to_str().unwrap());
        Some(Says { body: json!({ "who": who, "key": key }).to_string().into(), ..at(5) })
    });
    world.live().await;
    for _ in 0..2 {
        let (one, other) = (token("one"), token("other"));
        let (mine, theirs) = tokio::join!(many_with(&world, &["a", "b"], one), many_with(&world, &["a", "b"], other));
        assert_eq!((callers(&mine), callers(&theirs)), (vec!["one", "one"], vec!["other", "other"]));
    }
    assert_eq!(callers(&many(&world, &["a"]).await), ["nobody"]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn invalid_key_fails_its_part_alone() {
    let (world, regions) = world(|_, key, _| Some(Says { body: json!(key).to_string().into(), ..at(5) }));
    let long = "k".repeat(9000);
    let bad = ["", "..", ".", "a/../b", long.as_str()];
    let good =
        ["a.b", ".a", "...", "a/b", "ü", "a b", "%2e", "?", "#x", "\"", "日本", "a\\b", "\u{1F600}", "a%2Fb", ";v=1"];
    let parts = many(&world, &[&bad[..], &good[..]].concat()).await;
    for part in &parts[..bad.len()] {
        let kind = part["body"]["type"].as_str();
        assert_eq!((part["status"].as_u64(), kind), (Some(400), Some("urn:nearside:problem:bad-key")), "{part}");
        assert_eq!(part["contentType"], "application/problem+json");
    }
    for part in &parts[bad.len()..] {
        assert_eq!((&part["status"], &part["body"]), (&json!(200), &part["key"]), "the region got the same key");
    }
    assert!(asked(&regions).iter().all(|(_, keys, _)| keys.len() == good.len()));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn empty_batch_has_no_parts() {
    let (world, regions) = world(|_, _, _| Some(at(5)));
    let none = post(world.sidecar.clone(), "{\"keys\":[]}".into(), HeaderMap::new()).await;
    assert_eq!((none.status().as_u16(), text(none).await), (200, "{\"parts\":[]}".to_owned()));
    let too_many = json!({ "keys": names(0, 1001) }).to_string();
    assert_eq!(refusal(&world, &too_many, HeaderMap::new()).await, (413, "many-keys".into()));
    let large = json!({ "keys": ["k".repeat(1 << 20)] }).to_string();
    assert_eq!(refusal(&world, &large, HeaderMap::new()).await, (413, "large-batch".into()));
    for broken in
        ["", "[]", "{", "{\"keys\":3}", "{\"keys\":[3]}", "{\"keys\":[\"a\"],\"kees\":1}", "{\"keys\":[null]}"]
    {
        assert_eq!(refusal(&world, broken, HeaderMap::new()).await, (400, "bad-batch".into()), "{broken}");
    }
    for (name, value) in [("content-type", "text/plain"), ("content-encoding", "gzip")] {
        let mut other = HeaderMap::new();
        other.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        assert_eq!(refusal(&world, "{\"keys\":[]}", other).await, (415, "not-json".into()), "{name}");
    }
    assert!(asked(&regions).is_empty());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_part_is_labelled_for_itself() {
    let (world, regions) = world(|_, _, _| Some(at(5)));
    world.live().await;
    many(&world, &["old", "fresh"]).await;
    world.pass(SECOND).await;
    world.announce(A, "old", 6);
    world.announce(A, "never", 6);
    set(&regions, |_, key, _| match key {
        "old" => None,
        _ => Some(at(5)),
    });
    world.pass(SECOND).await;
    let parts = many(&world, &["old", "fresh", "never"]).await;
    let labels: Vec<_> = parts.iter().map(|part| part["label"].as_str()).collect();
    assert_eq!(labels, [Some("stale-if-error"), None, Some("below-floor")]);
    assert!(parts.iter().all(|part| part["version"] == 5));
    world.stop().await;
}

fn line(name: &'static str, value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static(value))])
}

#[tokio::test(start_paused = true)]
async fn only_cache_control_applies_to_parts() {
    let (world, regions) = world(|_, _, _| {
        let mut says = at(5);
        says.headers.insert(header::ETAG, HeaderValue::from_static("\"5\""));
        Some(says)
    });
    world.live().await;
    many(&world, &["a"]).await;
    asked(&regions);
    for head in [line("if-none-match", "\"5\""), line("range", "bytes=0-1"), line("if-match", "\"x\"")] {
        let parts = many_with(&world, &["a"], head).await;
        assert_eq!((&parts[0]["status"], &parts[0]["etag"]), (&json!(200), &json!("\"5\"")));
    }
    assert!(asked(&regions).is_empty());
    let parts = many_with(&world, &["a", "b"], line("cache-control", "only-if-cached")).await;
    assert_eq!((&parts[0]["status"], &parts[1]["status"]), (&json!(200), &json!(504)));
    assert!(asked(&regions).is_empty());
    // The regions confirm what is stored: 304, and the caller gets the whole.
    let parts = many_with(&world, &["a", "a"], line("cache-control", "no-cache")).await;
    assert!(parts.iter().all(|part| part["status"] == 200 && part["body"]["v"] == 5));
    assert!(!asked(&regions).is_empty());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn json_verbatim_other_bodies_base64() {
    let (world, _regions) = world(|_, key, _| {
        let (kind, body) = match key {
            "spaced" => ("application/json; charset=utf-8", "{\"a\" : 1.0e2,\"a\":[ ]}"),
            "null" => ("application/vnd.acme+json", "null"),
            "coded" => ("application/json", "\"coded\""),
            _ => ("text/plain", "\"text\""),
        };
        let mut headers = json_type();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        if key == "coded" {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("br"));
        }
        Some(Says { headers, body: body.into(), ..at(5) })
    });
    for _ in 0..2 {
        let keys = json!({ "keys": ["spaced", "null", "text", "coded"] }).to_string();
        let answer = text(post(world.sidecar.clone(), keys, HeaderMap::new()).await).await;
        assert!(answer.contains("\"body\":{\"a\" : 1.0e2,\"a\":[ ]}}"), "{answer}");
        assert!(
            answer.contains("\"contentEncoding\":\"br\",\"encoding\":\"base64\",\"body\":\"ImNvZGVkIg==\"}"),
            "{answer}"
        );
        assert!(answer.contains("\"contentType\":\"application/vnd.acme+json\",\"body\":null}"), "{answer}");
        assert!(
            answer.contains("\"contentType\":\"text/plain\",\"encoding\":\"base64\",\"body\":\"InRleHQi\"}"),
            "{answer}"
        );
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn batch_hangup_cancels_no_shared_fill() {
    let (world, regions) = world(|_, _, _| Some(at(5)));
    regions.latency_ms.store(100, Ordering::Relaxed);
    let gone = post(world.sidecar.clone(), json!({ "keys": ["a", "b"] }).to_string(), HeaderMap::new()).await;
    let waits = world.begin("/v1/contexts/a/full?x=1");
    tokio::time::sleep(ms(10)).await;
    drop(gone);
    let answer = waits.await.unwrap().unwrap();
    assert_eq!((answer.status, answer.line.contains("collapsed")), (200, true), "{}", answer.line);
    assert_eq!(asked(&regions).len(), REGIONS);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stalled_callers_hold_no_permits() {
    let (world, _regions) = world(|_, _, _| Some(at(5)));
    let most = world.sidecar.shared.batches.most;
    let mut slow = Vec::new();
    for n in 0..10 {
        let keys = names(n * 1000, n * 1000 + 900);
        slow.push(post(world.sidecar.clone(), json!({ "keys": keys }).to_string(), HeaderMap::new()).await);
    }
    tokio::time::sleep(SECOND).await;
    assert_eq!(world.sidecar.shared.batches.turns.available_permits(), most);
    assert_eq!(many(&world, &["a"]).await[0]["status"], 200);
    for answer in slow {
        let document: Value = serde_json::from_str(&text(answer).await).unwrap();
        assert!(document["parts"].as_array().unwrap().iter().all(|part| part["status"] == 200));
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn batch_without_room_is_refused() {
    let (world, _regions) = world(|_, _, _| Some(at(5)));
    let bodies = &world.sidecar.shared.bodies;
    let answer = post(world.sidecar.clone(), json!({ "keys": ["a"] }).to_string(), HeaderMap::new()).await;
    assert!(bodies.held() > 2 * limits::CHUNK_BYTES as u64);
    drop(answer);
    tokio::time::sleep(SECOND).await;
    assert_eq!(bodies.held(), 0);
    let all = bodies.reserve(bodies.limit() - crate::http::limits::SMALL_BODIES_BYTES as u64).unwrap();
    assert_eq!(refusal(&world, "{\"keys\":[\"a\"]}", HeaderMap::new()).await, (503, "no-room".into()));
    drop(all);
    assert_eq!(many(&world, &["a"]).await[0]["status"], 200);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn requested_part_headers_match_get() {
    let (world, _regions) = world(|_, _, _| {
        let mut says = at(5);
        says.headers.insert("x-odd", HeaderValue::from_bytes(b"caf\xe9").unwrap());
        says.headers.insert(header::SET_COOKIE, HeaderValue::from_static("session=1"));
        Some(says)
    });
    world.live().await;
    world.get("/v1/contexts/a/full?x=1").await;
    let answer = post(world.sidecar.clone(), json!({ "keys": ["a"], "headers": true }).to_string(), HeaderMap::new());
    let answer = text(answer.await).await;
    let part = upstream::parts(answer.as_bytes(), &["a".into()], &"x-record-version".parse().unwrap());
    let [Some(part)] = &part[..] else { panic!("{answer}") };
    assert_eq!(
        (part.status.as_u16(), &part.body[..], &part.versions[..]),
        (200, &b"{ \"v\": 5 }"[..], &[Version(5)][..])
    );
    assert_eq!(part.headers["x-odd"].as_bytes(), b"caf\xe9");
    assert!(part.headers["cache-status"].to_str().unwrap().starts_with("nearside; hit"));
    assert!(!part.headers.contains_key("set-cookie") && part.headers.contains_key("age"));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn excess_parts_are_looked_up_again() {
    let (world, regions) = world(|_, key, _| {
        let headers = if key == "t9" { HeaderMap::new() } else { json_type() };
        Some(Says { headers, body: json!(key.repeat(1 << 19)).to_string().into(), ..at(5) })
    });
    world.live().await;
    let keys: Vec<String> = (0..10).map(|n| format!("t{n}")).collect();
    // What is expected of them is too little: the regions are not asked together again.
    many(&world, &strs(&keys)).await;
    world.pass(SECOND).await;
    asked(&regions);
    let answer = post(world.sidecar.clone(), json!({ "keys": keys }).to_string(), HeaderMap::new()).await;
    assert!(world.sidecar.shared.bodies.held() < (1 << 20));
    for (key, _) in world.sidecar.fill.shared.store.entries_of(world.record("t8")) {
        world.sidecar.fill.shared.store.remove(key.as_ref());
    }
    let document: Value = serde_json::from_str(&text(answer).await).unwrap();
    let parts = document["parts"].as_array().unwrap();
    for (part, key) in parts[..9].iter().zip(&keys) {
        assert_eq!(part["body"].as_str().unwrap(), key.repeat(1 << 19), "{key}");
    }
    assert_eq!((&parts[9]["encoding"], parts[9]["body"].as_str().unwrap().len()), (&json!("base64"), 1_398_104));
    assert_eq!(
        asked(&regions),
        [A, B, C].map(|region| (region, vec!["t8".to_owned()], false)),
        "it is not there any more"
    );
    world.stop().await;
}
