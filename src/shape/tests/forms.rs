//! JSON and Protobuf of one record: a test for each sentence that docs/payloads.md says of forms
//! and validators.

use std::path::PathBuf;
use std::sync::Arc;

use http_body_util::BodyExt;
use parking_lot::Mutex;
use tempfile::TempDir;

use super::*;
use crate::http::admission::Admitted;
use crate::request::answer::respond;
use crate::request::scripted::{B, SECOND, status};
use crate::request::serve::serve;

pub(super) const SCHEMA: &str = "syntax = \"proto3\"; package acme.v1;
message Context { int64 seats = 1; Plan plan = 2; optional string note = 3; map<string, Plan> old_plans = 4; }
message Plan { string name = 1; string sold_by = 2; }";
pub(super) const RECORD: &str = r#"{"seats": 9, "plan": {"name": "team"}, "since": 2019}"#;
/// The record as Protobuf, without what the schema does not know.
pub(super) const BINARY: &[u8] = b"\x08\x09\x12\x06\x0a\x04team";
pub(super) const PROTOBUF: (&str, &str) = ("accept", "application/x-protobuf");

/// Routes with a message: `/v1/forms/{key}`, and with more settings.
pub(super) struct Forms {
    pub(super) world: World,
    directory: TempDir,
}

/// Writes a schema as a descriptor set; returns the file.
fn compile(directory: &TempDir, schema: &str) -> PathBuf {
    /// The compiler reads its standard files; one at a time is quick enough.
    static ONE: Mutex<()> = Mutex::new(());
    std::fs::write(directory.path().join("context.proto"), schema).unwrap();
    let compiled = {
        let _one = ONE.lock();
        protox::compile(["context.proto"], [directory.path()]).unwrap()
    };
    let file = directory.path().join("contexts.binpb");
    std::fs::write(&file, prost::Message::encode_to_vec(&compiled)).unwrap();
    file
}

fn page(forms: &Forms) -> String {
    forms.world.sidecar.fill.shared.metrics.render(&Default::default())
}

impl Forms {
    pub(super) fn new(say: Say) -> Self {
        Self::with("", say)
    }

    pub(super) fn with(settings: &str, say: Say) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = compile(&directory, SCHEMA);
        let route = format!(
            "[[service.route]]\npath = \"/v1/forms/{{key}}\"\nrecords = [\"context:{{key}}\"]\n\
             schema = \"{}#acme.v1.Context\"\nfields = \"fields\"\n{settings}\n",
            file.display()
        );
        Self { world: World::with(&route, all(say)), directory }
    }

    /// Another schema in the same file.
    pub(super) fn reload(&mut self, schema: &str) {
        compile(&self.directory, schema);
        self.world.reload(|_| {});
    }

    /// A condition as a region gets it, of a request that only a region can answer.
    async fn asked_with(&self, name: &'static str, value: &str) -> String {
        self.world.requests();
        let passed = ("if-unmodified-since", "Thu, 01 Jan 1970 00:00:00 GMT");
        self.get("/v1/forms/y", &[(name, value), passed]).await;
        self.world.requests()[0].2.headers[name].to_str().unwrap().to_owned()
    }

    pub(super) async fn get(&self, path: &str, sent: &[(&'static str, &str)]) -> Answer {
        get(&self.world, path, sent).await
    }
}

#[tokio::test(start_paused = true)]
async fn one_fill_serves_json_and_protobuf() {
    let forms = Forms::new(json(RECORD));
    let axios = ("accept", "application/json, text/plain, */*");
    for line in [axios, ("accept", "*/*"), ("accept", "application/json"), ("date", "")] {
        let answer = forms.get("/v1/forms/x", &[line]).await;
        assert_eq!((answer.status, answer.body.as_str(), answer.header("etag")), (200, RECORD, "\"v1\""));
        assert_eq!(answer.header("content-type"), "application/json");
    }
    let binary = forms.get("/v1/forms/x", &[PROTOBUF]).await;
    assert_eq!((binary.status, &binary.bytes[..]), (200, BINARY));
    assert_eq!(binary.header("content-type"), "application/x-protobuf");
    let other = forms.get("/v1/forms/x", &[("accept", "application/protobuf")]).await;
    assert_eq!((other.header("content-type"), &other.bytes[..]), ("application/protobuf", BINARY));
    assert!(binary.is_hit() && other.is_hit());
    let asked = forms.world.requests();
    assert_eq!(asked.len(), REGIONS);
    assert!(asked.iter().all(|(_, _, request)| request.headers["accept"] == "application/json"));
    forms.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_region_status_carries_vary() {
    for code in [200, 204, 300, 301, 302, 400, 401, 403, 404, 410, 421, 429, 500, 503] {
        let forms = Forms::new(status(code).with("x-of", "region"));
        for method in [Method::GET, Method::HEAD] {
            let answer = forms.world.ask(method.clone(), "/v1/forms/x", HeaderMap::new()).await;
            assert_eq!((answer.status, answer.header("x-of")), (code, "region"), "{method}");
            let vary: Vec<_> = answer.headers.get_all("vary").iter().collect();
            assert_eq!(vary, ["accept", "accept-encoding"], "{code} {method}");
        }
        forms.world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn derived_form_sets_etag_and_vary() {
    let forms = Forms::new(json(RECORD).with("repr-digest", "sha-256=:x:").with("accept-ranges", "bytes"));
    let plain = forms.get("/v1/forms/x", &[]).await;
    let binary = forms.get("/v1/forms/x", &[PROTOBUF]).await;
    for answer in [&plain, &binary] {
        let vary: Vec<_> = answer.headers.get_all("vary").iter().collect();
        assert_eq!(vary, ["accept", "accept-encoding"]);
    }
    assert_eq!((binary.header("repr-digest"), binary.header("accept-ranges")), ("", ""));
    assert_eq!(plain.header("repr-digest"), "sha-256=:x:");
    let tag = binary.header("etag");
    assert!(tag.starts_with("\"v1~p") && tag.len() == "\"v1~p0123456789abcdef0123\"".len(), "{tag}");
    for (accept, named, status) in [
        ("application/x-protobuf", tag, 304),
        ("application/x-protobuf", "\"v1\"", 200),
        ("application/json", tag, 200),
        ("application/json", "\"v1\"", 304),
    ] {
        let answer = forms.get("/v1/forms/x", &[("accept", accept), ("if-none-match", named)]).await;
        assert_eq!((answer.status, answer.is_hit()), (status, true), "{accept} {named}");
        if status == 304 {
            assert_eq!(answer.header("etag"), named);
        }
    }
    let head = forms.world.ask(Method::HEAD, "/v1/forms/x", lines(&[PROTOBUF])).await;
    assert_eq!((head.header("content-length"), head.header("etag")), (&*BINARY.len().to_string(), tag));
    forms.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn json_is_derived_from_protobuf_region() {
    let binary = body(BINARY).with("content-type", "application/x-protobuf").with("etag", "W/\"v1\"");
    let forms = Forms::with("form = \"protobuf\"", binary);
    let json = forms.get("/v1/forms/x", &[]).await;
    assert_eq!(json.header("content-type"), "application/json");
    let value: serde_json::Value = serde_json::from_str(&json.body).unwrap();
    assert_eq!(value, serde_json::json!({"seats": "9", "plan": {"name": "team"}}));
    assert!(json.header("etag").starts_with("W/\"v1~j") && json.header("etag").ends_with('"'));
    assert_eq!(&forms.get("/v1/forms/x", &[PROTOBUF]).await.bytes[..], BINARY);
    assert_eq!(forms.get("/v1/forms/x?fields=plan.name", &[]).await.body, r#"{"plan":{"name":"team"}}"#);
    let accept = "application/x-protobuf, application/json;q=0.5";
    assert!(forms.world.requests().iter().all(|(_, _, request)| request.headers["accept"] == accept));
    forms.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn other_accept_is_forwarded_and_separate() {
    let forms = Forms::new(json(RECORD));
    let versioned = ("accept", "application/vnd.acme.v2+json");
    assert_eq!(forms.get("/v1/forms/x", &[versioned]).await.body, RECORD);
    assert!(forms.world.requests().iter().all(|(_, _, request)| request.headers["accept"] == versioned.1));
    assert!(!forms.get("/v1/forms/x", &[]).await.is_hit());
    forms.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_transform_reply_is_never_derived() {
    for forbidden in
        [("cache-control", "max-age=60, no-transform"), ("signature", "sig1=:x:"), ("content-encoding", "br")]
    {
        let forms = Forms::new(json(RECORD).with(forbidden.0, forbidden.1));
        let either = ("accept", "application/x-protobuf, application/json;q=0.1");
        let own = forms.get("/v1/forms/x", &[either]).await;
        assert_eq!((own.status, own.body.as_str(), own.header("etag")), (200, RECORD, "\"v1\""), "{forbidden:?}");
        let none = forms.get("/v1/forms/x", &[PROTOBUF]).await;
        assert_eq!((none.status, none.header("content-type")), (502, "application/x-protobuf"), "{forbidden:?}");
        forms.world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn mismatched_record_served_raw_or_502() {
    for unfit in [r#"{"seats": {"a": 1}}"#, r#"{"seats": 1, "seats": 2}"#, "no JSON"] {
        let forms = Forms::new(json(unfit));
        for _ in 0..3 {
            let none = forms.get("/v1/forms/x", &[PROTOBUF]).await;
            assert_eq!(none.status, 502);
            assert!(String::from_utf8_lossy(&none.bytes).contains("schema-mismatch"), "{:?}", none.bytes);
            let own = forms.get("/v1/forms/x", &[("accept", "application/x-protobuf, */*;q=0.1")]).await;
            assert_eq!((own.status, own.body.as_str()), (200, unfit));
        }
        assert!(page(&forms).contains("nearside_payload_mismatches_total 1"));
        forms.world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn default_message_derives_as_empty() {
    let forms = Forms::new(json("{}"));
    let empty = forms.get("/v1/forms/x", &[PROTOBUF]).await;
    assert_eq!((empty.status, empty.bytes.len(), empty.header("content-type")), (200, 0, "application/x-protobuf"));
    assert!(forms.get("/v1/forms/x", &[PROTOBUF]).await.is_hit());
    forms.world.stop().await;
    let empty = body("").with("content-type", "application/x-protobuf");
    let forms = Forms::with("form = \"protobuf\"", empty);
    assert_eq!(forms.get("/v1/forms/x", &[]).await.body, "{}");
    forms.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_own_errors_take_callers_form() {
    let forms = Forms::new(status(404).with("content-type", "application/problem+json"));
    let absent = forms.get("/v1/forms/x", &[PROTOBUF]).await;
    assert_eq!((absent.status, absent.header("content-type")), (404, "application/problem+json"));
    forms.world.set_all(5, Act::Hang);
    for (sent, media_type) in [(PROTOBUF, "application/x-protobuf"), (("accept", "*/*"), "application/problem+json")]
    {
        let late = forms.get("/v1/forms/y", &[sent]).await;
        assert_eq!((late.status, late.header("content-type")), (504, media_type));
        let missing = forms.get("/v1/forms/z", &[sent, ("cache-control", "only-if-cached")]).await;
        assert_eq!((missing.status, missing.header("content-type")), (504, media_type));
        let bad = forms.get("/v1/forms/z?fields=unknown", &[sent]).await;
        assert_eq!((bad.status, bad.header("content-type")), (400, media_type));
    }
    forms.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn fields_select_json_but_not_protobuf() {
    let forms = Forms::new(json(RECORD));
    assert_eq!(forms.get("/v1/forms/x?fields=plan", &[]).await.body, r#"{"plan": {"name": "team"}}"#);
    assert_eq!(&forms.get("/v1/forms/x?fields=plan", &[PROTOBUF]).await.bytes[..], BINARY);
    assert_eq!(forms.world.asked().len(), REGIONS);
    forms.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn derived_range_ignored_and_condition_translated() {
    let forms = Forms::new(json(RECORD));
    let binary = forms.get("/v1/forms/x", &[PROTOBUF, ("range", "bytes=0-1")]).await;
    assert_eq!((binary.status, &binary.bytes[..]), (200, BINARY));
    let named = format!("{}, W/\"other\"", binary.header("etag"));
    assert_eq!(forms.asked_with("if-match", &named).await, "\"v1\", W/\"other\"");
    forms.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn lookalike_derived_etag_is_passed_unchanged() {
    let binary = body(BINARY).with("content-type", "application/x-protobuf").with("etag", "W/\"v1\"");
    let forms = Forms::with("form = \"protobuf\"", binary);
    let both = forms.get("/v1/forms/x?fields=plan.name", &[]).await.header("etag").to_owned();
    assert!(both.contains("~j") && both.contains("~m"), "{both}");
    assert_eq!(forms.asked_with("if-match", &both).await, "W/\"v1\"");
    assert_eq!(forms.asked_with("if-range", &both).await, both, "parts of the region's bytes are no parts of these");
    let last = both.len() - 2;
    let off_by_one = format!("{}{}\"", &both[..last], if &both[last..=last] == "0" { "1" } else { "0" });
    for own in ["\"a~p0123456789abcdef\"", "\"a~m0123456789abcdef0123\"", "\"~p\"", "\"\"", &off_by_one] {
        assert_eq!(forms.asked_with("if-match", own).await, own);
    }
    forms.world.stop().await;
    let without = get_of_contexts(&both).await;
    assert_eq!(without, both, "a route that makes nothing strips nothing");
}

/// `If-Match` as a region gets it on a route that declares nothing.
async fn get_of_contexts(tag: &str) -> String {
    let world = World::new(all(json(RECORD)));
    get(&world, "/v1/contexts/x/full", &[("if-match", tag)]).await;
    let sent = world.requests()[0].2.headers["if-match"].to_str().unwrap().to_owned();
    world.stop().await;
    sent
}

#[tokio::test(start_paused = true)]
async fn pass_asks_routes_form_without_fields() {
    let forms = Forms::new(json(RECORD));
    let (either, condition) = (("accept", "application/x-protobuf, application/json;q=0.1"), ("if-match", "\"v1\""));
    for method in [Method::GET, Method::HEAD] {
        let path = "/v1/forms/x?a=1&fields=plan&b=2";
        let whole = forms.world.ask(method.clone(), path, lines(&[either, condition])).await;
        assert_eq!((whole.status, whole.header("content-type")), (200, "application/json"), "{method}");
        assert!(whole.header("vary").contains("accept"));
        if method == Method::GET {
            assert_eq!(whole.body, RECORD);
        }
    }
    let asked = forms.world.requests();
    assert!(asked.len() >= 2);
    for (_, _, request) in asked {
        assert_eq!(
            (&*request.path_and_query, &request.headers["accept"]),
            ("/v1/forms/x?a=1&b=2", &http::HeaderValue::from_static("application/json"))
        );
    }
    let other = forms.get("/v1/forms/x", &[PROTOBUF, condition]).await;
    assert_eq!(other.status, 502, "a caller who takes no JSON gets none");
    forms.world.requests();
    assert_eq!(forms.get("/v1/forms/x?fields=unknown", &[condition]).await.status, 400);
    assert!(forms.world.asked().is_empty());
    forms.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_cache_refetches_mismatched_bytes() {
    let forms = Forms::new(json("no JSON"));
    assert_eq!(forms.get("/v1/forms/x", &[PROTOBUF]).await.status, 502);
    // Mended, and the region forgot to change its tag.
    forms.world.set_all(5, json(RECORD));
    assert_eq!(forms.get("/v1/forms/x", &[PROTOBUF]).await.status, 502);
    let again = forms.get("/v1/forms/x", &[PROTOBUF, ("cache-control", "no-cache")]).await;
    assert_eq!((again.status, &again.bytes[..]), (200, BINARY));
    forms.world.requests();
    forms.get("/v1/forms/x", &[PROTOBUF, ("cache-control", "no-cache")]).await;
    let requests = forms.world.requests();
    let is_conditional = requests.iter().all(|(_, _, request)| request.headers.contains_key("if-none-match"));
    assert!(is_conditional, "what fits is revalidated");
    forms.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn empty_batch_message_states_content_type() {
    let forms = Forms::with("batch = \"/v1/many\"", json("{}"));
    let admitted = Admitted {
        method: Method::POST,
        path_and_query: "/v1/many".to_owned(),
        path_len: "/v1/many".len(),
        headers: lines(&[PROTOBUF, ("content-type", "application/json")]),
        body: r#"{"keys":["x"]}"#.into(),
    };
    let settings = &forms.world.sidecar;
    let answer = respond(serve(settings, admitted).await, &settings.fill.shared.names);
    let answer: serde_json::Value =
        serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap();
    let part = &answer["parts"][0];
    assert_eq!((&part["status"], &part["contentType"]), (&200.into(), &"application/x-protobuf".into()), "{part}");
    assert!(part.get("body").is_none());
    forms.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn log_names_route_of_mismatched_records() {
    let page: Arc<Mutex<Vec<u8>>> = Arc::default();
    let to = page.clone();
    let lines = tracing_subscriber::fmt().json().with_writer(move || Page(to.clone())).finish();
    // With one alone, another test's thread that comes to the line first would decide for all that
    // nobody listens to it.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    let _guard = tracing::subscriber::set_default(lines);
    let forms = Forms::new(json("no JSON"));
    forms.get("/v1/forms/x", &[]).await;
    // Derived on this thread, whose lines these are.
    forms.get("/v1/forms/x", &[PROTOBUF]).await;
    forms.world.stop().await;
    let text = String::from_utf8(page.lock().clone()).unwrap();
    let line = text.lines().find(|line| line.contains("does not fit")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("\"route\":\"/v1/forms/{key}\""), "{line}");
}

/// Log output.
struct Page(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn different_callers_share_no_form() {
    let forms = Forms::new(json(RECORD));
    forms.get("/v1/forms/x", &[PROTOBUF, ("authorization", "Bearer 1")]).await;
    forms.world.asked();
    let other = forms.get("/v1/forms/x", &[PROTOBUF, ("authorization", "Bearer 2")]).await;
    assert!(!other.is_hit());
    assert_eq!(forms.world.asked().len(), REGIONS);
    forms.world.stop().await;
}

/// Number of derivations to Protobuf.
fn derivations(forms: &Forms) -> String {
    let page = page(forms);
    let line =
        page.lines().find(|line| line.starts_with("nearside_payload_work_seconds_count{work=\"to-protobuf\"}"));
    line.unwrap().rsplit(' ').next().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn waiters_share_derivation_of_small_record() {
    let forms = Forms::new(json(RECORD));
    forms.world.live().await;
    let readers: Vec<_> = (0..50).map(|_| forms.world.begin_with("/v1/forms/x", lines(&[PROTOBUF]))).collect();
    for reader in readers {
        let answer = reader.await.unwrap().unwrap();
        assert_eq!((answer.status, &answer.bytes[..], answer.is_hit()), (200, BINARY, false));
    }
    assert_eq!((derivations(&forms).as_str(), forms.world.asked().len()), ("1", 3));
    forms.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn large_record_derived_once_per_bytes() {
    let large = format!(r#"{{"seats": 9, "note": "{}"}}"#, "n".repeat(200_000));
    let forms = Forms::new(json(&large));
    forms.world.live().await;
    forms.get("/v1/forms/x", &[]).await;
    let readers: Vec<_> = (0..50).map(|_| forms.world.begin_with("/v1/forms/x", lines(&[PROTOBUF]))).collect();
    for reader in readers {
        let answer = reader.await.unwrap().unwrap();
        assert_eq!((answer.status, answer.bytes.len()), (200, 2 + 1 + 3 + 200_000));
    }
    assert_eq!(derivations(&forms), "1");
    forms.world.pass(SECOND * 3_700).await;
    forms.get("/v1/forms/x", &[PROTOBUF]).await;
    forms.world.pass(SECOND).await;
    assert!(forms.get("/v1/forms/x", &[PROTOBUF]).await.is_hit());
    assert_eq!(derivations(&forms), "1", "the bytes were the same");
    forms.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn newer_version_never_in_older_form() {
    let forms = Forms::new(json("{}"));
    forms.world.live().await;
    for seats in 1..6 {
        let say = tagged(&format!("{{\"seats\": {seats}}}"), &format!("\"t{seats}\""));
        forms.world.set_all(5, say.at(seats));
        forms.world.announce(B, "x", seats);
        let binary = forms.get("/v1/forms/x", &[PROTOBUF]).await;
        assert_eq!(&binary.bytes[..], &[8, seats as u8], "{seats}");
        assert!(binary.header("etag").starts_with(&format!("\"t{seats}~p")));
    }
    forms.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn fields_match_either_spelling() {
    let spelled = [
        (r#"{"old_plans":{"a":{"sold_by":"x","name":"y"}},"seats":1}"#, r#"{"old_plans":{"a":{"sold_by":"x"}}}"#),
        (r#"{"oldPlans":{"a":{"soldBy":"x","name":"y"}},"seats":1}"#, r#"{"oldPlans":{"a":{"soldBy":"x"}}}"#),
        (r#"{"old_plans":{},"oldPlans":{"a":{"sold_by":"x","soldBy":"z"}}}"#, r#"{"oldPlans":{"a":{"soldBy":"z"}}}"#),
        // A map's key is nobody's field.
        (r#"{"old_plans":{"a":{"plan":1}},"plan":{"soldBy":"x"}}"#, r#"{"old_plans":{"a":{}}}"#),
    ];
    for (record, wanted) in spelled {
        let forms = Forms::new(json(record));
        for path in ["old_plans.a.sold_by", "oldPlans.a.soldBy"] {
            let answer = forms.get(&format!("/v1/forms/x?fields={path}"), &[]).await;
            assert_eq!((answer.status, answer.body.as_str()), (200, wanted), "{path}");
        }
        forms.world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn passed_reads_take_callers_shape() {
    let forms = Forms::new(json(RECORD));
    forms.get("/v1/forms/x", &[PROTOBUF]).await;
    let tenant = ("x-tenant", "acme");
    forms.world.set_all(5, json("{\"seats\":10,\"plan\":{\"name\":\"acme\"}}"));
    forms.world.requests();
    let binary = forms.get("/v1/forms/x", &[PROTOBUF, tenant]).await;
    assert_eq!((binary.status, binary.header("content-type")), (200, "application/x-protobuf"));
    assert_ne!(&binary.bytes[..], BINARY, "another's");
    assert!(!binary.is_hit() && !binary.is_stored());
    let fields = forms.get("/v1/forms/x?fields=plan", &[tenant]).await;
    assert_eq!((fields.status, fields.body.as_str()), (200, "{\"plan\":{\"name\":\"acme\"}}"));
    let head = forms
        .world
        .ask(
            http::Method::HEAD,
            "/v1/forms/x",
            [PROTOBUF, tenant]
                .iter()
                .map(|(name, value)| {
                    (http::HeaderName::from_static(name), http::HeaderValue::from_str(value).unwrap())
                })
                .collect(),
        )
        .await;
    assert_eq!(
        (head.header("content-type"), head.header("etag")),
        (binary.header("content-type"), binary.header("etag"))
    );
    let asked = forms.world.requests();
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|(_, _, request)| request.headers["x-tenant"] == "acme" && request.method == "GET"));
    assert!(asked.iter().all(|(_, _, request)| request.path_and_query == "/v1/forms/x"));
    assert_eq!(&forms.get("/v1/forms/x", &[PROTOBUF]).await.bytes[..], BINARY, "what is stored is as it was");
    forms.world.stop().await;
}
