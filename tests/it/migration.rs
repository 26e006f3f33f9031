//! OLD, CHECK and NEW between two services on real sockets: JSON at the current one, Protobuf with
//! another path at the candidate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use nearside::payload::schema::Schema;
use nearside::tasks::Tasks;
use nearside_lab::chaos_server::port::{self, Port};
use prost::Message as _;
use serde_json::Value;

use crate::program::Program;

const FIELDS: usize = 100;
const RECORDS: usize = 30;
const SECRET: &str = "planted-secret";

/// Which field of which record differs: one of a hundred, of every tenth record.
fn planted(key: usize) -> Option<usize> {
    (key % 10 == 3).then_some((key * 7 + 11) % FIELDS)
}

fn field(at: usize) -> String {
    format!("f{}{}", char::from(b'a' + (at / 26) as u8), char::from(b'a' + (at % 26) as u8))
}

fn descriptors() -> Vec<u8> {
    let fields: String = (0..FIELDS).map(|at| format!("string {} = {};\n", field(at), at + 10)).collect();
    let text = format!(
        "syntax = \"proto3\"; package acme.v1;\nmessage Context {{ int64 seat_count = 1; bool is_off = 2;\n\
         map<string, Person> people = 3; {fields} }}\nmessage Person {{ int32 age = 1; }}"
    );
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("context.proto"), text).unwrap();
    protox::compile(["context.proto"], [directory.path()]).unwrap().encode_to_vec()
}

/// A record as JSON. `other` spells and omits as another service might.
fn record(key: usize, differs: Option<usize>, other: bool) -> String {
    let mut values: Vec<String> = (0..FIELDS).map(|at| format!("value-{key}-{at}-secret")).collect();
    if let Some(at) = differs {
        values[at] = SECRET.to_owned();
    }
    let fields: Vec<_> = (0..).zip(values).map(|(at, value)| format!("\"{}\":\"{value}\"", field(at))).collect();
    let people = "{\"someone.secret@example.com\":{\"age\":1}}";
    if other {
        format!("{{{},\"people\":{people},\"seat_count\":\"5\"}}", fields.join(", "))
    } else {
        format!("{{\"seatCount\":5,\"isOff\":false,\"people\":{people},{}}}", fields.join(","))
    }
}

struct Services {
    tasks: Tasks,
    current: Port,
    candidate: Port,
    /// Requests that the candidate saw.
    asked: Arc<AtomicU64>,
}

impl Services {
    /// The current service states version 7 of everything, the candidate `version`.
    fn start(schema: Schema, version: u64) -> Self {
        let (tasks, asked, schema) = (Tasks::new(), Arc::new(AtomicU64::new(0)), Arc::new(schema));
        let (current, candidate) = (Port::hold(0).unwrap(), Port::hold(0).unwrap());
        tasks.spawn(
            "current",
            port::serve(current.listen().unwrap(), tasks.clone(), "connection", |request| async move {
                let key = key_of(&request, "/v1/contexts/");
                reply(record(key, None, false).into(), "application/json", 7)
            }),
        );
        let seen = asked.clone();
        tasks.spawn(
            "candidate",
            port::serve(candidate.listen().unwrap(), tasks.clone(), "connection", move |request| {
                let (schema, seen) = (schema.clone(), seen.clone());
                async move {
                    seen.fetch_add(1, Ordering::SeqCst);
                    assert!(request.headers()["accept"].to_str().unwrap().starts_with("application/x-protobuf"));
                    let key = key_of(&request, "/records/");
                    let body = schema.to_protobuf(record(key, planted(key), true).as_bytes()).unwrap().body;
                    reply(body.into(), "application/x-protobuf", version)
                }
            }),
        );
        Self { tasks, current, candidate, asked }
    }

    fn settings(&self, file: &std::path::Path, mode: &str) -> String {
        let regions: String = ["eu", "us"]
            .map(|name| {
                format!("[[service.region]]\nname = \"{name}\"\nurl = \"http://{}/{name}\"\n", self.current.address())
            })
            .concat();
        format!(
            "[service]\nname = \"contexts\"\n{regions}[[service.route]]\npath = \"/v1/contexts/{{key}}\"\n\
             records = [\"context:{{key}}\"]\nschema = \"{}#acme.v1.Context\"\ncandidate = {{ path = \"/records/{{key}}\", \
             url = \"http://{}/{{region}}\", form = \"protobuf\", {mode} }}\n[announcements]\ntransport = \"off\"\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n[log]\nformat = \"json\"\nfilter = \"debug\"\n[listen]\n\
             tcp = \"127.0.0.1:0\"\n[freshness]\naudit_period = \"0s\"\nstrict = true\n",
            file.display(),
            self.candidate.address()
        )
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        self.tasks.stopping().cancel();
    }
}

fn key_of(request: &Request<Incoming>, below: &str) -> usize {
    let (region, key) = request.uri().path().split_once(below).expect("a path of this service");
    assert!(["/eu", "/us"].contains(&region), "{region}");
    key.parse().unwrap()
}

fn reply(body: Bytes, media_type: &str, version: u64) -> Response<Full<Bytes>> {
    let reply = Response::builder().header("content-type", media_type).header("x-record-version", version);
    reply.body(Full::new(body)).unwrap()
}

struct Got {
    status: u16,
    line: String,
    body: String,
    version: String,
}

async fn get(program: &Program, key: usize) -> Got {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let answer = client.get(format!("http://{}/v1/contexts/{key}", program.tcp)).send().await.unwrap();
    let [line, version] =
        ["cache-status", "x-record-version"].map(|name| answer.headers()[name].to_str().unwrap().to_owned());
    let status = answer.status().as_u16();
    Got { status, line, version, body: answer.text().await.unwrap() }
}

fn written(descriptors: &[u8]) -> (tempfile::TempDir, std::path::PathBuf, Schema) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("contexts.binpb");
    std::fs::write(&file, descriptors).unwrap();
    (directory, file, Schema::read(descriptors, "acme.v1.Context").unwrap())
}

#[tokio::test]
async fn check_finds_planted_differences_without_values() {
    let (_directory, file, schema) = written(&descriptors());
    let services = Services::start(schema, 7);
    let program = Program::start(&services.settings(&file, "mode = \"old\"")).await;
    for key in 0..RECORDS {
        assert_eq!(get(&program, RECORDS + key).await.status, 200);
    }
    assert_eq!(services.asked.load(Ordering::SeqCst), 0, "old asks the candidate nothing");
    let done = program.reload(&services.settings(&file, "mode = \"check\", check_share = 1")).await;
    assert_eq!(done["outcome"], "applied", "{done}");
    for key in 0..RECORDS {
        let got = get(&program, key).await;
        assert_eq!(
            (got.status, &*got.body),
            (200, &*record(key, None, false)),
            "byte for byte the current upstream's"
        );
    }
    let status = program
        .until("/status", |status| {
            let ended = &status["migrations"][0]["comparisons"];
            ended["same"].as_u64().unwrap() + ended["differs"].as_u64().unwrap() == RECORDS as u64
        })
        .await;
    let mut expected: Vec<String> = (0..RECORDS).filter_map(planted).map(|at| format!("/{}", field(at))).collect();
    expected.sort();
    let migration = &status["migrations"][0];
    let mut found: Vec<String> = migration["places"]
        .as_array()
        .unwrap()
        .iter()
        .map(|place| place["pointer"].as_str().unwrap().to_owned())
        .collect();
    found.sort();
    assert_eq!(found, expected, "{migration}");
    assert_eq!((&migration["mode"], &migration["comparisons"]["differs"]), (&"check".into(), &expected.len().into()));
    let (_, metrics) = program.page("/metrics").await;
    let route = "route=\"/v1/contexts/{key}\"";
    for line in [
        format!("nearside_comparisons_total{{{route},result=\"differs\"}} {}", expected.len()),
        format!("nearside_comparisons_total{{{route},result=\"version-differs\"}} 0"),
        format!("nearside_comparison_differences_total{{{route},pointer=\"{}\"}} 1", expected[0]),
    ] {
        assert!(metrics.lines().any(|shown| shown == line), "{line} is missing from\n{metrics}");
    }
    assert!(metrics.contains(&format!("nearside_comparison_clean_seconds{{{route}}} ")), "{metrics}");
    for page in [metrics, status.to_string(), program.lines().concat()] {
        assert!(!page.contains("secret"), "{page}");
    }
    program.reload(&services.settings(&file, "mode = \"new\"")).await;
    let got = get(&program, 4).await;
    assert_eq!((got.status, got.line.contains("fwd=uri-miss")), (200, true), "{}", got.line);
    let value: Value = serde_json::from_str(&got.body).unwrap();
    assert_eq!((&value["seatCount"], &value["faa"]), (&"5".into(), &"value-4-0-secret".into()), "derived JSON");
    assert!(get(&program, 4).await.line.contains("hit"));
}

#[tokio::test]
async fn foreign_version_numbers_poison_no_floor() {
    let (_directory, file, schema) = written(&descriptors());
    let services = Services::start(schema, 4_000_000);
    let [old, new] =
        ["old", "new"].map(|mode| services.settings(&file, &format!("versions = \"own\", mode = \"{mode}\"")));
    let program = Program::start(&old).await;
    let (old, new) = (("old", &old, "7"), ("new", &new, "4000000"));
    for (turn, settings, version) in [old, new, old, new, old] {
        program.reload(settings).await;
        for key in 0..5 {
            for _ in 0..3 {
                let got = get(&program, key).await;
                assert_eq!((got.status, &*got.version), (200, version), "{turn}: {}", got.line);
                assert!(!got.line.contains("below-floor") && !got.line.contains("floor-escaped"), "{}", got.line);
            }
        }
    }
    let asked = services.asked.load(Ordering::SeqCst);
    assert_eq!(asked, 2 * 5, "each region once for each record, and then no more");
    let metrics = program.page("/metrics").await.1;
    assert!(
        !metrics.lines().any(|line| line.starts_with("nearside_alarms_total") && !line.ends_with(" 0")),
        "{metrics}"
    );
}
