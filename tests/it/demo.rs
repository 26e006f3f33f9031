//! `nearside-lab dev` as a stranger sees it: its story, asserted from measurements of the sidecar
//! that runs in production; the program; and the orders that a second terminal gives.

use std::process::{Child, Stdio};
use std::time::Duration;

use futures_util::FutureExt;
use nearside::app;
use nearside::config::read;
use nearside::config::services::AccessMode;
use nearside::model::time::Clock;
use nearside_lab::dev::Ports;
use nearside_lab::dev::demo::{self, DemoSidecar, DevOptions};
use nearside_lab::dev::measured::Story;
use nearside_lab::dev::reader::Seen;
use nearside_lab::dev::screen::WIDTH;
use rustix::process::Signal;
use tokio::sync::watch;

use super::program::{self, TIMEOUT, follow, get, text};

/// Several times what they take on a quiet machine: a story that hangs ends here.
const STORY: Duration = Duration::from_secs(60);
const PROGRAM: Duration = Duration::from_secs(75);

async fn sidecar(settings: String) -> Result<DemoSidecar, String> {
    let config = read::from_toml(&settings).map_err(|errors| format!("{errors:?}"))?;
    let app = app::start(config).await.map_err(|error| error.to_string())?;
    let (tcp, admin) = (app.tcp.unwrap(), app.admin);
    let stop = async move { assert_eq!(app.stop().await, app::Stopped::default()) };
    Ok(DemoSidecar { tcp, admin, stop: stop.boxed() })
}

async fn reported() -> Story {
    let options = DevOptions {
        ports: Ports::Ephemeral,
        port: None,
        data: None,
        story: true,
        exit_after_demo: true,
        access: AccessMode::Enforce,
        pace: Duration::ZERO,
        terminal: false,
        program: "nearside".into(),
    };
    let mut out = Vec::new();
    let story = demo::run(options, &mut out, sidecar, std::future::pending()).await.unwrap().unwrap();
    println!("{}", text(&out));
    story
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_demo_step_holds_for_sidecar() {
    let story = reported().await;

    let miss = &story.miss;
    assert!(miss.seen.is_good() && !miss.seen.is_hit(), "{:?}", miss.seen);
    assert_eq!(miss.attempts.len(), 3);
    assert!(
        miss.attempts.iter().all(|attempt| attempt.version.is_some()),
        "every region was asked: {:?}",
        miss.attempts
    );
    let nearest = miss.attempts.iter().min_by_key(|attempt| attempt.took).unwrap();
    assert_eq!(miss.winner.as_deref(), Some(nearest.region.as_str()));

    let hits = story.hits;
    assert_eq!((hits.asked, hits.hits, hits.failed), (2_000, 2_000, 0));
    assert!(hits.spread.p50 < nearest.took.unwrap(), "a hit costs no region's time: {:?}", hits.spread);

    let shapes = &story.shapes;
    let (json, protobuf, (_, fields)) = (&shapes.json, &shapes.protobuf, &shapes.fields);
    assert!([json, protobuf, fields].iter().all(|seen| seen.is_good() && seen.is_hit()), "of one entry: {shapes:?}");
    assert!(protobuf.bytes < json.bytes && fields.bytes < json.bytes, "{shapes:?}");
    assert!(shapes.batch.1.is_good() && shapes.batch.1.bytes > 20 * fields.bytes, "{shapes:?}");
    assert!(shapes.requests.iter().all(|(_, count)| *count == 1), "one request to each region: {shapes:?}");

    let change = &story.change;
    assert!(change.before < Some(change.version), "and it was seen, or the story would have broken off");
    assert!(change.visible >= Duration::from_millis(20), "no sooner than the first region ingested it");
    assert!(change.arrivals.iter().all(|(_, arrival)| arrival.is_some()), "{:?}", change.arrivals);

    let joined = &story.joined;
    assert_eq!((joined.made, joined.others), (100, 0), "every view that shows the shard, and no other");
    assert!(joined.announcements >= 3 * joined.made, "by every region, at least once: {joined:?}");

    let dead = &story.dead_region;
    assert_eq!((dead.asked, dead.failed), (300, 0));
    assert_eq!(dead.region, nearest.region, "the one that had won");
    assert!(dead.during.p50 >= Duration::from_millis(70), "the next region is further away: {dead:?}");

    let lagging = &story.lagging;
    assert_eq!((lagging.asked, lagging.old_served, lagging.failed), (40, 0, 0));
    // On a busy machine it is overtaken; how often it is first is held in simulated time.
    assert!(lagging.answered_first >= 5, "{lagging:?}");

    let down = &story.all_down;
    assert_eq!(down.stored.status, Some(200));
    assert!(down.stored.version < Some(down.announced), "nobody could deliver it: {down:?}");
    assert_eq!(down.stored.detail(), Some("stale-if-error"), "it is labelled: {}", down.stored.label);
    assert!(down.other.is_good() && down.other.is_hit(), "{:?}", down.other);
    assert_ne!(
        down.other.detail(),
        Some("stale-if-error"),
        "what was not announced is no less true: {:?}",
        down.other
    );
    assert!(matches!(down.cold, Seen { status: Some(502 | 504), version: None, .. }), "{:?}", down.cold);

    let access = story.access.unwrap();
    let answers = [&access.anonymous, &access.foreign, &access.own].map(|seen| (seen.status, seen.problem.as_str()));
    assert_eq!(answers, [(Some(401), "no-credential"), (Some(403), "not-granted"), (Some(200), "")]);
    assert_eq!(access.stop.regions.len(), 3);

    assert!(story.took < STORY, "{:?}", story.took);
}

#[test]
fn program_runs_demo_in_time_quietly() {
    let began = Clock::System.now();
    let output = program::run_lab(&["dev", "--any-ports", "--exit-after-demo"]);
    let took = Clock::System.now() - began;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    assert!(took < PROGRAM, "{took:?}");
    let reported = text(&output.stdout);
    assert!(reported.lines().all(|line| line.chars().count() <= WIDTH || line.contains(" dev ")), "{reported}");
    assert!(!reported.contains('\u{1b}') && !reported.contains('\r'), "a pipe gets neither colours nor progress");
}

/// Has `nearside-lab dev` tell its story to `stdout`, asks the sidecar, and interrupts it.
async fn bears(stdout: impl Into<Stdio>) {
    let port = nearside_lab::loopback::address().unwrap().port();
    let number = port.to_string();
    let mut command = program::lab(&["dev", "--any-ports", "--port", &number]);
    let mut child = command.stdout(stdout).spawn().unwrap();
    let url = format!("http://127.0.0.1:{port}/v1/contexts/tenant-1/limits");
    let answered = async {
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert_eq!(child.try_wait().unwrap(), None, "it stays up");
        }
        while get(&url).await.0 != 200 {}
    };
    tokio::time::timeout(TIMEOUT, answered).await.expect("it serves");
    program::kill(&child, Signal::INT);
    let ended = tokio::task::spawn_blocking(move || child.wait().unwrap());
    let status = tokio::time::timeout(TIMEOUT, ended).await.expect("it ends").unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn unread_demo_output_stops_nothing() {
    let (_reader, writer) = std::io::pipe().unwrap();
    program::fill(&writer);
    bears(writer).await;
}

#[tokio::test]
async fn closed_demo_output_stops_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    bears(writer).await;
}

/// `nearside-lab dev` that stays up.
struct Dev {
    child: Child,
    said: watch::Receiver<Vec<String>>,
}

impl Dev {
    fn start(args: &[&str]) -> Self {
        let mut child = program::lab(&[&["dev"], args].concat()).stdout(Stdio::piped()).spawn().unwrap();
        let said = follow(child.stdout.take().expect("it is piped"));
        Self { child, said }
    }

    /// The first line that begins so, said or to come.
    async fn line(&self, begins: &str) -> String {
        let mut said = self.said.clone();
        let waited = tokio::time::timeout(
            TIMEOUT,
            said.wait_for(|lines| lines.iter().any(|line| line.trim_start().starts_with(begins))),
        )
        .await;
        let lines = waited.unwrap_or_else(|_| panic!("{begins:?} never came")).unwrap().clone();
        lines.into_iter().find(|line| line.trim_start().starts_with(begins)).unwrap()
    }

    /// The address in the line that begins so.
    async fn address(&self, begins: &str) -> String {
        let line = self.line(begins).await;
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
        url.trim_start_matches("http://").to_owned()
    }

    /// Ctrl-C; whether it ended in order.
    async fn interrupt(&mut self) -> Option<i32> {
        program::kill(&self.child, Signal::INT);
        let closed = async { while self.said.changed().await.is_ok() {} };
        tokio::time::timeout(TIMEOUT, closed).await.expect("it ends");
        self.child.wait().unwrap().code()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An order from a second terminal: exit code and what it said.
fn order(words: &[&str], control: &str) -> (Option<i32>, String) {
    let output = program::run_lab(&[&["dev"], words, &["--control", control]].concat());
    let said = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.code(), text(&said).trim_end().to_owned())
}

/// A token of a consumer, for whom its tokens are meant.
fn token(consumer: &str, control: &str) -> String {
    let (code, said) = order(&["token", consumer], control);
    assert_eq!(code, Some(0), "{said}");
    said
}

async fn get_as(url: &str, token: &str) -> (u16, String) {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let answer = client.get(url).bearer_auth(token).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

/// State of the second region.
fn second_region(control: &str) -> serde_json::Value {
    let state: serde_json::Value = serde_json::from_str(&order(&["state"], control).1).unwrap();
    state["regions"][1].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_terminal_orders_reach_callers() {
    let mut dev = Dev::start(&["--any-ports"]);
    dev.line("Subscribed").await;
    let (control, sidecar) = (dev.address("control ").await, dev.address("sidecar ").await);
    let url = format!("http://{sidecar}/v1/contexts/tenant-790/limits");
    assert_eq!(get(&url).await.0, 200);

    let done = order(&["put", "tenant-790", r#"{"plan":"by-hand"}"#], &control);
    assert!(done.0 == Some(0) && done.1.starts_with("tenant tenant-790 is at version "), "{done:?}");
    let visible = async { while !get(&url).await.1.contains("by-hand") {} };
    tokio::time::timeout(TIMEOUT, visible).await.expect("the change is seen through the sidecar");
    assert_eq!(order(&["delete", "tenant-790"], &control).0, Some(0));
    let gone = async { while get(&url).await.0 != 404 {} };
    tokio::time::timeout(TIMEOUT, gone).await.expect("so is the end of the record");

    let done = order(&["chaos", "us-east-1", "duplicate", "on"], &control);
    assert_eq!(done, (Some(0), "us-east-1: duplicate on".to_owned()));
    let us = second_region(&control);
    assert_eq!((&us["name"], &us["topic"]["duplicate"]), (&"us-east-1".into(), &true.into()));
    assert_eq!(order(&["chaos", "us-east-1", "reset"], &control).0, Some(0));
    assert_eq!(second_region(&control)["topic"]["duplicate"], false);

    let (code, said) = order(&["chaos", "us-east-1", "explode"], &control);
    assert!(code == Some(1) && said.contains("slow 5s"), "it says what to write: {said}");
    let (code, said) = order(&["chaos", "mars", "off"], &control);
    assert!(code == Some(1) && said.contains("eu-west-1, us-east-1, ap-southeast-2"), "{said}");
    let (code, said) = order(&["put", "tenant-790", "not json"], &control);
    assert!(code == Some(1) && said.contains("the catalogue refused: "), "{said}");
    assert_eq!(dev.interrupt().await, Some(0));
    let (code, said) = order(&["state"], &control);
    assert!(code == Some(1) && said.contains("start one with `nearside-lab dev`"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_open_what_consumers_read() {
    let mut dev = Dev::start(&["--any-ports", "--no-story"]);
    dev.line("Everything stays up").await;
    let (control, region) = (dev.address("control ").await, dev.address("us-east-1 ").await);
    let [limits, profile] = ["limits", "profile"].map(|view| format!("http://{region}/v1/contexts/tenant-1/{view}"));
    let [jira, wiki] = ["jira", "wiki"].map(|consumer| token(consumer, &control));
    assert_eq!(get(&limits).await.0, 401);
    for (token, statuses) in [(&jira, [200, 200]), (&wiki, [403, 200])] {
        assert_eq!([get_as(&limits, token).await.0, get_as(&profile, token).await.0], statuses);
    }
    let (_, elsewhere) = order(&["token", "jira", "--for", "catalogue"], &control);
    assert_eq!(get_as(&limits, &elsewhere).await.0, 401, "it is for the catalogue");
    let (code, said) = order(&["token", "nobody"], &control);
    assert!(code == Some(1) && said.contains("write one of: editor, jira, wiki, or admin"), "{said}");

    let own = format!("http://{}/v1/contexts/tenant-1/limits", dev.address("sidecar ").await);
    assert_eq!(get(&own).await.0, 200);
    for (word, status) in [("stop", 403), ("resume", 200)] {
        let (code, said) = order(&[word, "jira"], &control);
        assert!(code == Some(0) && said.starts_with("jira "), "{said}");
        let seen = async { while get(&own).await.0 != status {} };
        tokio::time::timeout(TIMEOUT, seen).await.unwrap_or_else(|_| panic!("{word}"));
    }
    assert_eq!(dev.interrupt().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_without_demo_keeps_records() {
    let mut dev = Dev::start(&["--any-ports", "--no-story"]);
    dev.line("Everything stays up").await;
    // The story's own tenant: the story changes it three times.
    let history = format!("http://{}/v1/records/tenant/tenant-1/history", dev.address("catalogue ").await);
    let editor = token("editor", &dev.address("control ").await);
    let listed: serde_json::Value = serde_json::from_str(&get_as(&history, &editor).await.1).unwrap();
    assert_eq!(listed["versions"].as_array().unwrap().len(), 1, "{listed}");
    let sidecar = dev.address("sidecar ").await;
    assert_eq!(get(&format!("http://{sidecar}/v1/contexts/tenant-1/limits")).await.0, 200);
    assert_eq!(dev.interrupt().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_directory_survives_restart() {
    let directory = tempfile::tempdir().unwrap();
    let args = ["--any-ports", "--data", directory.path().to_str().unwrap()];
    let mut first = Dev::start(&args);
    first.line("Subscribed").await;
    let control = first.address("control ").await;
    let (code, said) = order(&["put", "tenant-790", r#"{"plan":"kept"}"#], &control);
    let version = said.split([' ', ',']).nth(5).unwrap_or_default().to_owned();
    assert!(code == Some(0) && version.parse::<u64>().is_ok(), "{said}");
    assert_eq!(first.interrupt().await, Some(0));

    let mut second = Dev::start(&args);
    second.line("Subscribed").await;
    let (catalogue, sidecar) = (second.address("catalogue ").await, second.address("sidecar ").await);
    let control = second.address("control ").await;
    let history = format!("http://{catalogue}/v1/records/tenant/tenant-790/history");
    let listed = get_as(&history, &token("editor", &control)).await.1;
    assert!(listed.contains(&format!(r#""version":{version},"deleted":false,"body":{{"plan":"kept"}}"#)), "{listed}");
    assert!(get(&format!("http://{sidecar}/v1/contexts/tenant-790/limits")).await.1.contains("kept"));
    let state: serde_json::Value = serde_json::from_str(&order(&["state"], &control).1).unwrap();
    assert_eq!(state["records"]["tenant"], 800, "nothing was written anew");
    assert_eq!(second.interrupt().await, Some(0));
}

#[tokio::test]
async fn second_instance_takes_other_ports() {
    let mut first = Dev::start(&[]);
    first.line("The catalogue").await;
    let mut second = Dev::start(&[]);
    second.line("The catalogue").await;
    let lines = second.said.borrow().clone();
    let notes: Vec<&String> = lines.iter().filter(|line| line.contains("note: port")).collect();
    for port in ["8700", "8701", "8711", "8712", "8713", "8720", "8730", "8740"] {
        let noted = notes.iter().any(|note| note.contains(&format!("port {port} is in use")));
        assert!(noted, "{port}: {lines:#?}");
    }
    assert_ne!(first.address("control ").await, second.address("control ").await);
    assert_ne!(first.address("sidecar ").await, second.address("sidecar ").await);
    assert_eq!((first.interrupt().await, second.interrupt().await), (Some(0), Some(0)));
}

#[test]
fn requested_port_taken_is_one_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = program::run_lab(&["dev", "--any-ports", "--port", &port]);
    assert_eq!(output.status.code(), Some(1));
    let reported = format!("nearside-lab: port {port} is in use: write another one after --port, or leave it out\n");
    assert_eq!((text(&output.stderr), text(&output.stdout)), (reported.as_str(), ""));
}

/// Writes a large record: true if the catalogue has no room for it.
async fn refuses_large(http: &reqwest::Client, catalogue: &str, number: u32) -> bool {
    let url = format!("http://{catalogue}/v1/records/tenant/tenant-{number}");
    let body = format!(r#"{{"plan":"{}"}}"#, "y".repeat(100_000));
    let answer = http.put(url).header("content-type", "application/json").body(body).send().await.unwrap();
    answer.status().as_u16() == 507 && answer.text().await.unwrap().contains("store-full")
}

/// All roles share the disk: writes are refused, what is stored goes on being served, and room is all that it takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dev_environment_survives_full_disk() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let mut dev = Dev::start(&["--any-ports", "--no-story", "--access", "off", "--data", data]);
    dev.line("Everything stays up").await;
    let (control, sidecar) = (dev.address("control ").await, dev.address("sidecar ").await);
    let catalogue = dev.address("catalogue ").await;
    let url = format!("http://{sidecar}/v1/contexts/tenant-790/limits");
    assert_eq!(get(&url).await.0, 200);
    let sizes = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    program::limit_files(&dev.child, sizes.max());
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let mut number = 0;
    while !refuses_large(&http, &catalogue, number).await {
        number += 1;
        assert!(number < 400, "the disk becomes full");
    }
    assert_eq!(get(&url).await.0, 200, "hits go on");
    let cold = get(&format!("http://{sidecar}/v1/contexts/tenant-791/limits")).await;
    assert_eq!(cold.0, 200, "misses too: {}", cold.1);
    assert_eq!(get(&format!("http://{catalogue}/v1/records/tenant/tenant-790")).await.0, 200, "and reads of records");
    program::limit_files(&dev.child, None);
    let (code, said) = order(&["put", "tenant-790", r#"{"plan":"room"}"#], &control);
    assert_eq!(code, Some(0), "{said}");
    let seen = async { while !get(&url).await.1.contains("room") {} };
    tokio::time::timeout(TIMEOUT, seen).await.expect("views and regions go on");
    assert_eq!(dev.interrupt().await, Some(0));
}
