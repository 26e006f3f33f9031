//! Settings, tokens and credentials are read again while the program runs: SIGHUP, with the real
//! binary.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nearside::config::TopicArn;
use nearside::lab::front::chaos::Mode;
use nearside::tasks::Tasks;
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

    /// What the answer for `key` says of itself.
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
async fn a_reload_changes_settings_at_once_and_keeps_what_is_stored() {
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
async fn one_mistake_changes_nothing_and_all_mistakes_are_told() {
    let stage = Stage::set(KEPT).await;
    stage.ask("tenant-1").await;
    let wrong = "[cache]\nsoft_ttl = \"5m\"\nttll = \"1h\"\n[race]\ndeadline = \"fast\"\n";
    let done = stage.reload(wrong).await;
    assert_eq!(done["outcome"], "refused");
    let mistakes = list(&done["mistakes"]);
    assert_eq!(mistakes.len(), 2, "{mistakes:?}");
    assert!(mistakes[0].contains("did you mean ttl?") && mistakes[1].contains("`fast` is not a duration"));
    for mistake in &mistakes {
        stage.program.line(|line| line["level"] == "ERROR" && line["message"] == *mistake).await;
    }
    let label = stage.label("tenant-1").await;
    assert!(label.starts_with("nearside; hit") && ttl(&label) > 300, "{label}");
    // A file that has vanished is a mistake like any other, and the next reload finds it again.
    std::fs::remove_file(stage.program.file()).unwrap();
    let done = stage.program.hang_up().await;
    assert!(list(&done["mistakes"])[0].contains("cannot be read"), "{done}");
    assert_eq!(stage.reload(KEPT).await["outcome"], "applied");
    stage.stop().await;
}

#[tokio::test]
async fn another_schema_in_the_same_file_is_a_change_and_one_that_cannot_be_used_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("contexts.binpb");
    let write = |seats: &str| {
        let text = format!("syntax = \"proto3\"; package acme; message Context {{ {seats} seats = 1; }}");
        std::fs::write(directory.path().join("context.proto"), text).unwrap();
        let set = protox::compile(["context.proto"], [directory.path()]).unwrap();
        std::fs::write(&file, prost::Message::encode_to_vec(&set)).unwrap();
    };
    write("int32");
    let route = |path: &str| {
        format!(
            "[[service.route]]\npath = \"/v1/{path}/{{key}}/typed\"\nrecords = [\"context:{{key}}\"]\n\
             schema = \"{}#acme.Context\"\n",
            file.display()
        )
    };
    let rest = format!("{KEPT}{}{}", route("one"), route("two"));
    let stage = Stage::set(&rest).await;
    assert_eq!(stage.reload(&rest).await["changed"], serde_json::json!([]));
    write("int64");
    let told = |path: &str| format!("service.route[/v1/{path}/{{key}}/typed].schema: other content");
    assert_eq!(stage.reload(&rest).await["changed"], serde_json::json!([told("one"), told("two")]));
    std::fs::write(&file, "no descriptors").unwrap();
    let done = stage.reload(&rest).await;
    assert_eq!(done["outcome"], "refused");
    let mistakes = list(&done["mistakes"]);
    assert_eq!(mistakes.len(), 2, "{mistakes:?}");
    let place = format!("{}:", stage.program.file().display());
    assert!(
        mistakes.iter().all(|it| it.starts_with(&place) && it.contains("is no descriptor set; ")),
        "{mistakes:?}"
    );
    stage.stop().await;
}

#[tokio::test]
async fn what_needs_a_restart_is_named_and_the_rest_is_applied() {
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

#[tokio::test]
async fn another_token_lets_other_callers_in_and_shuts_those_out_that_are_connected() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "first\n").unwrap();
    let listen = format!("[listen]\ntcp = \"127.0.0.1:0\"\ntoken_file = \"{}\"\n", token.display());
    let stage = Stage::set(&format!("{KEPT}{listen}")).await;
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).pool_max_idle_per_host(1).build().unwrap();
    let url = format!("http://{}/v1/contexts/tenant-1", stage.program.tcp);
    let status = async |token: &str| {
        client.get(&url).header("x-nearside-token", token).send().await.unwrap().status().as_u16()
    };
    assert_eq!((status("first").await, status("second").await), (200, 401));
    std::fs::write(&token, "second\n").unwrap();
    // Nobody has to say so: the file is watched. SIGHUP is for who cannot wait.
    stage.program.signal(Signal::HUP);
    stage.program.line(|line| line["change"] == "listen.token_file: another token").await;
    assert_eq!((status("second").await, status("first").await), (200, 401));
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

#[tokio::test]
async fn a_reload_opens_moves_and_closes_the_operators_socket() {
    let directory = tempfile::tempdir().unwrap();
    let [first, second, nowhere] =
        ["first.sock", "second.sock", "no/such.sock"].map(|name| directory.path().join(name));
    let stage = Stage::set(KEPT).await;
    let reload = async |path: Option<&Path>, more: &str| {
        let unix = path.map(|path| format!("unix = \"{}\"\n", path.display())).unwrap_or_default();
        stage.program.reload(&of_admin(&stage, &format!("{unix}{more}"))).await
    };
    assert_eq!(over(&first, "POST", "/acts/jobs").await, None);
    let done = reload(Some(&first), "").await;
    assert_eq!((&done["outcome"], list(&done["needs_restart"])), (&Value::from("applied"), vec![]));
    assert_eq!(list(&done["changed"]), [format!("admin.unix: \"\" -> \"{}\"", first.display())]);
    assert_eq!(over(&first, "POST", "/acts/jobs").await, Some(200));
    // Another mode and other users at the same path.
    assert_eq!(reload(Some(&first), "unix_mode = \"0660\"\nunix_uids = [4711]\n").await["outcome"], "applied");
    assert_eq!(std::fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o660);
    assert_eq!(over(&first, "GET", "/livez").await, Some(403));
    // What cannot be opened changes nothing.
    assert_eq!(reload(Some(&nowhere), "").await["outcome"], "refused");
    assert_eq!(over(&first, "GET", "/livez").await, Some(403));
    assert_eq!(reload(Some(&second), "").await["outcome"], "applied");
    assert_eq!((over(&first, "GET", "/livez").await, first.exists()), (None, false));
    assert_eq!(over(&second, "POST", "/acts/jobs").await, Some(200));
    assert_eq!(reload(None, "").await["outcome"], "applied");
    assert_eq!((over(&second, "GET", "/livez").await, second.exists()), (None, false));
    assert_eq!(reload(Some(&first), "").await["outcome"], "applied");
    assert_eq!(over(&first, "POST", "/acts/jobs").await, Some(200));
    stage.stop().await;
    assert!(!first.exists(), "it goes with the process");
}

#[tokio::test]
async fn a_reload_opens_and_closes_acts_by_token() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "first\n").unwrap();
    let stage = Stage::set(KEPT).await;
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let url = format!("http://{}/acts/jobs", stage.program.admin);
    let act = async |token: &str| {
        let asked = client.post(&url).header("authorization", format!("Bearer {token}")).body("{}");
        asked.send().await.unwrap().status().as_u16()
    };
    assert_eq!(act("first").await, 403);
    let with = of_admin(&stage, &format!("token_file = \"{}\"\n", token.display()));
    let done = stage.program.reload(&with).await;
    assert_eq!((&done["outcome"], list(&done["needs_restart"])), (&Value::from("applied"), vec![]));
    assert_eq!((act("first").await, act("second").await), (200, 401));
    std::fs::write(&token, "second\n").unwrap();
    assert_eq!(stage.program.hang_up().await["outcome"], "applied");
    assert_eq!((act("first").await, act("second").await), (401, 200));
    assert_eq!(stage.program.reload(&of_admin(&stage, "")).await["outcome"], "applied");
    assert_eq!(act("second").await, 403);
    stage.stop().await;
}

#[tokio::test]
async fn a_route_that_changes_loses_its_entries_and_the_others_keep_theirs() {
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
async fn a_region_that_moved_is_asked_where_it_is_now_without_a_failed_request() {
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
async fn hanging_up_twice_or_while_it_stops_ends_nothing_and_the_queues_go_with_the_process() {
    let world = World::builder().records(10).start().await.unwrap();
    let mut topics: Vec<TopicArn> = Vec::new();
    for region in REGIONS {
        topics.push(Emulator::shared().topic(region, "reload", 2).await);
    }
    let url = Emulator::shared().url();
    let text = |linger: &str| {
        let urls: Vec<String> = world.regions.iter().map(|region| region.url()).collect();
        let regions: Vec<_> =
            (0..3).map(|index| (REGIONS[index], urls[index].as_str(), topics[index].arn.as_str())).collect();
        let announcements = format!("[announcements]\nendpoint_url = \"{url}\"\ninsecure_sns_signer = \"{url}\"\n");
        settings("reload-queues", &regions, &format!("{announcements}[drain]\nlinger = \"{linger}\"\n"))
    };
    let mut program = Program::start(&text("5m")).await;
    for topic in &topics {
        program.line(|line| line["message"] == "subscribed" && line["topic"] == topic.arn).await;
    }
    assert_eq!(in_aws("reload-queues", &topics).await, (3, 3));
    program.signal(Signal::HUP);
    program.signal(Signal::HUP);
    assert_eq!(program.reload(&text("1s")).await["outcome"], "applied");
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
async fn a_configuration_that_cannot_be_read_to_its_end_holds_up_its_reload_and_nothing_else() {
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
