//! The API over real sockets, and the document that describes it.

mod written_grants;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::catalogue::preconditions::{Preconditions, Tags};
use crate::catalogue::tests::{Stage, stage};
use crate::engine::faulty::FaultRates;
use crate::engine::{EngineError, Table};
use crate::http::listener::bind_tcp;
use crate::http::service::{self, Listener, ServingTasks};
use crate::tasks::Tasks;
use crate::tasks::permits::Permits;
use strum::VariantArray;

const JSON: &str = "Content-Type: application/json\r\n";

struct Port {
    address: SocketAddr,
    stage: Stage,
    held: Arc<ByteBudget>,
    pages: Arc<ByteBudget>,
}

async fn port() -> Port {
    port_of(None).await
}

async fn port_of(gate: Option<Arc<Gate>>) -> Port {
    let (stage, tasks) = (stage(), Tasks::new());
    let listener = bind_tcp("127.0.0.1:0".parse().unwrap(), "catalogue", "catalogue.listen").unwrap();
    let address = listener.local_addr().unwrap();
    let held = ByteBudget::new(HELD_BYTES);
    let pages = ByteBudget::with_room_for_small(PAGES_HELD_BYTES, 0, 0);
    let router =
        router_of(Api { catalogue: stage.catalogue.clone(), gate, held: held.clone(), pages: pages.clone() });
    let names = ServingTasks { accept: "accept", connection: "catalogue" };
    service::start(Listener::Tcp(listener), names, Permits::new(64), move |_| router.clone(), &tasks);
    Port { address, stage, held, pages }
}

struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The word of a problem document, which is checked to be one.
    #[track_caller]
    fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{} {}", self.status, self.body);
        let document = self.json();
        fits("Problem", &document);
        assert_eq!(document["status"], self.status);
        assert_eq!(self.header("retry-after"), (self.status == 503).then_some("1"));
        let word = document["type"].as_str().unwrap().strip_prefix("urn:nearside:problem:").unwrap();
        (self.status, word.to_owned())
    }

    #[track_caller]
    fn states(&self, version: u64) {
        assert_eq!(self.header("etag"), Some(&*format!("\"{version}\"")), "{}", self.head);
        assert_eq!(self.header("x-record-version"), Some(&*version.to_string()), "{}", self.head);
    }
}

impl Port {
    /// Sends these bytes and reads until the connection ends.
    async fn say(&self, request: &str) -> Reply {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A refusal may come, and the connection close, before all is written.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head[9..12].parse().unwrap();
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// `target` is a method and a path; `lines` are header lines, each with its end.
    async fn send(&self, target: &str, lines: &str, body: &str) -> Reply {
        let length = body.len();
        let head =
            format!("{target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n");
        let json = if body.is_empty() || lines.contains("Content-Type") { "" } else { JSON };
        self.say(&format!("{head}{json}{lines}\r\n{body}")).await
    }

    async fn get(&self, path: &str) -> Reply {
        self.send(&format!("GET {path}"), "", "").await
    }

    async fn put(&self, path: &str, body: &str) -> Reply {
        self.send(&format!("PUT {path}"), "Content-Type: application/json\r\n", body).await
    }

    /// Puts a record with an idempotency key.
    async fn put_once(&self, body: &str) -> Reply {
        self.send("PUT /v1/records/shard/a", "Idempotency-Key: k-1\r\n", body).await
    }
}

fn document() -> Value {
    serde_json::from_str(OPENAPI).unwrap()
}

/// The schema, which may refer to those of the document.
fn validator(mut schema: Value) -> jsonschema::Validator {
    schema["components"] = document()["components"].clone();
    jsonschema::validator_for(&schema).unwrap()
}

#[track_caller]
fn fits(schema: &str, value: &Value) {
    let validator = validator(json!({"$ref": format!("#/components/schemas/{schema}")}));
    validator.validate(value).unwrap_or_else(|error| unreachable!("{schema}: {error}\n{value:#}"));
}

#[test]
fn document_has_exactly_served_routes() {
    let document = document();
    let members =
        document["paths"].as_object().unwrap().iter().flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(move |member| (member.clone(), path.clone()))
        });
    let described: BTreeSet<_> = members.filter(|(name, _)| name != "parameters" && name != "head").collect();
    let routed: BTreeSet<_> =
        routes().into_iter().map(|(method, path, _)| (method.to_owned(), path.to_owned())).collect();
    assert_eq!(described, routed);
}

#[test]
fn document_has_every_status_and_problem() {
    let document = document();
    let known = &document["components"]["schemas"]["Problem"]["properties"];
    let listed = known["type"]["enum"].as_array().unwrap();
    let listed: BTreeSet<_> = listed.iter().map(|urn| urn.as_str().unwrap().to_owned()).collect();
    // What the port's guard says before this router is asked.
    let of_the_guard = (StatusCode::FORBIDDEN, "cross-site");
    let kinds = ProblemKind::VARIANTS.iter().map(|kind| (kind.status(), kind.into_str())).chain([of_the_guard]);
    let kinds: Vec<_> = kinds.collect();
    assert_eq!(listed, kinds.iter().map(|(_, word)| crate::http::problem::urn(word)).collect());
    for (status, word) in &kinds {
        let response = &document["components"]["responses"][status.as_str()];
        let described = response["description"].as_str().unwrap_or_default();
        assert!(described.contains(&format!("`{word}`")), "{word}: {described}");
        assert!(known["status"]["enum"].as_array().unwrap().contains(&status.as_u16().into()), "{word}");
    }
    let count = document["components"]["responses"].as_object().unwrap().len();
    let statuses: BTreeSet<_> = kinds.iter().map(|(status, _)| status.as_u16()).collect();
    assert_eq!(count, statuses.len());
}

#[test]
fn problems_page_shows_the_catalogues() {
    // What the port's guard says before this router is asked.
    let of_the_guard = ("cross-site".to_owned(), 403);
    let kinds = ProblemKind::VARIANTS.iter().map(|kind| (kind.into_str().to_owned(), kind.status().as_u16()));
    assert_eq!(crate::http::problem::page::chapter("The catalogue"), kinds.chain([of_the_guard]).collect());
}

#[test]
fn document_examples_fit_schemas() {
    fn walk(value: &Value, checked: &mut usize) {
        if let (Some(schema), Some(example)) = (value.get("schema"), value.get("example")) {
            let errors = validator(schema.clone()).validate(example).err().map(|error| error.to_string());
            assert_eq!(errors, None, "{schema}\n{example}");
            *checked += 1;
        }
        match value {
            Value::Object(members) => members.values().for_each(|member| walk(member, checked)),
            Value::Array(elements) => elements.iter().for_each(|element| walk(element, checked)),
            _ => {}
        }
    }
    let mut checked = 0;
    walk(&document(), &mut checked);
    assert!(checked > 20, "{checked}");
}

#[tokio::test]
async fn unlisted_methods_and_paths_are_refused() {
    let port = port().await;
    let methods = ["GET", "PUT", "DELETE", "POST", "PATCH"];
    for path in routes().map(|(_, path, _)| path) {
        let known: Vec<_> = routes().into_iter().filter(|route| route.1 == path).map(|route| route.0).collect();
        let concrete = path.replace("{type}", "shard").replace("{key}", "k");
        for method in methods {
            let reply = port.send(&format!("{method} {concrete}"), "", "").await;
            assert_eq!(reply.status != 405, known.contains(&&*method.to_lowercase()), "{method} {path}");
            if reply.status == 405 {
                assert_eq!(reply.problem().1, "method");
                assert!(reply.header("allow").is_some_and(|allow| !allow.contains(method)), "{}", reply.head);
            }
        }
    }
    for path in ["/", "/v1/records", "/v1/records/shard/", "/v1/records/shard/a/b", "/v1/records/shard/k/history/1"] {
        assert_eq!(port.get(path).await.problem(), (404, "unknown-path".to_owned()), "{path}");
    }
    assert_eq!(port.get("/openapi.json").await.json(), document());
    let types = port.get("/v1/types").await.json();
    fits("Types", &types);
    assert_eq!(types["types"][0], json!({"name": "shard", "schema": true}));
}

#[tokio::test]
async fn odd_keys_round_trip_as_segment() {
    let port = port().await;
    let longest = "k".repeat(512);
    for (encoded, key) in [
        ("a%2Fb", "a/b"),
        ("a%252Fb", "a%2Fb"),
        ("%C3%A4%20%F0%9F%A6%80", "ä 🦀"),
        ("a%23b%3Fc", "a#b?c"),
        ("a+b;c=d:e@f", "a+b;c=d:e@f"),
        ("history", "history"),
        ("...", "..."),
        ("%7Bkey%7D", "{key}"),
        ("%22%5C", "\"\\"),
        (&longest, &longest),
    ] {
        let path = format!("/v1/records/shard/{encoded}");
        let put = port.put(&path, &json!({"key": key}).to_string()).await;
        assert_eq!(put.status, 201, "{key}: {}", put.body);
        assert_eq!(port.get(&path).await.json()["key"], key);
        let history = port.get(&format!("{path}/history")).await.json();
        fits("History", &history);
        assert_eq!(history["versions"][0]["key"], key);
        let kept = port.stage.memory.dump(Table::Records);
        assert_eq!(kept.iter().filter(|item| item.key.sort == key).count(), 1, "{key}");
    }
    for encoded in ["%2E%2e", "..", ".", "%00", "%0A", "%FF", &"k".repeat(513)] {
        let reply = port.put(&format!("/v1/records/shard/{encoded}"), "{}").await;
        assert_eq!(reply.problem(), (400, "bad-key".to_owned()), "{encoded}");
    }
    for encoded in ["%", "a%", "%4", "%zz", "a%2", "%%41", "%4g", "%u0041", "%C3", "a%ff%fe", "%ED%A0%80"] {
        for (method, rest) in [("GET", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/history")] {
            let json = if method == "PUT" { JSON } else { "" };
            let target = format!("{method} /v1/records/shard/{encoded}{rest}");
            let reply = port.send(&target, json, if method == "PUT" { "{}" } else { "" }).await;
            assert_eq!(reply.problem(), (400, "bad-key".to_owned()), "{target}");
            assert!(reply.body.contains("%25"), "{target}: {}", reply.body);
        }
        assert_eq!(
            port.get(&format!("/v1/records/{encoded}")).await.problem(),
            (400, "bad-key".to_owned()),
            "{encoded}"
        );
    }
    assert!(port.stage.memory.dump(Table::Records).iter().all(|item| item.key.sort != "%zz"));
}

#[tokio::test]
async fn record_answers_state_their_version() {
    let port = port().await;
    let path = "/v1/records/tenant/acme";
    let sent = "{ \"plan\":\"free\" ,\"n\": 1e2}";
    let created = port.put(path, sent).await;
    let version = created.json()["version"].as_u64().unwrap();
    fits("Written", &created.json());
    assert_eq!(created.status, 201);
    created.states(version);
    let read = port.get(path).await;
    assert_eq!((read.status, &*read.body, read.header("content-type")), (200, sent, Some("application/json")));
    read.states(version);
    let head = port.send(&format!("HEAD {path}"), "", "").await;
    assert_eq!((head.status, &*head.body, head.header("content-length")), (200, "", Some("26")));
    head.states(version);
    for tag in [format!("\"{version}\""), format!("\"x\", W/\"{version}\""), "*".to_owned()] {
        let same = port.send(&format!("GET {path}"), &format!("If-None-Match: {tag}\r\n"), "").await;
        assert_eq!((same.status, &*same.body), (304, ""), "{tag}");
        same.states(version);
    }
    for method in ["GET", "HEAD"] {
        for (tag, status) in [
            (format!("\"{version}\""), 200),
            ("*".to_owned(), 200),
            (format!("\"{}\"", version - 1), 412),
            (format!("W/\"{version}\""), 412),
            // If-Match is looked at first (RFC 9110, 13.2.2).
            (format!("\"1\"\r\nIf-None-Match: \"{version}\""), 412),
        ] {
            let demanded = port.send(&format!("{method} {path}"), &format!("If-Match: {tag}\r\n"), "").await;
            assert_eq!(demanded.status, status, "{method} {tag}");
            demanded.states(version);
        }
    }
    let lost = port.send(&format!("PUT {path}"), "If-None-Match: *\r\n", sent).await;
    assert_eq!(lost.problem(), (412, "precondition-failed".to_owned()));
    lost.states(version);
    let replaced = port.send(&format!("PUT {path}"), &format!("If-Match: \"{version}\"\r\n"), sent).await;
    assert_eq!(replaced.status, 200);
    replaced.states(replaced.json()["version"].as_u64().unwrap());
    let deleted = port.send(&format!("DELETE {path}"), "", "").await;
    let tombstone = deleted.json()["version"].as_u64().unwrap();
    assert_eq!((deleted.status, tombstone > version), (200, true));
    deleted.states(tombstone);
    for (method, line) in [("GET", ""), ("DELETE", ""), ("GET", "If-Match: \"1\"\r\n")] {
        let gone = port.send(&format!("{method} {path}"), line, "").await;
        assert_eq!(gone.problem(), (404, "not-found".to_owned()));
        assert_eq!(gone.json()["version"], tombstone);
        gone.states(tombstone);
    }
    assert_eq!(port.get("/v1/records/tenant/never").await.header("etag"), None);
}

#[tokio::test]
async fn repeated_request_replays_first_result() {
    let port = port().await;
    port.stage.faults.set(FaultRates { loses_answers: 1.0, ..FaultRates::default() });
    assert_eq!(port.put_once("{}").await.problem(), (503, "outcome-unknown".to_owned()));
    port.stage.faults.set(FaultRates::default());
    let again = port.put_once("{}").await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (201, Some("true")));
    again.states(port.stage.memory.dump(Table::Records)[0].version);
    assert_eq!(port.put_once("{\"a\":1}").await.problem(), (422, "idempotency-key-reused".to_owned()));
    for lines in ["Idempotency-Key: a\r\nIdempotency-Key: b\r\n", "Idempotency-Key: \r\n", "Idempotency-Key: a b\r\n"]
    {
        let refused = port.send("PUT /v1/records/shard/a", lines, "{}").await;
        assert_eq!(refused.problem(), (400, "bad-header".to_owned()), "{lines}");
    }
    port.stage.faults.set(FaultRates { throttles: 1.0, ..FaultRates::default() });
    assert_eq!(port.get("/v1/records/shard/a").await.problem(), (503, "store-unavailable".to_owned()));
}

#[tokio::test]
async fn history_names_request_and_reason() {
    let port = port().await;
    let because = "X-Change-Reason: größer, Fall 7\r\nX-Request-Id: case-7\r\n";
    let named = port.send("PUT /v1/records/shard/a", because, "{}").await;
    assert_eq!((named.status, named.header("x-request-id")), (201, Some("case-7")), "{}", named.body);
    let unnamed = port.send("DELETE /v1/records/shard/a", "X-Request-Id: not one\r\n", "").await;
    let drawn = unnamed.header("x-request-id").unwrap().to_owned();
    assert_eq!(drawn.len(), 16);
    let history = port.get("/v1/records/shard/a/history").await;
    fits("History", &history.json());
    let shown = history.json()["versions"].clone();
    let [first, second] = [&shown[0], &shown[1]];
    assert_eq!((&first["by"], &first["reason"]), (&json!("anonymous"), &json!("größer, Fall 7")));
    assert_eq!((&first["requestId"], &second["requestId"]), (&json!("case-7"), &json!(drawn)));
    assert!(second["reason"].is_null());
    let listing = port.get("/v1/records/shard").await.body;
    assert!(!listing.contains("requestId") && !listing.contains("\"by\""), "{listing}");
    let long = format!("X-Change-Reason: {}\r\n", "x".repeat(257));
    for lines in [
        &long,
        "X-Change-Reason: \r\n",
        "X-Change-Reason: a\u{202e}b\r\n",
        &because.replace("X-Req", "X-Change-Reason: b\r\nX-Req"),
    ] {
        let refused = port.send("PUT /v1/records/shard/a", lines, "{}").await;
        assert_eq!(refused.problem(), (400, "bad-header".to_owned()), "{lines}");
    }
}

#[tokio::test]
async fn failed_read_is_not_reported_unwritten() {
    let port = port().await;
    port.put("/v1/records/shard/a", "{}").await;
    for (rates, word) in [
        (FaultRates { throttles: 1.0, ..FaultRates::default() }, "throttled"),
        (FaultRates { fails: 1.0, ..FaultRates::default() }, "unavailable"),
    ] {
        port.stage.faults.set(rates);
        for path in ["/v1/records/shard/a", "/v1/records/shard", "/v1/records/shard/a/history"] {
            let reply = port.get(path).await;
            assert_eq!(reply.problem(), (503, "store-unavailable".to_owned()), "{path}");
            let detail = reply.json()["detail"].as_str().unwrap().to_owned();
            assert_eq!(detail, format!("the store could not be read: {word}; send it again"), "{path}");
        }
        let write = port.put("/v1/records/shard/a", "{}").await;
        assert!(write.problem().0 == 503 && write.body.contains("nothing was written"), "{}", write.body);
    }
}

#[tokio::test]
async fn batches_and_pages_match_document() {
    let port = port().await;
    let first = json!({"writes": [
        {"method": "PUT", "type": "shard", "key": "a/b", "body": {"n": 1}, "ifAbsent": true},
        {"method": "PUT", "type": "tenant", "key": "acme", "body": {"plan": "free"}},
    ]});
    fits("Batch", &first);
    let answer = port.send("POST /v1/batch", "Idempotency-Key: b\r\n", &first.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    fits("BatchAnswer", &answer.json());
    let again = port.send("POST /v1/batch", "Idempotency-Key: b\r\n", &first.to_string()).await;
    assert_eq!((again.json(), again.header("idempotency-replayed")), (answer.json(), Some("true")));
    let part =
        |part: &str| format!("{{\"writes\":[{{\"method\":\"DELETE\",\"type\":\"shard\",\"key\":\"a/b\"}},{part}]}}");
    for (second, word) in [
        (r#"{"method":"DELETE","type":"shard","key":"none"}"#, "not-found"),
        (r#"{"method":"PUT","type":"tenant","key":"acme","body":{"plan":4711}}"#, "schema"),
        (r#"{"method":"PUT","type":"tenant","key":"acme","body":{"plan":"a","plan":"b"}}"#, "bad-json"),
        (r#"{"method":"PUT","type":"tenant","key":"acme","body":{"plan":"b"},"ifVersion":1}"#, "precondition-failed"),
        (r#"{"method":"PUT","type":"tenant","key":"acme"}"#, "bad-batch"),
        (r#"{"method":"DELETE","type":"tenant","key":"acme","body":{}}"#, "bad-batch"),
        (r#"{"method":"DELETE","type":"tenant","key":"acme","ifVersion":1,"ifAbsent":true}"#, "bad-batch"),
        (r#"{"method":"secret","type":"tenant","key":"acme"}"#, "bad-batch"),
        (r#"{"method":"DELETE","type":"tenant","key":"acme","secret":1}"#, "bad-batch"),
    ] {
        let refused = port.send("POST /v1/batch", "", &part(second)).await;
        assert_eq!(refused.problem().1, word, "{second}");
        assert!(!refused.body.contains("secret") && !refused.body.contains("4711"), "{}", refused.body);
        assert_eq!(refused.json()["part"] == 1, word != "bad-batch", "{}", refused.body);
    }
    let page = port.get("/v1/records/shard?limit=1").await.json();
    fits("Listing", &page);
    assert_eq!((&page["snapshot"], &page["records"][0]["body"]), (&json!(false), &json!({"n": 1})));
    for (query, word) in [
        ("limit=0", "bad-query"),
        ("limit=201", "bad-query"),
        ("limit=x", "bad-query"),
        ("page=2", "bad-query"),
        ("after=x", "bad-cursor"),
    ] {
        assert_eq!(port.get(&format!("/v1/records/shard?{query}")).await.problem().1, word, "{query}");
    }
    assert_eq!(port.get("/v1/records/shart").await.problem(), (404, "unknown-type".to_owned()));
}

#[tokio::test]
async fn bodies_must_be_bounded_json() {
    let port = port().await;
    let target = "PUT /v1/records/shard/a";
    let fits = format!("{{\"a\":\"{}\"}}", "x".repeat(RECORD_BYTES - 8));
    assert_eq!(port.send(target, "", &fits).await.status, 201);
    // Refused for what it promises, before a byte of it came.
    let promise = format!(
        "{target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{JSON}Content-Length: {}\r\n\r\n",
        RECORD_BYTES + 1
    );
    assert_eq!(port.say(&promise).await.problem(), (413, "large-body".to_owned()));
    let chunk = format!("{:x}\r\n{fits} \r\n0\r\n\r\n", RECORD_BYTES + 1);
    let chunked = format!(
        "{target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n{chunk}"
    );
    assert_eq!(port.say(&chunked).await.problem(), (413, "large-body".to_owned()));
    for lines in ["Content-Type: text/plain\r\n", "Content-Type: \r\n", "Content-Encoding: gzip\r\n"] {
        assert_eq!(port.send(target, lines, "{}").await.problem(), (415, "not-json".to_owned()), "{lines}");
    }
    let with_charset = "Content-Type: Application/JSON; charset=utf-8\r\n";
    assert_eq!(port.send(target, with_charset, "{}").await.status, 200);
    for body in ["", "[]", "{\"a\":1,\"a\":2}"] {
        assert_eq!(port.put("/v1/records/shard/a", body).await.problem(), (400, "bad-json".to_owned()), "{body}");
    }
    let refused = port.put("/v1/records/tenant/a", "{\"plan\":4711}").await;
    assert_eq!(refused.problem(), (422, "schema".to_owned()));
    let places = json!([{"pointer": "/plan", "rule": "/properties/plan/type"}]);
    assert_eq!((&refused.json()["violations"], refused.body.contains("4711")), (&places, false));
    assert_eq!(port.held.held(), 0, "what the store keeps takes nothing of the budget");
    let _most = port.held.reserve(HELD_BYTES - crate::http::limits::SMALL_BODIES_BYTES as u64).unwrap();
    assert_eq!(port.send(target, "", &fits).await.problem(), (503, "busy".to_owned()));
    assert_eq!(port.get("/v1/records/shard").await.status, 200, "pages have a budget of their own");
    assert_eq!(port.send(target, "", "{}").await.status, 200, "small ones have room of their own");
}

#[tokio::test(start_paused = true)]
async fn stalled_body_times_out() {
    let port = port().await;
    let head = "PUT /v1/records/shard/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let half = format!("{head}{JSON}Content-Length: 10\r\n\r\n{{");
    assert_eq!(port.say(&half).await.problem(), (408, "slow-body".to_owned()));
}

/// A page counts with the most that it can be before it is read, then with what it is.
#[tokio::test]
async fn unread_pages_never_block_writers() {
    let port = port().await;
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(RECORD_BYTES - 8));
    for key in 0..3 {
        assert_eq!(port.put(&format!("/v1/records/shard/{key}"), &large).await.status, 201);
    }
    assert_eq!(port.pages.held(), 0);
    let Port { stage, held, pages, .. } = &port;
    let api = Api { catalogue: stage.catalogue.clone(), gate: None, held: held.clone(), pages: pages.clone() };
    let uri = "/?limit=200".parse().unwrap();
    let unread =
        list_records(Shared(api.clone()), Caller::default(), Ok(Path("shard".to_owned())), Query::try_from_uri(&uri))
            .await
            .unwrap();
    let one = pages.held();
    assert!((3 * RECORD_BYTES as u64..PAGE_HELD_BYTES / 2).contains(&one), "{one}");
    let other = read_history(
        Shared(api),
        Caller::default(),
        Ok(Path(("shard".to_owned(), "1".to_owned()))),
        Query::try_from_uri(&uri),
    )
    .await
    .unwrap();
    assert!(pages.held() > one + RECORD_BYTES as u64);
    let _most = pages.reserve(PAGES_HELD_BYTES - PAGE_HELD_BYTES - pages.held() + 1).unwrap();
    for path in ["/v1/records/shard", "/v1/records/shard/1/history"] {
        assert_eq!(port.get(path).await.problem(), (503, "busy".to_owned()), "{path}");
    }
    assert_eq!(port.put("/v1/records/shard/4", &large).await.status, 201);
    drop((unread, other));
    assert_eq!(port.get("/v1/records/shard").await.status, 200);
}

#[tokio::test]
async fn refusals_are_counted_by_problem() {
    let port = port().await;
    assert_eq!(port.get("/v2").await.problem(), (404, "unknown-path".to_owned()));
    let mut registry = prometheus_client::registry::Registry::default();
    registry.register_collector(Box::new(port.stage.catalogue.counts().clone()));
    let mut page = String::new();
    prometheus_client::encoding::text::encode(&mut page, &registry).unwrap();
    assert!(page.contains("catalogue_refusals_total{problem=\"unknown-path\"} 1\n"), "{page}");
}

#[test]
fn entity_tags_follow_rfc_9110() {
    for (lines, expected) in [
        (&["*"][..], Some(Tags::Any)),
        (&["\"5\""], Some(these(&[5]))),
        (&["\"5\", \"6\"", "\"7\""], Some(these(&[5, 6, 7]))),
        (&["W/\"5\""], Some(these(&[]))),
        (&["W/\"5\", \"6\""], Some(these(&[6]))),
        // A comma inside of a tag, or an empty member of the list, ends neither.
        (&["\"a,b\", \"5\""], Some(these(&[5]))),
        (&["\"6,\" ,\t\"7\",, \"8\","], Some(these(&[7, 8]))),
        (&["\"5\",", ", \"6\""], Some(these(&[5, 6]))),
        (&["\"W/\", \"*\""], Some(these(&[]))),
        (&[" * ,"], Some(Tags::Any)),
        (&["\"abc\", \"05\", \"+5\", \"\""], Some(these(&[]))),
        (&[], None),
    ] {
        assert_eq!(if_match(lines), Ok(Preconditions { matches: expected, none_match: None }), "{lines:?}");
    }
    for lines in [
        &["5"][..],
        &[""],
        &[" , "],
        &["\"5"],
        &["*, \"5\""],
        &["*", "\"5\""],
        &["*, *"],
        &["**"],
        &["\"5\" \"6\""],
        &["\"5\"\"6\""],
        &["w/\"5\""],
        &["W/ \"5\""],
        &["\"a b\""],
    ] {
        assert_eq!(if_match(lines), Err(RequestRefused::Header("If-Match")), "{lines:?}");
    }
    let not_utf8 = HeaderValue::from_bytes(b"\"\xfc,\", W/\"5\", \"6\"").unwrap();
    let none_match = request::preconditions(&[(header::IF_NONE_MATCH, not_utf8)].into_iter().collect());
    let expected = Preconditions { matches: None, none_match: Some(these(&[5, 6])) };
    assert_eq!(none_match, Ok(expected), "weak tags are as good as others there");
}

fn if_match(lines: &[&'static str]) -> Result<Preconditions, RequestRefused> {
    let lines = lines.iter().map(|line| (header::IF_MATCH, HeaderValue::from_static(line)));
    request::preconditions(&lines.collect())
}

fn these(versions: &[u64]) -> Tags {
    Tags::These(versions.to_vec())
}

/// A page of another site may send what has no `Content-Type` without asking first.
#[tokio::test]
async fn untyped_body_or_conditional_batch_refused() {
    let port = port().await;
    let batch = r#"{"writes":[{"method":"PUT","type":"shard","key":"a","body":{}}]}"#;
    let head = format!("Host: localhost\r\nConnection: close\r\nContent-Length: {}\r\n", batch.len());
    for (lines, status) in [
        (String::new(), 415),
        (format!("{JSON}If-Match: \"1\"\r\n"), 400),
        (format!("{JSON}If-None-Match: *\r\n"), 400),
        (JSON.to_owned(), 200),
    ] {
        let said = port.say(&format!("POST /v1/batch HTTP/1.1\r\n{head}{lines}\r\n{batch}")).await;
        assert_eq!(said.status, status, "{lines:?}: {}", said.body);
    }
}

#[test]
fn full_store_gives_definite_507() {
    let full = EngineError::Full { what: "the data directory".to_owned(), why: "the disk is full".to_owned() };
    let refused = RequestRefused::from(CatalogueError::Store(full));
    assert_eq!((refused.kind().status().as_u16(), refused.kind().into_str()), (507, "store-full"));
    assert!(refused.to_string().ends_with("nothing was written"), "{refused}");
    let failed = EngineError::NotWritten { what: "the data directory".to_owned(), why: "gone".to_owned() };
    assert_eq!(RequestRefused::from(CatalogueError::Store(failed)).kind(), ProblemKind::StoreUnavailable);
}
