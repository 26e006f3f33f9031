//! Settings, tokens and credentials are read again while the program runs: SIGHUP, with the real
//! binary.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nearside::config::TopicArn;
use nearside::tasks::Tasks;
use nearside_lab::chaos_server::chaos::Mode;
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::emulator::{Emulator, REGIONS};
use super::process::in_aws;
use super::program::{Program, settings};
use crate::world::World;

const SILENT: &str = "[announcements]\ntransport = \"off\"\n[drain]\nlinger = \"0s\"\n";
/// Nothing is announced, so that this is how long what is stored is served.
const KEPT: &str = "[cache]\nsoft_ttl = \"10m\"\n";

struct Stage {
    world: World,
    program: Program,
}

impl Stage {
    async fn set(rest: &str) -> Self {
        let world = World::builder().records(100).start().await.unwrap();
        let program = Program::start(&Self::text(&world, rest)).await;
        Self { world, program }
    }

    fn text(world: &World, rest: &str) -> String {
        let urls: Vec<String> = world.regions.iter().map(|region| region.url()).collect();
        let names = world.regions.iter().map(|region| region.name.as_str());
        let regions: Vec<_> = names.zip(&urls).map(|(name, url)| (name, url.as_str(), "")).collect();
        settings("reload", &regions, &format!("{SILENT}{rest}"))
    }

    async fn reload(&self, rest: &str) -> Value {
        self.program.reload(&Self::text(&self.world, rest)).await
    }

    async fn ask(&self, key: &str) -> reqwest::Response {
        ask(&self.program, key, None).await
    }

    /// Label of the answer for `key`.
    async fn label(&self, key: &str) -> String {
        label(&self.ask(key).await)
    }

    async fn stop(mut self) {
        self.program.signal(Signal::TERM);
        assert_eq!(self.program.ended().await.code(), Some(0), "{:#?}", self.program.lines());
    }
}

async fn ask(program: &Program, key: &str, token: Option<&str>) -> reqwest::Response {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let request = client.get(format!("http://{}/v1/contexts/{key}", program.tcp));
    let request = token.into_iter().fold(request, |request, token| request.header("x-nearside-token", token));
    request.send().await.unwrap()
}

fn label(answer: &reqwest::Response) -> String {
    answer.headers()["cache-status"].to_str().unwrap().to_owned()
}

fn list(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect()
}

/// `ttl` of a `Cache-Status`.
fn ttl(label: &str) -> u64 {
    let rest = label.split("ttl=").nth(1).unwrap_or_else(|| panic!("{label}"));
    rest.split(';').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn reload_applies_settings_and_keeps_entries() {
    let stage = Stage::set(KEPT).await;
    stage.ask("tenant-1").await;
    assert!(stage.label("tenant-1").await.starts_with("nearside; hit"));
    let done = stage.reload("[cache]\nsoft_ttl = \"20m\"\n").await;
    assert_eq!(
        (&done["outcome"], list(&done["changed"])),
        (&"applied".into(), vec!["cache.soft_ttl: \"10m\" -> \"20m\""])
    );
    let label = stage.label("tenant-1").await;
    assert!(label.starts_with("nearside; hit") && ttl(&label) > 600, "the entry, under the new setting: {label}");
    let line = stage.program.line(|line| line["message"] == "reloaded").await;
    assert_eq!(line["changed"], 1);
    let metrics = stage.program.page("/metrics").await.1;
    assert!(metrics.contains("nearside_reloads_total{outcome=\"applied\"} 1"), "{metrics}");
    assert!(metrics.contains("nearside_reloads_total{outcome=\"refused\"} 0"), "{metrics}");
    stage.stop().await;
}

#[tokio::test]
async fn one_config_error_changes_nothing() {
    let stage = Stage::set(KEPT).await;
    stage.ask("tenant-1").await;
    let wrong = "[cache]\nsoft_ttl = \"5m\"\nttll = \"1h\"\n[race]\ndeadline = \"fast\"\n";
    let done = stage.reload(wrong).await;
    assert_eq!(done["outcome"], "refused");
    let errors = list(&done["errors"]);
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].contains("did you mean ttl?") && errors[1].contains("`fast` is not a duration"));
    for error in &errors {
        stage.program.line(|line| line["level"] == "ERROR" && line["message"] == *error).await;
    }
    let label = stage.label("tenant-1").await;
    assert!(label.starts_with("nearside; hit") && ttl(&label) > 300, "{label}");
    // A vanished file is a config error like any other, and the next reload finds it again.
    std::fs::remove_file(stage.program.file()).unwrap();
    let done = stage.program.hang_up().await;
    assert!(list(&done["errors"])[0].contains("cannot be read"), "{done}");
    assert_eq!(stage.reload(KEPT).await["outcome"], "applied");
    stage.stop().await;
}

/// Writes descriptors of a message whose seats are of this type.
fn write_schema(file: &Path, seats: &str) {
    let directory = file.parent().unwrap();
    let text = format!("syntax = \"proto3\"; package acme; message Context {{ {seats} seats = 1; }}");
    std::fs::write(directory.join("context.proto"), text).unwrap();
    let set = protox::compile(["context.proto"], [directory]).unwrap();
    std::fs::write(file, prost::Message::encode_to_vec(&set)).unwrap();
}

#[tokio::test]
async fn changed_schema_applies_unusable_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("contexts.binpb");
    write_schema(&file, "int32");
    let routes = ["one", "two"].map(|path| {
        format!(
            "[[service.route]]\npath = \"/v1/{path}/{{key}}/typed\"\nrecords = [\"context:{{key}}\"]\n\
             schema = \"{}#acme.Context\"\n",
            file.display()
        )
    });
    let rest = format!("{KEPT}{}", routes.concat());
    let stage = Stage::set(&rest).await;
    assert_eq!(stage.reload(&rest).await["changed"], serde_json::json!([]));
    write_schema(&file, "int64");
    let changed = ["one", "two"].map(|path| format!("service.route[/v1/{path}/{{key}}/typed].schema: other content"));
    assert_eq!(list(&stage.reload(&rest).await["changed"]), changed);
    std::fs::write(&file, "no descriptors").unwrap();
    let done = stage.reload(&rest).await;
    assert_eq!(done["outcome"], "refused");
    let errors = list(&done["errors"]);
    assert_eq!(errors.len(), 2, "{errors:?}");
    let place = format!("{}:", stage.program.file().display());
    assert!(errors.iter().all(|it| it.starts_with(&place) && it.contains("is no descriptor set; ")), "{errors:?}");
    stage.stop().await;
}

#[tokio::test]
async fn restart_settings_are_named_rest_applied() {
    let stage = Stage::set(KEPT).await;
    let more = "[[service.region]]\nname = \"new\"\nurl = \"http://127.0.0.1:1\"\n\
                [cache]\nsoft_ttl = \"15m\"\n[freshness]\nheartbeats = \"required\"\n";
    let done = stage.reload(more).await;
    assert_eq!(done["outcome"], "applied");
    assert_eq!(list(&done["needs_restart"]), ["freshness.heartbeats", "service.region[new] (new)"]);
    assert_eq!(list(&done["changed"]), ["cache.soft_ttl: \"10m\" -> \"15m\""]);
    stage.program.line(|line| line["level"] == "WARN" && line["setting"] == "freshness.heartbeats").await;
    assert_eq!(stage.program.json("/status").await["regions"].as_array().unwrap().len(), 3);
    stage.stop().await;
}

/// Sends the request once more; the status of its answer.
async fn status(request: &reqwest::RequestBuilder) -> u16 {
    request.try_clone().unwrap().send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn changed_token_admits_and_shuts_out() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "first\n").unwrap();
    let listen = format!("[listen]\ntcp = \"127.0.0.1:0\"\ntoken_file = \"{}\"\n", token.display());
    let stage = Stage::set(&format!("{KEPT}{listen}")).await;
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).pool_max_idle_per_host(1).build().unwrap();
    let url = format!("http://{}/v1/contexts/tenant-1", stage.program.tcp);
    let (first, second) =
        (client.get(&url).header("x-nearside-token", "first"), client.get(&url).header("x-nearside-token", "second"));
    assert_eq!((status(&first).await, status(&second).await), (200, 401));
    std::fs::write(&token, "second\n").unwrap();
    // Nobody has to say so: the file is watched. SIGHUP is for who cannot wait.
    stage.program.signal(Signal::HUP);
    stage.program.line(|line| line["change"] == "listen.token_file: another token").await;
    assert_eq!((status(&second).await, status(&first).await), (200, 401));
    stage.stop().await;
}

/// Asks over a Unix socket, and gives the answer's status; `None` if nobody answers there.
async fn over(path: &Path, method: &str, target: &str) -> Option<u16> {
    let mut stream = UnixStream::connect(path).await.ok()?;
    let lines = "Host: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    stream.write_all(format!("{method} {target} HTTP/1.1\r\n{lines}").as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

/// The stage's settings with these lines in `[admin]`.
fn of_admin(stage: &Stage, lines: &str) -> String {
    Stage::text(&stage.world, KEPT).replacen("[admin]\n", &format!("[admin]\n{lines}"), 1)
}

/// Reloads with the operators' socket at `path`, and with other lines of its section.
async fn reload_socket(stage: &Stage, path: Option<&Path>, more: &str) -> Value {
    let unix = path.map(|path| format!("unix = \"{}\"\n", path.display())).unwrap_or_default();
    stage.program.reload(&of_admin(stage, &format!("{unix}{more}"))).await
}

#[tokio::test]
async fn reload_moves_operators_socket() {
    let directory = tempfile::tempdir().unwrap();
    let [first, second, nowhere] =
        ["first.sock", "second.sock", "no/such.sock"].map(|name| directory.path().join(name));
    let stage = Stage::set(KEPT).await;
    assert_eq!(over(&first, "POST", "/commands/jobs").await, None);
    let done = reload_socket(&stage, Some(&first), "").await;
    assert_eq!((&done["outcome"], list(&done["needs_restart"])), (&Value::from("applied"), vec![]));
    assert_eq!(list(&done["changed"]), [format!("admin.unix: \"\" -> \"{}\"", first.display())]);
    assert_eq!(over(&first, "POST", "/commands/jobs").await, Some(200));
    // Another mode and other users at the same path.
    assert_eq!(
        reload_socket(&stage, Some(&first), "unix_mode = \"0660\"\nunix_uids = [4711]\n").await["outcome"],
        "applied"
    );
    assert_eq!(std::fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o660);
    assert_eq!(over(&first, "GET", "/livez").await, Some(403));
    // What cannot be opened changes nothing.
    assert_eq!(reload_socket(&stage, Some(&nowhere), "").await["outcome"], "refused");
    assert_eq!(over(&first, "GET", "/livez").await, Some(403));
    assert_eq!(reload_socket(&stage, Some(&second), "").await["outcome"], "applied");
    assert_eq!((over(&first, "GET", "/livez").await, first.exists()), (None, false));
    assert_eq!(over(&second, "POST", "/commands/jobs").await, Some(200));
    assert_eq!(reload_socket(&stage, None, "").await["outcome"], "applied");
    assert_eq!((over(&second, "GET", "/livez").await, second.exists()), (None, false));
    assert_eq!(reload_socket(&stage, Some(&first), "").await["outcome"], "applied");
    assert_eq!(over(&first, "POST", "/commands/jobs").await, Some(200));
    stage.stop().await;
    assert!(!first.exists(), "it goes with the process");
}

#[tokio::test]
async fn reload_toggles_commands_by_token() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "first\n").unwrap();
    let stage = Stage::set(KEPT).await;
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let url = format!("http://{}/commands/jobs", stage.program.admin);
    let [first, second] = ["first", "second"]
        .map(|token| client.post(&url).header("authorization", format!("Bearer {token}")).body("{}"));
    assert_eq!(status(&first).await, 403);
    let with = of_admin(&stage, &format!("token_file = \"{}\"\n", token.display()));
    let done = stage.program.reload(&with).await;
    assert_eq!((&done["outcome"], list(&done["needs_restart"])), (&Value::from("applied"), vec![]));
    assert_eq!((status(&first).await, status(&second).await), (200, 401));
    std::fs::write(&token, "second\n").unwrap();
    assert_eq!(stage.program.hang_up().await["outcome"], "applied");
    assert_eq!((status(&first).await, status(&second).await), (401, 200));
    assert_eq!(stage.program.reload(&of_admin(&stage, "")).await["outcome"], "applied");
    assert_eq!(status(&second).await, 403);
    stage.stop().await;
}

#[tokio::test]
async fn changed_route_alone_loses_entries() {
    let other = "[[service.route]]\npath = \"/v1/contexts/{key}/{view}\"\nrecords = [\"context:{key}\"]\n";
    let stage = Stage::set(&format!("{KEPT}{other}")).await;
    for _ in 0..2 {
        stage.ask("tenant-1").await;
        stage.ask("tenant-1/full").await;
    }
    assert!(stage.label("tenant-1/full").await.starts_with("nearside; hit"));
    let changed = format!("{KEPT}{other}forward = [\"x-tenant\"]\n");
    let done = stage.reload(&changed).await;
    assert_eq!(list(&done["changed"]), ["service.route[/v1/contexts/{key}/{view}].forward: [] -> [\"x-tenant\"]"]);
    assert!(stage.label("tenant-1").await.starts_with("nearside; hit"));
    assert!(stage.label("tenant-1/full").await.contains("fwd=uri-miss"), "never read as something else");
    stage.program.line(|line| line["removed"] == 1).await;
    assert!(stage.label("tenant-1/full").await.starts_with("nearside; hit"));
    // As it was before: what was stored then is not found again.
    stage.reload(&format!("{KEPT}{other}")).await;
    assert!(stage.label("tenant-1/full").await.contains("fwd=uri-miss"));
    assert!(stage.label("tenant-1").await.starts_with("nearside; hit"));
    stage.stop().await;
}

#[tokio::test]
async fn moved_region_fails_no_request() {
    let stage = Stage::set(KEPT).await;
    let moved = World::builder().records(100).start().await.unwrap();
    let asking = Arc::new(AtomicBool::new(true));
    let (tasks, tcp) = (Tasks::new(), stage.program.tcp);
    let (say, mut asked) = tokio::sync::watch::channel(0);
    let load = {
        let asking = asking.clone();
        tasks.spawn("load", async move {
            let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
            let (mut number, mut failed) = (0_u64, Vec::new());
            while asking.load(Ordering::SeqCst) {
                number += 1;
                let url = format!("http://{tcp}/v1/contexts/tenant-{}?n={number}", number % 50 + 1);
                match client.get(url).send().await {
                    Ok(answer) if answer.status() == 200 => {}
                    Ok(answer) => failed.push(answer.text().await.unwrap()),
                    Err(error) => failed.push(format!("{error:?}")),
                }
                say.send_replace(number);
            }
            failed
        })
    };
    for world in [&moved, &stage.world, &moved] {
        let done = stage.program.reload(&Stage::text(world, KEPT)).await;
        assert_eq!(list(&done["changed"]).len(), 3, "{done}");
        let enough = *asked.borrow() + 20;
        asked.wait_for(|asked| *asked >= enough).await.unwrap();
    }
    asking.store(false, Ordering::SeqCst);
    assert_eq!(load.await.unwrap().unwrap(), Vec::<String>::new(), "of {}", *asked.borrow());
    for region in stage.world.regions.iter() {
        region.set(Mode::Off).await;
    }
    assert_eq!(stage.ask("tenant-77").await.status(), 200, "nobody is asked where the regions were");
    stage.stop().await;
}

#[tokio::test]
async fn sighup_twice_or_stopping_ends_nothing() {
    let world = World::builder().records(10).start().await.unwrap();
    let mut topics: Vec<TopicArn> = Vec::new();
    for region in REGIONS {
        topics.push(Emulator::shared().topic(region, "reload", 2).await);
    }
    let url = Emulator::shared().url();
    let urls: Vec<String> = world.regions.iter().map(|region| region.url()).collect();
    let regions: Vec<_> =
        (0..3).map(|index| (REGIONS[index], urls[index].as_str(), topics[index].arn.as_str())).collect();
    let announcements = format!("[announcements]\nendpoint_url = \"{url}\"\ninsecure_sns_signer = \"{url}\"\n");
    let [long, short] = ["5m", "1s"].map(|linger| {
        settings("reload-queues", &regions, &format!("{announcements}[drain]\nlinger = \"{linger}\"\n"))
    });
    let mut program = Program::start(&long).await;
    for topic in &topics {
        program.line(|line| line["message"] == "subscribed" && line["topic"] == topic.arn).await;
    }
    assert_eq!(in_aws("reload-queues", &topics).await, (3, 3));
    program.signal(Signal::HUP);
    program.signal(Signal::HUP);
    assert_eq!(program.reload(&short).await["outcome"], "applied");
    assert_eq!(in_aws("reload-queues", &topics).await, (3, 3), "the same");
    assert_eq!(ask(&program, "tenant-1", None).await.status(), 200);
    program.signal(Signal::TERM);
    program.line(|line| line["message"].as_str().is_some_and(|said| said.starts_with("stopping"))).await;
    program.signal(Signal::HUP);
    program.line(|line| line["message"] == "not reloaded").await;
    let ended = tokio::time::timeout(Duration::from_secs(30), program.ended()).await;
    assert_eq!(ended.expect("the new linger holds").code(), Some(0), "{:#?}", program.lines());
    assert_eq!(in_aws("reload-queues", &topics).await, (0, 0), "none is left behind");
}

/// A pipe that nobody writes into stands for a mount that does not answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_configuration_blocks_only_its_reload() {
    let mut stage = Stage::set(KEPT).await;
    stage.ask("tenant-1").await;
    let (file, kept) = (stage.program.file(), stage.program.file().with_extension("kept"));
    std::fs::rename(&file, &kept).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(made.success());
    stage.program.signal(Signal::HUP);
    stage.program.line(|line| line["message"] == "SIGHUP: reading the configuration again").await;
    assert!(stage.label("tenant-1").await.contains("hit"));
    assert_eq!(stage.program.page("/readyz").await.0, 200);
    stage.program.signal(Signal::TERM);
    assert_eq!(stage.program.ended().await.code(), Some(0), "{:#?}", stage.program.lines());
}
