//! A drill of an incident: the real program in front of three regions, under load, while an
//! operator purges, refreshes, resets, drains, pauses, inspects and changes the log through
//! `nearside ctl`. No request fails.
//!
//! Beside it: the ways in which commands stay closed.

use std::collections::BTreeMap;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nearside::tasks::Tasks;
use nearside_lab::chaos_server::chaos::{Latency, Mode};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::program::{self, Program, TIMEOUT, settings, text};
use crate::world::World;

const OFF: &str = "[announcements]\ntransport = \"off\"\n";

/// A world, the program in front of it with an operators' socket, and those who call it all the
/// time.
struct Drill {
    world: World,
    program: Program,
    directory: TempDir,
    tasks: Tasks,
    load: Arc<Load>,
}

#[derive(Default)]
struct Load {
    answered: AtomicU64,
    over: AtomicBool,
    failures: Mutex<Vec<String>>,
}

impl Drill {
    async fn begin() -> Self {
        let world = World::builder()
            .records(400)
            .latency(Latency::millis(3, 2))
            .heartbeat(Duration::from_millis(250))
            .start()
            .await
            .unwrap();
        let directory = tempfile::tempdir().unwrap();
        let regions: Vec<(String, String, String)> = world
            .regions
            .iter()
            .map(|region| (region.name.clone(), region.url(), region.publisher.topic().to_owned()))
            .collect();
        let reported: Vec<_> =
            regions.iter().map(|(name, url, topic)| (name.as_str(), url.as_str(), topic.as_str())).collect();
        let base = &world.aws.base;
        let rest = format!(
            "[announcements]\nendpoint_url = \"{base}\"\ninsecure_sns_signer = \"{base}\"\n\
             [freshness]\naudit_period = \"0s\"\nworst_lag = \"2s\"\n[cache]\nsoft_ttl = \"2s\"\n\
             [drain]\nlinger = \"0s\"\n"
        );
        let text = settings("drill", &reported, &rest);
        let socket = format!("[admin]\nunix = \"{}\"\n", directory.path().join("admin.sock").display());
        let program = Program::start(&text.replace("[admin]\n", &socket)).await;
        let drill = Self { world, program, directory, tasks: Tasks::new(), load: Arc::default() };
        drill.program.until("/status", |page| live(page) == 3).await;
        for caller in 0..4 {
            let (url, load) = (format!("http://{}/v1/contexts", drill.program.tcp), drill.load.clone());
            drill.tasks.spawn("load", async move { load.call(&url, caller).await });
        }
        drill
    }

    fn socket(&self) -> String {
        self.directory.path().join("admin.sock").display().to_string()
    }

    /// `nearside ctl ARGUMENTS`, as an operator types it.
    async fn run(&self, arguments: &str) -> Output {
        let mut all = vec!["ctl".to_owned()];
        all.extend(arguments.split_whitespace().map(str::to_owned));
        all.extend(["--socket".to_owned(), self.socket()]);
        let running =
            tokio::task::spawn_blocking(move || program::run(&all.iter().map(String::as_str).collect::<Vec<_>>()));
        running.await.unwrap()
    }

    /// Output for people.
    async fn ctl(&self, arguments: &str) -> String {
        let output = self.run(arguments).await;
        assert_eq!(output.status.code(), Some(0), "{arguments}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout).to_owned()
    }

    async fn json(&self, arguments: &str) -> Value {
        let printed = self.ctl(&format!("{arguments} --json")).await;
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{arguments}: {error}: {printed}"))
    }

    /// Asks again and again until what is printed holds `wanted`.
    async fn until(&self, arguments: &str, wanted: &str) -> String {
        let asking = async {
            loop {
                let printed = self.ctl(arguments).await;
                if printed.contains(wanted) {
                    return printed;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match tokio::time::timeout(TIMEOUT, asking).await {
            Ok(printed) => printed,
            Err(_) => panic!("{arguments} never said {wanted:?}: {}", self.ctl(arguments).await),
        }
    }

    /// A read of a record that nobody else reads: status and `Cache-Status`.
    async fn read(&self, key: &str) -> (u16, String) {
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let answer = client.get(format!("http://{}/v1/contexts/{key}", self.program.tcp)).send().await.unwrap();
        (answer.status().as_u16(), answer.headers()["cache-status"].to_str().unwrap().to_owned())
    }

    /// Reads a record until an answer's label holds `wanted`.
    async fn read_until(&self, key: &str, wanted: &str) {
        let reading = async {
            loop {
                let (status, label) = self.read(key).await;
                assert_eq!(status, 200, "{label}");
                if label.contains(wanted) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, reading).await.unwrap_or_else(|_| panic!("{key} never said {wanted:?}"));
    }

    /// Waits until so many more requests were answered: the load runs.
    async fn under_load(&self, more: u64) {
        let until = self.load.answered.load(Ordering::Acquire) + more;
        let waiting = async {
            while self.load.answered.load(Ordering::Acquire) < until {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, waiting).await.expect("the load goes on");
        assert_eq!(*self.load.failures.lock().unwrap(), Vec::<String>::new());
    }

    async fn metric(&self, line: &str) -> u64 {
        let page = self.program.page("/metrics").await.1;
        let value = page.lines().find_map(|shown| shown.strip_prefix(line)?.trim().parse::<f64>().ok());
        value.unwrap_or_default() as u64
    }

    async fn end(mut self) {
        self.under_load(100).await;
        self.load.over.store(true, Ordering::Release);
        self.tasks.drain(TIMEOUT).await;
        println!("{} requests answered, 0 failed", self.load.answered.load(Ordering::Acquire));
        assert_eq!(*self.load.failures.lock().unwrap(), Vec::<String>::new());
        self.program.signal(Signal::TERM);
        assert_eq!(self.program.ended().await.code(), Some(0), "{:#?}", self.program.lines());
        assert!(!self.directory.path().join("admin.sock").exists(), "its socket goes with it");
    }
}

impl Load {
    /// One caller after another request: mostly of a few records, some of many.
    async fn call(&self, url: &str, caller: u64) {
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let mut turn = caller;
        while !self.over.load(Ordering::Acquire) {
            turn += 1;
            let record = if turn.is_multiple_of(4) { turn % 300 } else { turn % 20 };
            let failure = match client.get(format!("{url}/tenant-{record}")).send().await {
                Err(error) => Some(error.to_string()),
                Ok(answer) => match (answer.status().as_u16(), answer.bytes().await) {
                    (200, Ok(_)) => None,
                    // The world counts its records from 1.
                    (404, Ok(_)) if record == 0 => None,
                    (status, body) => Some(format!("{status} of tenant-{record}: {body:?}")),
                },
            };
            match failure {
                None => drop(self.answered.fetch_add(1, Ordering::AcqRel)),
                Some(failure) => self.failures.lock().unwrap().push(failure),
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Number of LIVE regions on the status page.
fn live(page: &Value) -> usize {
    let regions = page["regions"].as_array().unwrap();
    regions.iter().filter(|region| region["subscription"] == "live").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incident_drill_fails_no_request() {
    let drill = Drill::begin().await;
    drill.under_load(100).await;
    entries_are_explained_purged_and_refreshed(&drill).await;
    a_restored_record_is_reset(&drill).await;
    a_region_is_taken_out_and_back_in(&drill).await;
    topics_are_paused_and_resumed(&drill).await;
    errors_are_reported(&drill).await;
    the_log_is_turned_up_and_down(&drill).await;
    the_configuration_is_read_anew(&drill).await;
    every_command_is_on_record(&drill).await;
    drill.end().await;
}

async fn entries_are_explained_purged_and_refreshed(drill: &Drill) {
    drill.read_until("tenant-350", "hit; ttl=3").await;
    let said = drill.until("inspect --record context:tenant-350", "confirmed: ").await;
    assert!(said.contains("lost no message since it was asked for, and are live"), "{said}");
    assert!(said.contains("entry /v1/contexts/tenant-350: 200, confirmed, now fresh, version 1"), "{said}");

    let said = drill.ctl("compare /v1/contexts/tenant-350").await;
    assert!(said.starts_with("stored: 200, version 1, "), "{said}");
    assert_eq!(said.matches("the same version and content").count(), 3, "{said}");
    assert!(said.ends_with("if it is old, it is old at the source\n"), "{said}");
    // Another caller is another entry.
    let said = drill.ctl("compare /v1/contexts/tenant-350 --header Authorization:other").await;
    assert!(said.starts_with("stored: nothing\n") && said.contains("give --header what callers send"), "{said}");
    // One with a header that may change its answer is passed on, and nothing stored is for it.
    let said = drill.ctl("compare /v1/contexts/tenant-350 --header X-Tenant:acme").await;
    assert!(said.starts_with("stored: nothing for this caller: passed on for x-tenant\n"), "{said}");
    assert_eq!(said.matches(": 200, version 1, ").count(), 3, "each region answers it: {said}");
    assert!(said.contains("a request with x-tenant is passed on whole to one region"), "{said}");
    let refused = drill.run("compare /about").await;
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("no route names this path"), "{}", text(&refused.stderr));

    let said = drill.ctl("purge --record context:tenant-350").await;
    assert!(said.starts_with("1 entry purged, "), "{said}");
    let said = drill.ctl("inspect --path /v1/contexts/tenant-350").await;
    assert!(said.contains("nothing is stored: the next read asks the regions"), "{said}");
    assert!(said.contains("purge by uid "), "who did it: {said}");
    assert!(said.contains("floor 1"), "a purge keeps the floor: {said}");
    let (_, label) = drill.read("tenant-350").await;
    assert!(label.contains("fwd=uri-miss") && label.contains("stored"), "{label}");

    let purged = drill.json("purge --path /v1/contexts/*").await;
    assert!(purged["purged"].as_u64() > Some(20), "{purged}");
    drill.under_load(200).await;
    assert!(drill.json("purge --all").await["purged"].as_u64() > Some(0));
    drill.under_load(200).await;

    let said = drill.ctl("refresh --type context --wait").await;
    assert!(said.lines().last().unwrap().contains("): done, "), "{said}");
    let begun = drill.json("refresh --all").await;
    let number = begun["job"]["job"].as_u64().unwrap();
    drill.ctl(&format!("jobs --stop {number}")).await;
    drill.until("jobs", "stopped, ").await;
}

/// All regions are back at an older version than one that was announced.
async fn a_restored_record_is_reset(drill: &Drill) {
    drill.read_until("tenant-351", "hit").await;
    let message = json!({ "recordType": "context", "key": "tenant-351", "version": "9" }).to_string();
    drill.world.aws.topics.announce(drill.world.region(1).publisher.topic(), &message);
    let said = drill.until("inspect --record context:tenant-351", "below the floor").await;
    assert!(said.contains("it shows version 1, and 9 was announced or served"), "{said}");
    let announcer = &drill.world.region(1).name;
    assert!(said.contains(&format!("newest change announced by {announcer}, ")), "{said}");
    let (status, label) = drill.read("tenant-351").await;
    assert!(status == 200 && label.contains("below-floor"), "{label}");
    let said = drill.json("compare /v1/contexts/tenant-351").await;
    assert!(
        said["regions"]
            .as_array()
            .unwrap()
            .iter()
            .all(|region| region["says"].as_str().unwrap().starts_with("it lags: something newer was announced")),
        "{said}"
    );
    assert!(said.to_string().find("tenant-351").is_none(), "it shows no content and no key: {said}");

    let said = drill.ctl("reset --record context:tenant-351").await;
    assert!(said.starts_with("floors forgotten (record): 1 record "), "{said}");
    let said = drill.ctl("inspect --record context:tenant-351").await;
    assert!(said.contains("reset by uid ") && !said.contains("floor 9"), "{said}");
    drill.read_until("tenant-351", "hit").await;
    let (_, label) = drill.read("tenant-351").await;
    assert!(!label.contains("below-floor"), "{label}");
    drill.ctl("reset --all").await;
    drill.under_load(200).await;
}

async fn a_region_is_taken_out_and_back_in(drill: &Drill) {
    let names: Vec<String> = drill.world.regions.iter().map(|region| region.name.clone()).collect();
    let said = drill.ctl(&format!("region drain {}", names[0])).await;
    assert!(said.contains("is drained: nobody asks it; asked now: "), "{said}");
    drill.program.until("/status", |page| page["regions"][0]["race"]["running"] == 0).await;
    let before = drill.world.region(0).traffic.total();
    drill.ctl("purge --all").await;
    drill.under_load(300).await;
    drill.ctl("refresh --path /v1/contexts/tenant-1 --wait").await;
    assert_eq!(drill.world.region(0).traffic.total(), before, "not asked by races, nor in the background");
    let ready = drill.program.json("/readyz").await;
    assert_eq!(ready["state"], "fresh", "{ready}");
    assert!(ready["reasons"][0].as_str().unwrap().contains("drained by an operator"), "{ready}");
    assert_eq!(drill.metric(&format!("nearside_region_drained{{region=\"{}\"}}", names[0])).await, 1);
    assert!(drill.program.page("/").await.1.contains("<td>drained"));
    let said = drill.ctl("inspect --record context:tenant-1").await;
    assert!(said.contains("drained by an operator: nobody asks it"), "{said}");

    drill.ctl(&format!("region drain {}", names[1])).await;
    let refused = drill.run(&format!("region drain {}", names[2])).await;
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("is the last region that is asked"), "{}", text(&refused.stderr));
    drill.ctl("purge --all").await;
    drill.under_load(200).await;
    for name in &names[..2] {
        assert!(drill.ctl(&format!("region restore {name}")).await.contains("is asked again"));
    }
    drill.ctl("purge --all").await;
    drill.under_load(200).await;
    assert!(drill.world.region(0).traffic.total() > before);
}

/// Checks that a mistyped order changes nothing, nor one that is sent to the side that applications
/// ask, and no region sees it.
async fn errors_are_reported(drill: &Drill) {
    for (mistyped, advice) in [("log inof", "did you mean \"info\"?"), ("log nearside=loud", "write a level")] {
        let refused = drill.run(mistyped).await;
        assert_eq!(refused.status.code(), Some(2), "{mistyped}");
        assert!(text(&refused.stderr).contains(advice), "{mistyped}: {}", text(&refused.stderr));
    }
    let token = drill.directory.path().join("token");
    std::fs::write(&token, "secret-of-an-operator-that-no-region-sees\n").unwrap();
    let (port, token) = (drill.program.tcp.to_string(), token.display().to_string());
    let running =
        tokio::task::spawn_blocking(move || program::run(&["ctl", "log", "--admin", &port, "--token-file", &token]));
    let refused = running.await.unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("is the side that applications ask"), "{}", text(&refused.stderr));
}

async fn topics_are_paused_and_resumed(drill: &Drill) {
    let names: Vec<String> = drill.world.regions.iter().map(|region| region.name.clone()).collect();
    drill.read_until("tenant-352", "hit; ttl=3").await;
    for name in &names {
        let said = drill.ctl(&format!("announcements pause {name}")).await;
        assert!(said.contains("not applied, and no proof"), "{said}");
    }
    let ready = drill.program.json("/readyz").await;
    let reasons = ready["reasons"].as_array().unwrap();
    let paused = reasons.iter().filter(|line| line.as_str().unwrap().contains("paused by an operator"));
    assert_eq!((&ready["state"], paused.count()), (&"degraded".into(), 3), "{ready}");
    let status = drill.program.json("/status").await;
    assert_eq!(status["regions"][0]["subscription"], "paused", "{status}");
    // What was confirmed hangs on topics that nobody believes any more; what is read now hangs on
    // none.
    let said = drill.ctl("inspect --record context:tenant-352").await;
    assert!(said.contains("asked about before it is next served"), "{said}");
    assert!(said.contains(&format!("region {}: its announcements are paused by an operator", names[0])), "{said}");
    assert_eq!(drill.read("tenant-353").await.0, 200);
    let said = drill.ctl("inspect --record context:tenant-353").await;
    assert!(said.contains("not confirmed because no region was live when it was asked for"), "{said}");
    assert!(said.contains("; paused by an operator: "), "{said}");
    let paused = format!("nearside_announcements_total{{region=\"{}\",outcome=\"paused\"}}", names[0]);
    let counting = async {
        while drill.metric(&paused).await == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, counting).await.expect("what it says is counted");
    drill.world.catalogue.put("tenant-353", r#"{"changed":"while nobody listened"}"#).unwrap();
    drill.under_load(200).await;

    for name in &names {
        assert!(drill.ctl(&format!("announcements resume {name}")).await.contains("count again"));
    }
    drill.program.until("/readyz", |page| page["state"] == "fresh").await;
    drill.program.until("/status", |page| live(page) == 3).await;
    drill.until("inspect --record context:tenant-353", "its time is over").await;
    drill.read_until("tenant-353", "hit; ttl=3").await;
    let said = drill.until("inspect --record context:tenant-353", "version 2").await;
    assert!(said.contains("confirmed: "), "{said}");
}

async fn the_log_is_turned_up_and_down(drill: &Drill) {
    assert_eq!(drill.ctl("log").await, "info\n");
    let said = drill.ctl("log nearside=debug,warn").await;
    assert!(said.starts_with("nearside=debug,warn (before: info)"), "{said}");
    // Each try at a region that is gone is logged at this level.
    drill.world.region(0).set(Mode::Off).await;
    drill.ctl("purge --all").await;
    drill.program.line(|line| line["level"] == "DEBUG" && line["region"] == drill.world.region(0).name).await;
    drill.world.region(0).set(Mode::Healthy).await;
    let refused = drill.run("log nearside=loud").await;
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("write a level (off, error"), "{}", text(&refused.stderr));
    assert_eq!(drill.json("log").await["filter"], "nearside=debug,warn", "the one before stays");
    drill.ctl("log info").await;
}

/// A file with an error changes nothing; what an operator did outlives a reload.
async fn the_configuration_is_read_anew(drill: &Drill) {
    let file = drill.program.file();
    let settings = std::fs::read_to_string(&file).unwrap();
    let (name, soft_ttl) = (drill.world.region(0).name.clone(), "soft_ttl = \"2s\"");
    drill.ctl(&format!("region drain {name}")).await;
    std::fs::write(&file, settings.replace(soft_ttl, "soft_ttl = \"soon\"")).unwrap();
    let refused = drill.run("reload").await;
    let said = text(&refused.stderr);
    assert_ne!(refused.status.code(), Some(0), "{}", text(&refused.stdout));
    assert!(said.contains("nothing was changed") && said.contains("cache.soft_ttl"), "{said}");
    drill.under_load(100).await;
    std::fs::write(&file, settings.replace(soft_ttl, "soft_ttl = \"3s\"")).unwrap();
    let said = drill.ctl("reload").await;
    assert!(said.contains("cache.soft_ttl") && said.contains("reloaded: 1 change"), "{said}");
    drill.under_load(200).await;
    let status = drill.program.json("/status").await;
    assert_eq!(status["regions"][0]["race"]["drained"], true, "{status}");
    drill.ctl(&format!("region restore {name}")).await;
}

/// Each command is logged with who did it, and no line shows a key.
async fn every_command_is_on_record(drill: &Drill) {
    let by = format!("uid {}", rustix::process::geteuid().as_raw());
    let mut reported: BTreeMap<String, usize> = BTreeMap::new();
    for line in drill.program.lines() {
        assert!(!line.contains("tenant-35"), "{line}");
        let line: Value = serde_json::from_str(&line).unwrap();
        if line["message"] == "an operator's command" {
            assert_eq!(line["by"], by.as_str(), "{line}");
            *reported.entry(line["command"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    for command in [
        "purge", "refresh", "reset", "inspect", "compare", "drain", "restore", "pause", "resume", "log", "jobs",
        "reload",
    ] {
        let counted =
            drill.metric(&format!("nearside_admin_commands_total{{command=\"{command}\",outcome=\"done\"}}")).await;
        assert!(counted > 0 && reported[command] >= counted as usize, "{command}: {counted} done, {reported:?}");
    }
}

/// The program without anything to open the commands, or with `admin`, lines of its section.
async fn started(admin: &str) -> Program {
    let text = settings("closed", &[("eu", "http://127.0.0.1:1", "")], OFF);
    Program::start(&text.replace("[admin]\n", &format!("[admin]\n{admin}"))).await
}

/// A post to a command: status and problem type.
async fn post(program: &Program, command: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let mut request = client.post(format!("http://{}/commands/{command}", program.admin)).body("{\"all\":true}");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    (status, answer.text().await.unwrap())
}

#[tokio::test]
async fn commands_are_closed_by_default() {
    let program = started("").await;
    let (status, said) = post(&program, "purge", &[("authorization", "Bearer guess")]).await;
    assert_eq!(status, 403, "{said}");
    assert!(said.contains("urn:nearside:problem:commands-closed"), "{said}");
    assert!(said.contains("admin.unix") && said.contains("admin.token_file"), "{said}");
    let output = program::run(&["ctl", "purge", "--all", "--admin", &program.admin.to_string()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("set admin.unix"), "{}", text(&output.stderr));
    assert_eq!(program.page("/commands/purge").await.0, 405, "nothing acts on a GET");
}

#[tokio::test]
async fn tcp_commands_need_token_outside_browsers() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "s3cret-of-operators\n").unwrap();
    let program = started(&format!("token_file = \"{}\"\n", file.display())).await;
    let right = ("authorization", "Bearer s3cret-of-operators");
    for (headers, status) in [
        (&[right][..], 200),
        (&[][..], 401),
        (&[("authorization", "Bearer s3cret-of-operator")][..], 401),
        (&[("authorization", "Basic czNjcmV0")][..], 401),
        (&[right, ("origin", "https://evil.example")][..], 403),
        (&[right, ("sec-fetch-site", "cross-site")][..], 403),
        (&[right, ("host", "evil.example")][..], 421),
    ] {
        let (got, said) = post(&program, "purge", headers).await;
        assert_eq!(got, status, "{headers:?}: {said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
    let admin = program.admin.to_string();
    let output = program::run(&["ctl", "log", "--admin", &admin, "--token-file", program::path(&file)]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "info\n"), "{}", text(&output.stderr));
    let output = program::run(&["ctl", "log", "--admin", &admin]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("Authorization: Bearer"), "{}", text(&output.stderr));
    program.line(|line| line["message"] == "an operator's command" && line["by"] == "token").await;
    assert!(!program.lines().join("\n").contains("s3cret"));
}

#[tokio::test]
async fn unlisted_uid_is_refused_with_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("admin.sock");
    let own = rustix::process::geteuid().as_raw();
    let program = started(&format!("unix = \"{}\"\nunix_uids = [{}]\n", socket.display(), own + 1)).await;
    let output = program::run(&["ctl", "purge", "--all", "--socket", program::path(&socket)]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains(&format!("uid {own}")) && said.contains("admin.unix_uids"), "{said}");
    program.line(|line| line["message"] == "somebody who may not act was turned away").await;
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&socket).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

fn ctl(arguments: &[&str]) -> Output {
    program::run(&[&["ctl"], arguments].concat())
}

#[tokio::test]
async fn ctl_finds_sidecar_by_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let (file, socket) = (directory.path().join("nearside.toml"), directory.path().join("admin.sock"));
    let text_of = settings("found", &[("eu", "http://127.0.0.1:1", "")], OFF);
    let text_of = text_of.replace("[admin]\n", &format!("[admin]\nunix = \"{}\"\n", socket.display()));
    std::fs::write(&file, &text_of).unwrap();
    let nobody = ctl(&["jobs", "--config", program::path(&file)]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody.stderr).contains("start the sidecar"), "{}", text(&nobody.stderr));
    let _program = Program::start(&text_of).await;
    let found = ctl(&["jobs", "--config", program::path(&file)]);
    assert_eq!((found.status.code(), text(&found.stdout)), (Some(0), "no jobs\n"), "{}", text(&found.stderr));
    for (arguments, allowed) in [
        (&["purge"][..], "--path <PATH>|--record <TYPE:KEY>|--type <TYPE>|--all"),
        (&["purge", "--all", "--type", "context"][..], "cannot be used with"),
        (&["purge", "--type", "nope", "--config", program::path(&file)][..], "write one of: context"),
        (&["region", "drain", "us", "--config", program::path(&file)][..], "the regions are: eu"),
        (&["announcements", "pause", "eu", "--config", program::path(&file)][..], "announces nothing here"),
    ] {
        let refused = ctl(arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        assert!(text(&refused.stderr).contains(allowed), "{arguments:?}: {}", text(&refused.stderr));
    }
    let help = ctl(&["--help"]);
    for word in ["Examples:", "purge", "inspect", "region", "announcements", "--socket", "docs/operations.md"] {
        assert!(text(&help.stdout).contains(word), "{word}: {}", text(&help.stdout));
    }
}
