//! Acts on a sidecar without sockets.

use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;

use super::*;
use crate::config::{Admin, UnixSocket};
use crate::core::scripted::{A, Act, B, C, SECOND, World, body, ms, shows, status};
use crate::http::service::ReachedBy;
use crate::protocol::event::{Event, Says};

struct Stage {
    world: World,
    acts: Arc<Acts>,
}

impl Stage {
    fn with(settings: &str) -> Self {
        let world = World::with(settings, [(10, shows(1).into()), (20, shows(1).into()), (30, shows(1).into())]);
        let acts = Self::acts(&world);
        Self { world, acts }
    }

    fn acts(world: &World) -> Arc<Acts> {
        let unix = Some(UnixSocket { path: "/run/admin.sock".into(), mode: 0o600, uids: vec![7] });
        let admin = Admin { listen: ([127, 0, 0, 1], 0).into(), unix, token_file: None };
        Acts::new(world.sidecar.clone(), Access::new(&admin).unwrap())
    }

    fn new() -> Self {
        Self::with("")
    }

    async fn try_act(&self, name: &str, arguments: Value) -> Result<Value, String> {
        let body = Body::from(arguments.to_string());
        let answer = self.acts.answer(name, ReachedBy::Unix(Some(7)), &HeaderMap::new(), body).await;
        answer.map_err(|problem| format!("{problem:?}"))
    }

    async fn act(&self, name: &str, arguments: Value) -> Value {
        self.try_act(name, arguments).await.unwrap()
    }

    /// Reads `path` once, and again from the store.
    async fn stored(&self, path: &str) {
        self.world.get(path).await;
        self.world.pass(SECOND).await;
        assert!(self.world.get(path).await.is_hit(), "{path}");
        self.world.asked();
    }

    /// What `inspect` says about the one entry, joined into one text.
    async fn says(&self, arguments: Value) -> String {
        let seen = self.act("inspect", arguments).await;
        let lines = |of: &Value| of["says"].as_array().into_iter().flatten().cloned().collect::<Vec<_>>();
        let entries = seen["entries"].as_array().into_iter().flatten().flat_map(lines);
        let records = seen["records"].as_array().into_iter().flatten().flat_map(lines);
        let all: Vec<Value> = entries.chain(records).chain(lines(&seen)).collect();
        all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
    }
}

const ACME: &str = "/v1/contexts/acme/limits";

#[tokio::test(start_paused = true)]
async fn a_purge_by_path_record_type_or_all_removes_what_it_names_and_the_floor_stays() {
    for (arguments, purged, left) in [
        (json!({ "path": ACME }), 2, 3),
        (json!({ "path": "/v1/contexts/acme/*" }), 3, 2),
        (json!({ "record": "context:acme" }), 4, 1),
        (json!({ "type": "context" }), 5, 0),
        (json!({ "all": true }), 5, 0),
    ] {
        let stage = Stage::new();
        stage.world.live().await;
        for path in [ACME, "/v1/contexts/acme/limits?x=1", "/v1/contexts/acme/full", "/v1/pairs/acme/beta"] {
            stage.stored(path).await;
        }
        stage.stored("/v1/contexts/beta/limits").await;
        let reply = stage.act("purge", arguments.clone()).await;
        assert_eq!((&reply["purged"], &reply["left"]), (&json!(purged), &json!(left)), "{arguments}");
        assert_eq!(stage.world.floor("acme"), 1, "{arguments}");
        assert!(stage.says(json!({ "path": ACME })).await.contains("nothing is stored: the next read asks"));
        let again = stage.world.get(ACME).await;
        assert!(!again.is_hit() && again.is_stored(), "{arguments}: {again:?}");
        stage.world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_fill_that_was_under_way_at_a_purge_is_served_and_not_stored() {
    for arguments in [
        json!({ "path": ACME }),
        json!({ "path": "/v1/contexts/*" }),
        json!({ "record": "context:acme" }),
        json!({ "type": "context" }),
        json!({ "all": true }),
    ] {
        let stage = Stage::new();
        stage.world.live().await;
        let gate = Arc::new(Notify::new());
        stage.world.set_all(10, Act::Gate(gate.clone(), shows(1)));
        let reader = stage.world.begin(ACME);
        tokio::time::sleep(ms(50)).await;
        stage.act("purge", arguments.clone()).await;
        gate.notify_waiters();
        let answer = reader.await.unwrap().unwrap();
        assert_eq!((answer.status, answer.is_stored()), (200, false), "{arguments}: {answer:?}");
        assert_eq!(stage.world.sidecar.store.entries(), 0, "{arguments}");
        stage.world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_purge_covers_what_no_route_names_and_fills_of_it() {
    let stage = Stage::with("[cache]\nunrouted = \"cache\"\n");
    let cacheable = shows(1).with("cache-control", "public, max-age=600");
    stage.world.set_all(10, cacheable.clone());
    stage.stored("/about?x=1").await;
    assert!(stage.says(json!({ "path": "/about" })).await.contains("no route names this path"));
    let gate = Arc::new(Notify::new());
    stage.world.set_all(10, Act::Gate(gate.clone(), cacheable));
    let reader = stage.world.begin("/about?x=2");
    tokio::time::sleep(ms(50)).await;
    assert_eq!(stage.act("purge", json!({ "path": "/about" })).await["purged"], 1);
    gate.notify_waiters();
    assert!(!reader.await.unwrap().unwrap().is_stored());
    assert_eq!(stage.world.sidecar.store.entries(), 0);
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refresh_asks_every_region_end_to_end_while_what_is_stored_serves_on_and_keeps_what_is_newer() {
    let stage = Stage::new();
    stage.world.live().await;
    stage.world.set_all(10, shows(1).with("etag", "\"one\""));
    stage.stored(ACME).await;
    let gate = Arc::new(Notify::new());
    stage.world.set_all(10, Act::Gate(gate.clone(), shows(2)));
    let reply = stage.act("refresh", json!({ "record": "context:acme" })).await;
    assert_eq!((&reply["entries"], &reply["job"]["state"]), (&json!(1), &json!("running")));
    tokio::time::sleep(ms(100)).await;
    let meanwhile = stage.world.get(ACME).await;
    assert!(meanwhile.is_hit() && meanwhile.body == "1", "{meanwhile:?}");
    let asked = stage.world.requests();
    assert_eq!(asked.len(), 3);
    for (_, _, request) in asked {
        assert_eq!(request.headers["cache-control"], "no-cache");
        assert!(!request.headers.contains_key("if-none-match"), "what is stored is not believed");
    }
    gate.notify_waiters();
    tokio::time::sleep(ms(100)).await;
    let jobs = stage.act("jobs", json!({})).await;
    assert_eq!((&jobs["jobs"][0]["state"], &jobs["jobs"][0]["done"]), (&json!("done"), &json!(1)), "{jobs}");
    let after = stage.world.get(ACME).await;
    assert!(after.is_hit() && after.body == "2", "{after:?}");
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refresh_of_everything_keeps_to_the_background_budget_and_can_be_stopped() {
    let stage = Stage::new();
    stage.world.live().await;
    for number in 0..100 {
        stage.world.get(&format!("/v1/contexts/t-{number}/limits")).await;
    }
    stage.world.pass(5 * SECOND).await;
    stage.world.asked();
    let begun = stage.world.now();
    assert_eq!(stage.act("refresh", json!({ "all": true })).await["entries"], 100);
    let done = |jobs: &Value| jobs["jobs"][0]["done"].as_u64().unwrap();
    while done(&stage.act("jobs", json!({})).await) < 100 {
        tokio::time::sleep(ms(100)).await;
        let seconds = (stage.world.now() - begun).as_secs() + 1;
        let (asked, most) =
            (stage.world.script.asked_so_far() as u64, crate::core::limits::BACKGROUND_LEGS_PER_SECOND as u64);
        assert!(asked <= 3 * (most * seconds + 1), "{asked} legs in {seconds} s");
        assert!(seconds < 60);
    }
    assert!(stage.world.now() - begun > 4 * SECOND, "it is spread");
    stage.act("refresh", json!({ "type": "context" })).await;
    let stopped = stage.act("jobs", json!({ "stop": 2 })).await;
    assert_eq!(stopped["jobs"].as_array().unwrap().len(), 2);
    tokio::time::sleep(ms(10)).await;
    assert_eq!(stage.act("jobs", json!({})).await["jobs"][1]["state"], "stopped");
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_brings_nothing_leaves_what_is_stored_and_says_so() {
    let stage = Stage::new();
    stage.world.live().await;
    stage.stored(ACME).await;
    stage.world.set_all(10, status(503));
    stage.act("refresh", json!({ "path": "/v1/*" })).await;
    tokio::time::sleep(SECOND).await;
    let job = &stage.act("jobs", json!({})).await["jobs"][0];
    assert_eq!((&job["state"], &job["failed"], &job["done"]), (&json!("done"), &json!(1), &json!(0)), "{job}");
    assert!(stage.world.get(ACME).await.is_hit());
    assert_eq!(stage.act("refresh", json!({ "record": "context:nobody" })).await["job"], Value::Null);
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_drained_region_is_asked_by_no_race_pass_or_refresh_until_it_is_restored() {
    let stage = Stage::new();
    stage.world.live().await;
    let reply = stage.act("drain", json!({ "region": "b" })).await;
    assert_eq!((&reply["asked"], &reply["left"]), (&json!(false), &json!(["a", "c"])));
    stage.world.get(ACME).await;
    stage.act("refresh", json!({ "all": true })).await;
    tokio::time::sleep(SECOND).await;
    for _ in 0..5 {
        stage.world.send(http::Method::POST, "/v1/write").await;
        stage.world.get_with(ACME, "range", "bytes=0-1").await;
    }
    let asked = stage.world.asked();
    assert!(asked.contains(&A) && asked.contains(&C) && !asked.contains(&B), "{asked:?}");
    assert_eq!(stage.act("restore", json!({ "region": "b" })).await["changed"], true);
    stage.world.get("/v1/contexts/cold/limits").await;
    assert!(stage.world.asked().contains(&B));
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_region_is_drained_by_force_only_and_then_what_is_stored_is_all_there_is() {
    let stage = Stage::new();
    stage.world.live().await;
    stage.stored(ACME).await;
    for region in ["a", "b"] {
        stage.act("drain", json!({ "region": region })).await;
    }
    let refused = stage.try_act("drain", json!({ "region": "c" })).await.unwrap_err();
    assert!(refused.contains("--force"), "{refused}");
    assert_eq!(stage.act("drain", json!({ "region": "c", "force": true })).await["left"], json!([]));
    assert!(stage.world.get(ACME).await.is_hit());
    for path in ["/v1/contexts/cold/limits", "/about"] {
        assert_eq!(stage.world.get(path).await.status, 503, "{path}");
    }
    assert_eq!(stage.world.send(http::Method::PUT, ACME).await.status, 503);
    assert!(stage.world.asked().is_empty());
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn inspect_says_why_an_entry_is_confirmed_or_not() {
    let stage = Stage::with("[freshness]\nworst_lag = \"5s\"\n");
    let of = json!({ "record": "context:acme" });
    stage.world.get(ACME).await;
    let says = stage.says(of.clone()).await;
    assert!(says.contains("not confirmed because no region was live when it was asked for"), "{says}");
    stage.act("purge", json!({ "all": true })).await;
    stage.world.live().await;
    stage.world.get(ACME).await;
    let says = stage.says(of.clone()).await;
    assert!(says.contains("confirmed: a lost no message since it was asked for, and is live"), "{says}");
    stage.world.announce(B, "acme", 9);
    stage.world.pass(SECOND).await;
    let says = stage.says(of.clone()).await;
    assert!(says.contains("below the floor: it shows version 1, and 9 was announced"), "{says}");
    assert!(says.contains("newest change announced by b, 1 s ago"), "{says}");
    stage.act("reset", of.clone()).await;
    let says = stage.says(of.clone()).await;
    assert!(
        says.contains("no floor") && says.contains("asked for anew, or no region had it any more, 0 s ago"),
        "{says}"
    );
    let acts = &stage.act("inspect", of.clone()).await["records"][0]["acts"];
    assert!(acts[0].as_str().unwrap().starts_with("reset by uid 7, "), "{acts}");
    stage.world.pass(SECOND).await;
    assert_eq!(stage.world.get(ACME).await.label(), None, "it is believed again");
    stage.world.step(Event::Paused(A));
    let says = stage.says(of).await;
    assert!(says.contains("asked about before it is next served: every region"), "{says}");
    let seen = stage.act("inspect", json!({ "path": ACME })).await;
    assert!(seen["regions"][0]["says"].as_str().unwrap().contains("paused by an operator"), "{seen}");
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reply_without_a_version_is_explained_too() {
    let stage = Stage::new();
    stage.world.live().await;
    for (region, text) in [(A, "one"), (B, "two"), (C, "two")] {
        stage.world.set(region, 10, body(text));
    }
    stage.world.get(ACME).await;
    let says = stage.says(json!({ "path": "/v1/contexts/*" })).await;
    assert!(says.contains("it states no version, and the regions did not all show the same"), "{says}");
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_paused_topic_says_is_passed_over_and_it_proves_nothing_until_it_is_heard_after_it_was_resumed() {
    let stage = Stage::new();
    stage.world.live().await;
    let epoch = || stage.world.sidecar.freshness.horizon().regions[0].epoch;
    let live = || !stage.world.sidecar.freshness.horizon().live(stage.world.now()).is_empty();
    let before = epoch();
    stage.world.step(Event::Paused(A));
    assert!(epoch() > before && !live());
    stage.world.announce(A, "acme", 5);
    stage.world.step(Event::Polled(A));
    stage.world.step(Event::Attested(A));
    stage.world.pass(120 * SECOND).await;
    assert_eq!((stage.world.floor("acme"), live()), (0, false));
    let paused = epoch();
    stage.world.step(Event::Resumed(A));
    assert!(epoch() > paused && !live(), "what it said before proves nothing");
    stage.world.hear(A, Says::Unrouted);
    assert!(live());
    stage.world.announce(A, "acme", 6);
    assert_eq!(stage.world.floor("acme"), 6);
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn json_is_compared_by_what_it_means() {
    let stage = Stage::new();
    let say = |text: &'static str| body(text).at(1).with("content-type", "application/json");
    stage.world.set_all(1, say("{\"a\":1,\"b\":2}"));
    stage.world.get_with(ACME, "accept", "*/*").await;
    stage.world.set(B, 1, say("{ \"b\": 2, \"a\": 1 }"));
    stage.world.set(C, 1, say("{\"a\":1,\"b\":3}"));
    let seen = stage.act("compare", json!({ "path": ACME })).await;
    let says = |region: usize| seen["regions"][region]["says"].as_str().unwrap();
    assert_eq!((says(0), says(1)), ("the same version and content", "the same version and content"));
    assert!(says(2).starts_with("the same version with other content"), "{seen}");
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn bad_arguments_are_refused_with_what_is_allowed() {
    let stage = Stage::new();
    for (name, arguments, allowed) in [
        ("purge", json!({}), "path (\\\"/v1/contexts/acme\\\""),
        ("purge", json!({ "all": true, "type": "context" }), "exactly one of"),
        ("purge", json!({ "type": "contexts" }), "write one of: context"),
        ("refresh", json!({ "record": "acme" }), "type:key"),
        ("refresh", json!({ "record": "tenant:acme" }), "one of: context"),
        ("reset", json!({ "path": ACME }), "record, type, all"),
        ("inspect", json!({ "all": true }), "record, path"),
        ("purge", json!({ "keys": [] }), "`path`, `record`, `type`, `all`"),
        ("purge", json!([]), "no JSON object"),
        ("drain", json!({ "region": "d" }), "the regions are: a, b, c"),
        ("drain", json!({}), "missing field `region`"),
        ("pause", json!({ "region": "a" }), "announces nothing here"),
        ("jobs", json!({ "stop": 9 }), "there are none"),
        ("flush", json!({}), "the acts are: purge, refresh, reset"),
        ("reload", json!({ "now": true }), "unknown field"),
    ] {
        let refused = stage.try_act(name, arguments).await.unwrap_err();
        assert!(refused.contains(allowed), "{name}: {refused}");
    }
    let metrics = &stage.world.sidecar.metrics;
    assert_eq!((metrics.acts("purge", "refused"), metrics.acts("purge", "done")), (5, 0));
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn arguments_that_are_too_large_or_never_come_are_refused_in_time() {
    let stage = Stage::new();
    let large = stage.try_act("purge", json!({ "path": "x".repeat(limits::ACT_BODY_BYTES) })).await.unwrap_err();
    assert!(large.contains("413") && large.contains("16384 bytes"), "{large}");
    let never = Body::from_stream(futures_util::stream::pending::<Result<bytes::Bytes, std::io::Error>>());
    let begun = stage.world.now();
    let late = stage.acts.answer("purge", ReachedBy::Unix(Some(7)), &HeaderMap::new(), never).await.unwrap_err();
    assert!(format!("{late:?}").contains("408"), "{late:?}");
    assert!(stage.world.now() - begun < limits::ACT_BODY_WAIT + Duration::from_secs(1));
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_may_not_act_is_counted_and_changes_nothing() {
    let stage = Stage::new();
    stage.world.live().await;
    stage.stored(ACME).await;
    for peer in [ReachedBy::Tcp(None), ReachedBy::Unix(Some(8)), ReachedBy::Unix(None)] {
        let body = Body::from("{\"all\":true}");
        assert!(stage.acts.answer("purge", peer, &HeaderMap::new(), body).await.is_err());
    }
    assert_eq!(stage.world.sidecar.metrics.acts("none", "denied"), 3);
    assert!(stage.world.get(ACME).await.is_hit());
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_entry_of_the_way_that_does_not_answer_serves_nobody() {
    let route = "[[service.route]]\npath = \"/v1/moved/{key}\"\nrecords = [\"context:{key}\"]\nsecond = { path = \
                 \"/v2/of/{key}\", way = \"old\" }\n";
    let mut stage = Stage::with(route);
    let (path, remark) = ("/v1/moved/k", "the route's other way answers for this record now: this one serves nobody");
    stage.stored(path).await;
    assert!(!stage.says(json!({ "path": path })).await.contains(remark));
    stage.world.reload(|config| {
        let second = config.service.routes.iter_mut().find_map(|route| route.second.as_mut()).unwrap();
        second.way = crate::config::Way::New;
    });
    stage.acts = Stage::acts(&stage.world);
    assert!(stage.says(json!({ "path": path })).await.contains(remark));
    stage.stored(path).await;
    let said = stage.says(json!({ "path": path })).await;
    assert_eq!(said.matches(remark).count(), 1, "one of two: {said}");
    stage.world.stop().await;
}
