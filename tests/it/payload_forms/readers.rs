//! Callers of Protobuf in two languages, with the libraries that they would use anyway, before
//! regions that speak JSON.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{declared, descriptors};
use crate::drop_in::clients;
use crate::program;
use crate::wire::{Message, Say, Wire, reply};

/// An application that reads records; it ends with its handle.
struct Reader {
    child: Child,
    asks: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

/// Answer as the reader's library parses it.
#[derive(Debug, Deserialize)]
struct Seen {
    status: u16,
    headers: serde_json::Map<String, Value>,
    record: Option<Value>,
    text: Option<String>,
    /// Code of a `google.rpc.Status`.
    code: Option<i32>,
    message: Option<String>,
    reason: Option<String>,
    domain: Option<String>,
}

impl Seen {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn is_hit(&self) -> bool {
        self.header("cache-status").starts_with("nearside; hit")
    }
}

impl Reader {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let asks = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, asks, answers }
    }

    fn get(&mut self, path: &str, headers: Value) -> Seen {
        tokio::task::block_in_place(|| {
            writeln!(self.asks, "{}", json!({"path": path, "headers": headers})).unwrap();
            let line = self.answers.next().expect("an answer; what it said instead is above").unwrap();
            serde_json::from_str(&line).unwrap()
        })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first record, in two versions; and what goes wrong.
fn region(asked: &Message, version: u64) -> Say {
    let record = json!({
        "aString": "€", "anInt64": "9007199254740993", "aColour": "COLOUR_RED", "mayInt32": 0,
        "strings": ["a", "b"], "unknown": {"x": 1}, "aUint64": version.to_string(),
    });
    let lines =
        format!("Content-Type: application/json\nETag: \"v{version}\"\nX-Record-Version: {version}\nX-Service: a");
    match asked.target().rsplit('/').next().unwrap() {
        "missing" => reply(404, "Content-Type: application/problem+json\nX-Service: a", "{\"status\": 404}"),
        "gone" => Say::Last(Vec::new()),
        "slow" => Say::Gated(Vec::new(), Arc::new(Semaphore::new(0)), Vec::new()),
        _ => reply(200, &lines, &record.to_string()),
    }
}

fn record(version: u64) -> Value {
    json!({
        "aString": "€", "anInt64": "9007199254740993", "aColour": "COLOUR_RED", "mayInt32": 0,
        "strings": ["a", "b"], "aUint64": version.to_string(),
    })
}

/// The arguments are the sidecar's URL, a descriptor set and a message.
async fn reads(command: impl FnOnce(&[&str]) -> Command) {
    const PATH: &str = "/v1/contexts/acme";
    let descriptors = descriptors();
    let settings = format!("race.deadline = \"500ms\"\n{}", declared(&descriptors, ""));
    let wire = Wire::with(3, &settings, |asked| region(asked, 1)).await;
    wire.live();
    let base = format!("http://{}", wire.app.tcp.unwrap());
    let mut reader = Reader::start(command(&[&base, program::path(descriptors.path()), "nearside.test.Kinds"]));

    let first = reader.get(PATH, json!({}));
    assert_eq!((first.status, first.record.as_ref(), first.is_hit()), (200, Some(&record(1)), false), "{first:?}");
    assert_eq!((first.header("content-type"), first.header("x-service")), ("application/x-protobuf", "a"));
    wire.idle().await;
    let again = reader.get(PATH, json!({}));
    assert_eq!((again.record.as_ref(), again.is_hit()), (Some(&record(1)), true), "{again:?}");
    let tag = first.header("etag");
    assert!(tag.starts_with("\"v1~p") && tag == again.header("etag"), "{tag}");
    let same = reader.get(PATH, json!({"If-None-Match": tag}));
    assert_eq!((same.status, same.header("etag"), same.text.as_deref()), (304, tag, Some("")), "{same:?}");

    wire.says(|asked| region(asked, 2));
    wire.announce("context", "acme", Some(2));
    let changed = reader.get(PATH, json!({"If-None-Match": tag}));
    assert_eq!((changed.status, changed.record.as_ref()), (200, Some(&record(2))), "{changed:?}");
    assert!(changed.header("etag").starts_with("\"v2~p"), "{changed:?}");
    // The same reader's other form, by its own name.
    let other = reader.get(PATH, json!({"accept": "application/json"}));
    let text: Value = serde_json::from_str(other.text.as_deref().unwrap()).unwrap();
    assert_eq!((&text["aUint64"], other.header("etag")), (&json!("2"), "\"v2\""), "the region's own bytes");

    let missing = reader.get("/v1/contexts/missing", json!({}));
    assert_eq!((missing.status, missing.text.as_deref()), (404, Some("{\"status\": 404}")), "{missing:?}");
    assert_eq!(missing.header("content-type"), "application/problem+json");
    for (key, status, code) in [("gone", 502, 14), ("slow", 504, 4)] {
        let error = reader.get(&format!("/v1/contexts/{key}"), json!({}));
        assert_eq!((error.status, error.code), (status, Some(code)), "{error:?}");
        let said = (error.reason.as_deref(), error.domain.as_deref());
        assert_eq!(said, (Some("no-region-answered"), Some("nearside")), "{error:?}");
        assert!(error.message.is_some_and(|message| message.starts_with("no region gave an answer")));
    }
    drop(reader);
    wire.end().await;
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_reads_protobuf_records() {
    reads(|arguments| {
        let mut command = Command::new(clients().join("bin/python"));
        command.arg(script("records.py")).args(arguments);
        command
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_reads_protobuf_records() {
    reads(|arguments| {
        let mut command = Command::new("node");
        command.arg(script("records.mjs")).args(arguments).arg(clients());
        command
    })
    .await;
}
