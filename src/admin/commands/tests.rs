//! Commands to a sidecar without sockets.

use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;

use super::*;
use crate::config::{Admin, UnixSocket};
use crate::http::service::ReachedBy;
use crate::model::ids::Epoch;
use crate::protocol::event::{Event, Says};
use crate::request::scripted::{A, Act, B, C, SECOND, Say, World, body, ms, shows, status};

struct Stage {
    world: World,
    commands: Arc<Commands>,
}

impl Stage {
    fn with(settings: &str) -> Self {
        let world = World::with(settings, [(10, shows(1).into()), (20, shows(1).into()), (30, shows(1).into())]);
        let commands = Self::commands(&world);
        Self { world, commands }
    }

    fn commands(world: &World) -> Arc<Commands> {
        let unix = Some(UnixSocket { path: "/run/admin.sock".into(), mode: 0o600, uids: vec![7] });
        let admin = Admin { listen: ([127, 0, 0, 1], 0).into(), unix, ..Default::default() };
        Commands::new(world.sidecar.clone(), Access::new(&admin).unwrap())
    }

    fn new() -> Self {
        Self::with("")
    }

    async fn try_command(&self, name: &str, arguments: Value) -> Result<Value, String> {
        let body = Body::from(arguments.to_string());
        let answer = self.commands.answer(name, ReachedBy::Unix(Some(7)), &HeaderMap::new(), body).await;
        answer.map_err(|problem| format!("{problem:?}"))
    }

    async fn command(&self, name: &str, arguments: Value) -> Value {
        self.try_command(name, arguments).await.unwrap()
    }

    fn epoch(&self) -> Epoch {
        self.world.sidecar.fill.shared.freshness.region_views().regions[0].epoch
    }

    fn is_live(&self) -> bool {
        !self.world.sidecar.fill.shared.freshness.region_views().live(self.world.now()).is_empty()
    }

    /// Reads `path` once, and again from the store.
    async fn stored(&self, path: &str) {
        self.world.get(path).await;
        self.world.pass(SECOND).await;
        assert!(self.world.get(path).await.is_hit(), "{path}");
        self.world.asked();
    }

    /// Sentences of `inspect` about the one entry, joined into one text.
    async fn says(&self, arguments: Value) -> String {
        let seen = self.command("inspect", arguments).await;
        let parts = ["entries", "records"].into_iter().flat_map(|of| seen[of].as_array()).flatten();
        let lines = parts.chain([&seen]).flat_map(|of| of["says"].as_array()).flatten();
        lines.filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
    }
}

const ACME: &str = "/v1/contexts/acme/limits";

#[tokio::test(start_paused = true)]
async fn purge_removes_entries_and_keeps_floor() {
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
        let reply = stage.command("purge", arguments.clone()).await;
        assert_eq!((&reply["purged"], &reply["left"]), (&json!(purged), &json!(left)), "{arguments}");
        assert_eq!(stage.world.floor("acme"), 1, "{arguments}");
        assert!(stage.says(json!({ "path": ACME })).await.contains("nothing is stored: the next read asks"));
        let again = stage.world.get(ACME).await;
        assert!(!again.is_hit() && again.is_stored(), "{arguments}: {again:?}");
        stage.world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn fill_during_purge_is_not_stored() {
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
        stage.command("purge", arguments.clone()).await;
        gate.notify_waiters();
        let answer = reader.await.unwrap().unwrap();
        assert_eq!((answer.status, answer.is_stored()), (200, false), "{arguments}: {answer:?}");
        assert_eq!(stage.world.sidecar.fill.shared.store.entries(), 0, "{arguments}");
        stage.world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn purge_covers_unrouted_entries_and_fills() {
    let stage = Stage::with("[cache]\nunrouted = \"cache\"\n");
    let cacheable = shows(1).with("cache-control", "public, max-age=600");
    stage.world.set_all(10, cacheable.clone());
    stage.stored("/about?x=1").await;
    assert!(stage.says(json!({ "path": "/about" })).await.contains("no route names this path"));
    let gate = Arc::new(Notify::new());
    stage.world.set_all(10, Act::Gate(gate.clone(), cacheable));
    let reader = stage.world.begin("/about?x=2");
    tokio::time::sleep(ms(50)).await;
    assert_eq!(stage.command("purge", json!({ "path": "/about" })).await["purged"], 1);
    gate.notify_waiters();
    assert!(!reader.await.unwrap().unwrap().is_stored());
    assert_eq!(stage.world.sidecar.fill.shared.store.entries(), 0);
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn refresh_asks_regions_and_keeps_newer() {
    let stage = Stage::new();
    stage.world.live().await;
    stage.world.set_all(10, shows(1).with("etag", "\"one\""));
    stage.stored(ACME).await;
    let gate = Arc::new(Notify::new());
    stage.world.set_all(10, Act::Gate(gate.clone(), shows(2)));
    let reply = stage.command("refresh", json!({ "record": "context:acme" })).await;
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
    let jobs = stage.command("jobs", json!({})).await;
    assert_eq!((&jobs["jobs"][0]["state"], &jobs["jobs"][0]["done"]), (&json!("done"), &json!(1)), "{jobs}");
    let after = stage.world.get(ACME).await;
    assert!(after.is_hit() && after.body == "2", "{after:?}");
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn full_refresh_is_budgeted_and_stoppable() {
    let stage = Stage::new();
    stage.world.live().await;
    for number in 0..100 {
        stage.world.get(&format!("/v1/contexts/t-{number}/limits")).await;
    }
    stage.world.pass(5 * SECOND).await;
    stage.world.asked();
    let begun = stage.world.now();
    assert_eq!(stage.command("refresh", json!({ "all": true })).await["entries"], 100);
    while stage.command("jobs", json!({})).await["jobs"][0]["done"].as_u64().unwrap() < 100 {
        tokio::time::sleep(ms(100)).await;
        let seconds = (stage.world.now() - begun).as_secs() + 1;
        let (asked, most) =
            (stage.world.script.asked_so_far() as u64, crate::race::limits::BACKGROUND_ATTEMPTS_PER_SECOND as u64);
        assert!(asked <= 3 * (most * seconds + 1), "{asked} attempts in {seconds} s");
        assert!(seconds < 60);
    }
    assert!(stage.world.now() - begun > 4 * SECOND, "it is spread");
    stage.command("refresh", json!({ "type": "context" })).await;
    let stopped = stage.command("jobs", json!({ "stop": 2 })).await;
    assert_eq!(stopped["jobs"].as_array().unwrap().len(), 2);
    tokio::time::sleep(ms(10)).await;
    assert_eq!(stage.command("jobs", json!({})).await["jobs"][1]["state"], "stopped");
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failed_refresh_keeps_stored_entry() {
    let stage = Stage::new();
    stage.world.live().await;
    stage.stored(ACME).await;
    stage.world.set_all(10, status(503));
    stage.command("refresh", json!({ "path": "/v1/*" })).await;
    tokio::time::sleep(SECOND).await;
    let job = &stage.command("jobs", json!({})).await["jobs"][0];
    assert_eq!((&job["state"], &job["failed"], &job["done"]), (&json!("done"), &json!(1), &json!(0)), "{job}");
    assert!(stage.world.get(ACME).await.is_hit());
    assert_eq!(stage.command("refresh", json!({ "record": "context:nobody" })).await["job"], Value::Null);
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn drained_region_gets_no_requests() {
    let stage = Stage::new();
    stage.world.live().await;
    let reply = stage.command("drain", json!({ "region": "b" })).await;
    assert_eq!((&reply["asked"], &reply["left"]), (&json!(false), &json!(["a", "c"])));
    stage.world.get(ACME).await;
    stage.command("refresh", json!({ "all": true })).await;
    tokio::time::sleep(SECOND).await;
    for _ in 0..5 {
        stage.world.send(http::Method::POST, "/v1/write").await;
        stage.world.get_with(ACME, "range", "bytes=0-1").await;
    }
    let asked = stage.world.asked();
    assert!(asked.contains(&A) && asked.contains(&C) && !asked.contains(&B), "{asked:?}");
    assert_eq!(stage.command("restore", json!({ "region": "b" })).await["changed"], true);
    stage.world.get("/v1/contexts/cold/limits").await;
    assert!(stage.world.asked().contains(&B));
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn draining_last_region_needs_force() {
    let stage = Stage::new();
    stage.world.live().await;
    stage.stored(ACME).await;
    for region in ["a", "b"] {
        stage.command("drain", json!({ "region": region })).await;
    }
    let refused = stage.try_command("drain", json!({ "region": "c" })).await.unwrap_err();
    assert!(refused.contains("--force"), "{refused}");
    assert_eq!(stage.command("drain", json!({ "region": "c", "force": true })).await["left"], json!([]));
    assert!(stage.world.get(ACME).await.is_hit());
    for path in ["/v1/contexts/cold/limits", "/about"] {
        assert_eq!(stage.world.get(path).await.status, 503, "{path}");
    }
    assert_eq!(stage.world.send(http::Method::PUT, ACME).await.status, 503);
    assert!(stage.world.asked().is_empty());
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn inspect_explains_why_entry_is_confirmed() {
    let stage = Stage::with("[freshness]\nworst_lag = \"5s\"\n");
    let of = json!({ "record": "context:acme" });
    stage.world.get(ACME).await;
    let says = stage.says(of.clone()).await;
    assert!(says.contains("not confirmed because no region was live when it was asked for"), "{says}");
    stage.command("purge", json!({ "all": true })).await;
    stage.world.live().await;
    stage.world.get(ACME).await;
    let says = stage.says(of.clone()).await;
    assert!(says.contains("confirmed: a lost no message since it was asked for, and is live"), "{says}");
    stage.world.announce(B, "acme", 9);
    stage.world.pass(SECOND).await;
    let says = stage.says(of.clone()).await;
    assert!(says.contains("below the floor: it shows version 1, and 9 was announced"), "{says}");
    assert!(says.contains("newest change announced by b, 1 s ago"), "{says}");
    stage.command("reset", of.clone()).await;
    let says = stage.says(of.clone()).await;
    assert!(
        says.contains("no floor") && says.contains("asked for anew, or no region had it any more, 0 s ago"),
        "{says}"
    );
    let commands = &stage.command("inspect", of.clone()).await["records"][0]["commands"];
    assert!(commands[0].as_str().unwrap().starts_with("reset by uid 7, "), "{commands}");
    stage.world.pass(SECOND).await;
    assert_eq!(stage.world.get(ACME).await.label(), None, "it is believed again");
    stage.world.step(Event::Paused(A));
    let says = stage.says(of).await;
    assert!(says.contains("asked about before it is next served: every region"), "{says}");
    let seen = stage.command("inspect", json!({ "path": ACME })).await;
    assert!(seen["regions"][0]["says"].as_str().unwrap().contains("paused by an operator"), "{seen}");
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn inspect_explains_unversioned_reply() {
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
async fn paused_topic_is_ignored_until_resumed() {
    let stage = Stage::new();
    stage.world.live().await;
    let before = stage.epoch();
    stage.world.step(Event::Paused(A));
    assert!(stage.epoch() > before && !stage.is_live());
    stage.world.announce(A, "acme", 5);
    stage.world.step(Event::Polled(A));
    stage.world.step(Event::Attested(A));
    stage.world.pass(120 * SECOND).await;
    assert_eq!((stage.world.floor("acme"), stage.is_live()), (0, false));
    let paused = stage.epoch();
    stage.world.step(Event::Resumed(A));
    assert!(stage.epoch() > paused && !stage.is_live(), "what it said before proves nothing");
    stage.world.hear(A, Says::Unrouted);
    assert!(stage.is_live());
    stage.world.announce(A, "acme", 6);
    assert_eq!(stage.world.floor("acme"), 6);
    stage.world.stop().await;
}

fn json_body(text: &'static str) -> Say {
    body(text).at(1).with("content-type", "application/json")
}

#[tokio::test(start_paused = true)]
async fn json_is_compared_semantically() {
    let stage = Stage::new();
    stage.world.set_all(1, json_body("{\"a\":1,\"b\":2}"));
    stage.world.get_with(ACME, "accept", "*/*").await;
    stage.world.set(B, 1, json_body("{ \"b\": 2, \"a\": 1 }"));
    stage.world.set(C, 1, json_body("{\"a\":1,\"b\":3}"));
    let seen = stage.command("compare", json!({ "path": ACME })).await;
    let says = [0, 1, 2].map(|region: usize| seen["regions"][region]["says"].as_str().unwrap());
    assert_eq!((says[0], says[1]), ("the same version and content", "the same version and content"));
    assert!(says[2].starts_with("the same version with other content"), "{seen}");
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn bad_arguments_are_refused_with_hint() {
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
        ("flush", json!({}), "the commands are: purge, refresh, reset"),
        ("reload", json!({ "now": true }), "unknown field"),
    ] {
        let refused = stage.try_command(name, arguments).await.unwrap_err();
        assert!(refused.contains(allowed), "{name}: {refused}");
    }
    let metrics = &stage.world.sidecar.fill.shared.metrics;
    assert_eq!(
        (
            metrics.operations.admin_commands(Some(Command::Purge), CommandOutcome::Refused),
            metrics.operations.admin_commands(Some(Command::Purge), CommandOutcome::Done)
        ),
        (5, 0)
    );
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn oversized_or_slow_arguments_are_refused() {
    let stage = Stage::new();
    let large =
        stage.try_command("purge", json!({ "path": "x".repeat(limits::COMMAND_BODY_BYTES) })).await.unwrap_err();
    assert!(large.contains("413") && large.contains("16384 bytes"), "{large}");
    let never = Body::from_stream(futures_util::stream::pending::<Result<bytes::Bytes, std::io::Error>>());
    let begun = stage.world.now();
    let late = stage.commands.answer("purge", ReachedBy::Unix(Some(7)), &HeaderMap::new(), never).await.unwrap_err();
    assert!(format!("{late:?}").contains("408"), "{late:?}");
    assert!(stage.world.now() - begun < limits::COMMAND_BODY_WAIT + Duration::from_secs(1));
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unauthorized_commands_are_counted_and_refused() {
    let stage = Stage::new();
    stage.world.live().await;
    stage.stored(ACME).await;
    for peer in [ReachedBy::Tcp(None), ReachedBy::Unix(Some(8)), ReachedBy::Unix(None)] {
        let body = Body::from("{\"all\":true}");
        assert!(stage.commands.answer("purge", peer, &HeaderMap::new(), body).await.is_err());
    }
    assert_eq!(stage.world.sidecar.fill.shared.metrics.operations.admin_commands(None, CommandOutcome::Denied), 3);
    assert!(stage.world.get(ACME).await.is_hit());
    stage.world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn inspect_flags_entry_of_unused_upstream() {
    let route = "[[service.route]]\npath = \"/v1/moved/{key}\"\nrecords = [\"context:{key}\"]\ncandidate = { path = \
                 \"/v2/of/{key}\", mode = \"old\" }\n";
    let mut stage = Stage::with(route);
    let (path, remark) =
        ("/v1/moved/k", "the route's other upstream answers for this record now: this one serves nobody");
    stage.stored(path).await;
    assert!(!stage.says(json!({ "path": path })).await.contains(remark));
    stage.world.reload(|config| {
        let candidate = config.service.routes.iter_mut().find_map(|route| route.candidate.as_mut()).unwrap();
        candidate.mode = crate::config::MigrationMode::New;
    });
    stage.commands = Stage::commands(&stage.world);
    assert!(stage.says(json!({ "path": path })).await.contains(remark));
    stage.stored(path).await;
    let said = stage.says(json!({ "path": path })).await;
    assert_eq!(said.matches(remark).count(), 1, "one of two: {said}");
    stage.world.stop().await;
}
