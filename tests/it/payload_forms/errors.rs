//! Errors of the sidecar itself keep their status in either form: a `google.rpc.Status` for who
//! asks for Protobuf, problem+json for all others.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use nearside::http::admission::{BadHost, Refusal};
use nearside::http::body::Body;
use nearside::http::limits::{
    BODIES_BYTES, REPLY_BODY_BYTES, REQUEST_BODY_BYTES, REQUEST_HEADERS, REQUEST_TARGET_BYTES, SMALL_BODIES_BYTES,
};
use nearside::payload::mask::Mask;
use nearside::race::gather::request::Refused;
use nearside::request::answer::{ByAccept, Outcome, respond};
use nearside::shape::shapes::ShapeRefused;
use nearside::tasks::Tasks;
use prost::Message as _;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

use super::{declared, descriptors};
use crate::admission::{h2c, over_h2};
use crate::wire::{Message, Say, Wire, exchange, read_message, reply, request};

const PROTOBUF: &str = "application/x-protobuf";
const BATCH: &str = "/v1/many";

/// Message with the field numbers of google/rpc/status.proto.
#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// google/rpc/error_details.proto
#[derive(Clone, PartialEq, prost::Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
}

/// One of the sidecar's own answers, and how a caller comes to it.
struct Row {
    status: u16,
    word: &'static str,
    how: How,
    /// Who asks for Protobuf gets there.
    for_protobuf: bool,
    /// `Accept` of the other caller; `None` if only callers of Protobuf get there.
    other: Option<&'static str>,
}

enum How {
    /// A GET of this path.
    Get(&'static str),
    /// A GET of a record with this line.
    With(String),
    /// The first line of a request, its other lines, and as much of a body as is sent.
    Sent(String, Vec<String>, Vec<u8>),
    /// A batch with this content type and body.
    Batch(&'static str, Vec<u8>),
    /// One part of a batch, with this key.
    Part(&'static str),
    /// The answer alone: tests of their own bring it about, or it would take thousands of requests.
    Negotiated(Outcome),
}

fn row(status: u16, word: &'static str, how: How) -> Row {
    Row { status, word, how, for_protobuf: true, other: Some("*/*") }
}

fn get(path: &'static str) -> How {
    How::Get(path)
}

fn with(line: &str) -> How {
    How::With(line.to_owned())
}

fn post(lines: &[&str], body: &[u8]) -> How {
    let lines = lines.iter().map(|line| (*line).to_owned()).collect();
    How::Sent("POST /v1/contexts/plain HTTP/1.1".to_owned(), lines, body.to_vec())
}

fn options(target: &str) -> How {
    How::Sent(format!("OPTIONS {target} HTTP/1.1"), Vec::new(), Vec::new())
}

/// A new variant has to have its row here.
fn of_refusal(refusal: Refusal) -> Row {
    let (status, how) = match refusal {
        Refusal::Tunnel => (501, with("Upgrade: websocket")),
        Refusal::Coding => (501, post(&["Transfer-Encoding: gzip, chunked"], b"0\r\n\r\n")),
        Refusal::BadHost(_) => (400, with("Host: localhost")),
        Refusal::ForeignHost => (421, get("http://evil.example/v1/contexts/plain")),
        Refusal::CrossSite => (403, with("Sec-Fetch-Site: cross-site")),
        Refusal::Token => (401, with("X-Nearside-Token: other")),
        Refusal::BadTarget => (400, options("*")),
        Refusal::LongTarget => (414, options(&format!("/{}", "a".repeat(REQUEST_TARGET_BYTES)))),
        // HTTP/2 alone: in HTTP/1.1 it is hyper that says so, without a body.
        Refusal::LargeHead => (431, How::Negotiated(Outcome::Refused(refusal))),
        Refusal::LargeBody => (413, post(&[&format!("Content-Length: {}", REQUEST_BODY_BYTES + 1)], b"")),
        Refusal::Crowded => (503, How::Negotiated(Outcome::Refused(refusal))),
        Refusal::SlowBody => (408, How::Negotiated(Outcome::Refused(refusal))),
        Refusal::BadBody => (400, post(&["Transfer-Encoding: chunked"], b"zz\r\n")),
        Refusal::NoRoom => (503, post(&["Content-Length: 100000"], &[b'x'; 100_000])),
    };
    row(status, refusal.reason().into_str(), how)
}

/// Body of a batch of so many keys.
fn keys(count: usize) -> Vec<u8> {
    json!({"keys": vec!["a"; count]}).to_string().into_bytes()
}

/// A new variant has to have its row here.
fn of_batch(refused: Refused) -> Row {
    const JSON: &str = "application/json";
    let (status, how) = match refused {
        Refused::NotJson => (415, How::Batch("text/plain", keys(1))),
        Refused::Malformed { .. } => (400, How::Batch(JSON, b"{".to_vec())),
        Refused::ManyKeys => (413, How::Batch(JSON, keys(1001))),
        Refused::Large => (413, How::Batch(JSON, vec![b' '; (1 << 20) + 1])),
        Refused::NoRoom => (503, How::Batch(JSON, keys(1000))),
    };
    row(status, refused.reason().into_str(), how)
}

/// A new variant has to have its row here; `None` for what is no answer of the sidecar's own.
fn of(own: Outcome) -> Option<Row> {
    let row = match own {
        Outcome::Shown(_)
        | Outcome::Streamed { .. }
        | Outcome::Many { .. }
        | Outcome::ByAccept(..)
        | Outcome::Stated(..) => {
            return None;
        }
        // A node's.
        Outcome::Denied(_) => return None,
        Outcome::Refused(refusal) => of_refusal(refusal),
        Outcome::RefusedBatch(refused) => of_batch(refused),
        Outcome::Unshaped(ShapeRefused::Mask(_)) => row(400, "bad-fields", get("/v1/contexts/plain?fields=nothing")),
        Outcome::Unshaped(ShapeRefused::Mismatch) => {
            Row { other: None, ..row(502, "schema-mismatch", get("/v1/contexts/misfit")) }
        }
        Outcome::Unshaped(ShapeRefused::NoRoom) => {
            row(503, "no-room", How::Negotiated(Outcome::Unshaped(ShapeRefused::NoRoom)))
        }
        Outcome::BadKey => row(400, "bad-key", How::Part("..")),
        Outcome::LargePart => row(502, "large-part", How::Part("large")),
        Outcome::NotStored => row(504, "not-stored", with("Cache-Control: only-if-cached")),
        Outcome::BelowFloor(_) => row(504, "below-floor", get("/v1/contexts/old")),
        Outcome::NoneAnswered(_) => row(502, "no-region-answered", get("/v1/contexts/gone")),
        Outcome::Busy => row(503, "busy", How::Negotiated(Outcome::Busy)),
    };
    Some(row)
}

fn rows() -> Vec<Row> {
    let refusals = [
        Refusal::Tunnel,
        Refusal::Coding,
        Refusal::BadHost(BadHost::Several),
        Refusal::ForeignHost,
        Refusal::CrossSite,
        Refusal::Token,
        Refusal::BadTarget,
        Refusal::LongTarget,
        Refusal::LargeHead,
        Refusal::LargeBody,
        Refusal::SlowBody,
        Refusal::BadBody,
        Refusal::NoRoom,
    ];
    let malformed = Refused::Malformed { line: 1, column: 1 };
    let batches = [Refused::NotJson, malformed, Refused::ManyKeys, Refused::Large, Refused::NoRoom];
    let mask = Mask::literal("a..b").expect_err("an empty name");
    let unshaped = [ShapeRefused::Mask(mask), ShapeRefused::Mismatch, ShapeRefused::NoRoom];
    let others = [
        Outcome::BadKey,
        Outcome::LargePart,
        Outcome::NotStored,
        Outcome::BelowFloor(Vec::new()),
        Outcome::NoneAnswered(Vec::new()),
        Outcome::Busy,
    ];
    let refused = refusals.map(Outcome::Refused).into_iter().chain(batches.map(Outcome::RefusedBatch));
    let all = refused.chain(unshaped.map(Outcome::Unshaped)).chain(others);
    // Of the same outcome, too late instead of broken.
    let late = row(504, "no-region-answered", get("/v1/contexts/slow"));
    all.map(|own| of(own).expect("an answer of its own")).chain([late]).collect()
}

fn region(asked: &Message) -> Say {
    let lines = "Content-Type: application/json\nETag: \"v1\"\nX-Record-Version: 1";
    match asked.target().rsplit('/').next().unwrap() {
        "gone" => Say::Last(Vec::new()),
        "slow" => Say::Gated(Vec::new(), Arc::new(Semaphore::new(0)), Vec::new()),
        "misfit" => reply(200, lines, "{\"anInt64\":\"seven\"}"),
        // In no form that it might be refused for.
        "large" => reply(200, "Content-Type: text/plain\nX-Record-Version: 1", &"x".repeat(REPLY_BODY_BYTES + 1)),
        _ => reply(200, lines, "{\"anInt64\":\"7\"}"),
    }
}

/// Status, media type and body of what one caller gets.
type Got = (u16, String, Vec<u8>);

async fn ask(wire: &Wire, row: &Row, accept: &str) -> Got {
    let token = Some("X-Nearside-Token: s3cret".to_owned()).filter(|_| row.word != "token");
    let lines = [format!("Accept: {accept}")].into_iter().chain(token);
    let bytes = match &row.how {
        How::Get(path) => head(&format!("GET {path} HTTP/1.1"), lines, b""),
        How::With(line) => head("GET /v1/contexts/plain HTTP/1.1", lines.chain([line.clone()]), b""),
        How::Sent(first, more, body) => head(first, lines.chain(more.iter().cloned()), body),
        How::Batch(media_type, body) => batch(lines, media_type, body),
        How::Part(key) => batch(lines, "application/json", json!({"keys": [key]}).to_string().as_bytes()),
        How::Negotiated(_) => Vec::new(),
    };
    let got = match &row.how {
        How::Negotiated(outcome) => return reported(outcome, accept),
        how => {
            let mut stream = wire.connect().await;
            let got = exchange(&mut stream, &bytes, false).await;
            // What is cut short is answered when no more can come.
            let _gone = stream.shutdown().await;
            let got = got.unwrap_or_else(|| panic!("{}: an answer", row.word));
            if !matches!(how, How::Part(_)) {
                return (got.status(), got.header("content-type").to_owned(), got.body);
            }
            got
        }
    };
    assert_eq!(got.status(), 200, "{}", row.word);
    let document: Value = serde_json::from_slice(&got.body).unwrap();
    let part = &document["parts"][0];
    let body = match (&part["encoding"], &part["body"]) {
        (Value::Null, body) => body.to_string().into_bytes(),
        (_, body) => BASE64.decode(body.as_str().unwrap()).unwrap(),
    };
    let media_type = part["contentType"].as_str().unwrap_or_else(|| panic!("{part}"));
    (part["status"].as_u64().unwrap() as u16, media_type.to_owned(), body)
}

fn head(first: &str, lines: impl Iterator<Item = String>, body: &[u8]) -> Vec<u8> {
    let lines: String = lines.map(|line| line + "\r\n").collect();
    let absolute = first.split_once("http://").and_then(|(_, rest)| rest.split('/').next());
    let host = absolute.unwrap_or("127.0.0.1");
    [format!("{first}\r\nHost: {host}\r\n{lines}\r\n").as_bytes(), body].concat()
}

fn batch(lines: impl Iterator<Item = String>, media_type: &str, body: &[u8]) -> Vec<u8> {
    let lines: Vec<_> = lines.chain([format!("Content-Type: {media_type}")]).collect();
    request("POST", BATCH, &lines.iter().map(String::as_str).collect::<Vec<_>>(), body)
}

fn reported(outcome: &Outcome, accept: &str) -> Got {
    let again = match outcome {
        Outcome::Refused(refusal) => Outcome::Refused(*refusal),
        Outcome::Unshaped(_) => Outcome::Unshaped(ShapeRefused::NoRoom),
        _ => Outcome::Busy,
    };
    let by_accept = (accept == PROTOBUF).then_some(ByAccept { protobuf: Some(PROTOBUF) });
    let response = respond(again.negotiated(by_accept), &[]);
    let (head, body) = response.into_parts();
    let Body::Whole(Some(body)) = body else { panic!("it has a body") };
    (head.status.as_u16(), head.headers["content-type"].to_str().unwrap().to_owned(), body.to_vec())
}

/// Returns the problem.
fn is_problem(row: &Row, (status, media_type, body): &Got) -> Value {
    assert_eq!((*status, &**media_type), (row.status, "application/problem+json"), "{}", row.word);
    let said: Value = serde_json::from_slice(body).unwrap();
    assert_eq!(said["type"], format!("urn:nearside:problem:{}", row.word));
    assert_eq!(said["status"], row.status);
    said
}

/// Returns what it says to people.
fn is_status(row: &Row, (status, media_type, body): &Got) -> String {
    assert_eq!((*status, &**media_type), (row.status, PROTOBUF), "{}", row.word);
    let parsed = Status::decode(&**body).unwrap();
    let info = ErrorInfo::decode(&*parsed.details[0].value).unwrap();
    assert!(parsed.code > 0 && !parsed.message.is_empty(), "{}: {parsed:?}", row.word);
    assert_eq!((&*info.reason, &*info.domain), (row.word, "nearside"));
    parsed.message
}

async fn each_keeps_its_status(fast: bool) {
    let (descriptors, folder) = (descriptors(), tempfile::tempdir().unwrap());
    let token = folder.path().join("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let route = declared(&descriptors, &format!("fields = \"fields\"\nbatch = \"{BATCH}\"\n"));
    let settings = format!(
        "listen.fast = {fast}\nlisten.token_file = \"{}\"\nfreshness.strict = true\n\
         race.deadline = \"300ms\"\n{route}",
        token.display()
    );
    let wire = Wire::with(1, &settings, region).await;
    wire.live();
    wire.announce("context", "old", Some(9));
    for row in rows() {
        let mut held = Vec::new();
        if row.word == "no-room" {
            let mut bytes = BODIES_BYTES;
            while bytes >= SMALL_BODIES_BYTES as u64 / 64 {
                match wire.app.sidecar.shared.bodies.reserve(bytes) {
                    Some(reserved) => held.push(reserved),
                    None => bytes /= 2,
                }
            }
        }
        let said = match row.other {
            Some(accept) => is_problem(&row, &ask(&wire, &row, accept).await),
            None => Value::Null,
        };
        if row.for_protobuf {
            let detail = is_status(&row, &ask(&wire, &row, PROTOBUF).await);
            assert!(said.is_null() || said["detail"] == *detail, "{said} {detail}");
        }
    }
    wire.end().await;
}

#[tokio::test]
async fn own_answers_parse_in_either_form() {
    each_keeps_its_status(true).await;
}

#[tokio::test]
async fn own_answers_parse_likewise_over_hyper() {
    each_keeps_its_status(false).await;
}

#[tokio::test(start_paused = true)]
async fn slow_body_refusal_keeps_callers_form() {
    let descriptors = descriptors();
    let wire = Wire::with(1, &declared(&descriptors, ""), region).await;
    let row = of_refusal(Refusal::SlowBody);
    for accept in [PROTOBUF, "*/*"] {
        let lines = [format!("Accept: {accept}"), "Content-Length: 10".to_owned()].into_iter();
        let mut stream = wire.connect().await;
        stream.write_all(&head("POST /v1/contexts/plain HTTP/1.1", lines, b"12345")).await.unwrap();
        let got = read_message(&mut stream, false).await.expect("an answer");
        let got = (got.status(), got.header("content-type").to_owned(), got.body);
        match accept {
            PROTOBUF => drop(is_status(&row, &got)),
            _ => drop(is_problem(&row, &got)),
        }
    }
    wire.end().await;
}

#[tokio::test]
async fn oversized_http2_head_keeps_callers_form() {
    let descriptors = descriptors();
    let (wire, tasks) = (Wire::with(1, &declared(&descriptors, ""), region).await, Tasks::new());
    let row = of_refusal(Refusal::LargeHead);
    for accept in [PROTOBUF, "*/*"] {
        let many: Vec<_> = (0..=REQUEST_HEADERS).map(|_| ("x-many", "y")).chain([("accept", accept)]).collect();
        let mut sender = h2c(&wire, &tasks).await;
        let url = "http://localhost/v1/contexts/plain";
        let (status, headers, body) = over_h2(&mut sender, "GET", url, &many, Vec::new()).await;
        let got = (status, headers["content-type"].to_str().unwrap().to_owned(), body.to_vec());
        match accept {
            PROTOBUF => drop(is_status(&row, &got)),
            _ => drop(is_problem(&row, &got)),
        }
    }
    wire.end().await;
    tasks.drain(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn refused_head_equals_get_without_body() {
    let descriptors = descriptors();
    let (wire, tasks) = (Wire::with(1, &declared(&descriptors, ""), region).await, Tasks::new());
    let mut sender = h2c(&wire, &tasks).await;
    for (path, more) in [
        ("/v1/contexts/plain", ("cache-control", "only-if-cached")),
        ("/v1/contexts/plain", ("sec-fetch-site", "cross-site")),
    ] {
        let url = format!("http://localhost{path}");
        let lines = [("accept", PROTOBUF), more];
        let (status, get, body) = over_h2(&mut sender, "GET", &url, &lines, Vec::new()).await;
        let (head_status, head, nothing) = over_h2(&mut sender, "HEAD", &url, &lines, Vec::new()).await;
        assert_eq!((head_status, nothing.len()), (status, 0), "{more:?}");
        assert!(status >= 400 && !body.is_empty(), "{more:?}: {status} {get:?}");
        for name in ["content-length", "content-type", "vary"] {
            assert_eq!((name, head.get(name)), (name, get.get(name)));
        }
        assert_eq!(head["content-length"], body.len().to_string());
        let sent = format!(
            "HEAD {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {PROTOBUF}\r\n{}: {}\r\n\r\n",
            more.0, more.1
        );
        let one = exchange(&mut wire.connect().await, sent.as_bytes(), true).await.expect("an answer");
        assert_eq!((one.status(), one.header("content-length")), (status, &*body.len().to_string()));
    }
    drop(sender);
    wire.end().await;
    tasks.drain(Duration::from_secs(10)).await;
}
