//! Credentials that the sidecar mints for itself, on the wire: an OAuth server, a sidecar, regions.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use nearside::tasks::Tasks;

use super::drop_in::{clients, script_file};
use super::program;
use super::wire::{Message, Region, Say, Wire, configuration, reply};

const MINUTE: Duration = Duration::from_mins(1);

/// An OAuth server whose tokens are `minted-1`, `minted-2`, ...
struct Issuer {
    server: Region,
    is_down: Arc<AtomicBool>,
    folder: tempfile::TempDir,
    tasks: Tasks,
}

impl Issuer {
    async fn start() -> Self {
        let (tasks, is_down, folder) = (Tasks::new(), Arc::<AtomicBool>::default(), tempfile::tempdir().unwrap());
        std::fs::write(folder.path().join("secret"), "hush").unwrap();
        let (down, count) = (is_down.clone(), std::sync::atomic::AtomicU32::new(0));
        let answer = move |_: &Message| {
            if down.load(Ordering::Relaxed) {
                return reply(503, "", "");
            }
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            let token = format!("{{\"access_token\": \"minted-{number}\", ");
            reply(
                200,
                "Content-Type: application/json",
                &(token + "\"token_type\": \"Bearer\", \"expires_in\": 900}"),
            )
        };
        let server = Region::start(&tasks, Arc::new(answer)).await;
        Self { server, is_down, folder, tasks }
    }

    /// `/r/{key}`, asked for with its tokens.
    fn route(&self) -> String {
        format!(
            "[[service.route]]\npath = \"/r/{{key}}\"\nrecords = [\"thing:{{key}}\"]\nidentity = \"sidecar\"\n\
             credentials = {{ kind = \"oauth\", token_url = \"{}/token\", client_id = \"jira\", \
             secret_file = \"{}\" }}\n",
            self.server.url(),
            self.folder.path().join("secret").display()
        )
    }

    fn asked(&self) -> usize {
        self.server.seen().len()
    }

    fn fail(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
    }

    async fn end(self) {
        assert!(self.tasks.drain(program::TIMEOUT).await.is_empty());
    }
}

/// A record for those with a token of the issuer.
fn guarded(request: &Message) -> Say {
    if request.has("authorization") && request.header("authorization").starts_with("Bearer minted-") {
        reply(200, "X-Record-Version: 1", "x")
    } else {
        reply(401, "", "")
    }
}

#[tokio::test]
async fn thousand_cold_requests_make_one_mint() {
    let issuer = Issuer::start().await;
    // So many at once, on a machine that may be busy.
    let ample = "race.deadline = \"30s\"\nrace.permits = 1024\ndrain.deadline = \"60s\"\n";
    let wire = Wire::with(2, &format!("{ample}{}", issuer.route()), guarded).await;
    let answers = join_all((0..1_000).map(|key| {
        let wire = &wire;
        async move { wire.get(&format!("/r/{key}"), &["Authorization: callers"]).await.status() }
    }))
    .await;
    let refused: Vec<_> = answers.iter().filter(|status| **status != 200).collect();
    assert!(refused.is_empty(), "{refused:?}");
    assert_eq!(issuer.asked(), 1);
    let asked = issuer.server.seen().remove(0);
    assert!(asked.first_line.starts_with("POST /token ") && asked.header("authorization").starts_with("Basic "));
    assert!(wire.seen().iter().all(|seen| seen.all("authorization") == ["Bearer minted-1"]));
    wire.get("/r/1", &["Range: bytes=0-0", "Authorization: callers"]).await;
    assert_eq!(wire.last_seen().all("authorization"), ["Bearer minted-1"], "what is passed on carries it too");
    let metrics = wire.page("/metrics").await;
    assert!(metrics.text().contains("nearside_credentials_mints_total{kind=\"oauth\",outcome=\"minted\"} 1"));
    assert!(metrics.text().contains("nearside_credentials_expiry_seconds{kind=\"oauth\"} 8"));
    wire.end().await;
    issuer.end().await;
}

/// A writer is known by its own credentials.
#[tokio::test]
async fn writes_carry_no_minted_token() {
    let issuer = Issuer::start().await;
    let wire = Wire::with(1, &issuer.route(), guarded).await;
    for lines in [&["Authorization: callers"][..], &[]] {
        wire.ask("POST", "/r/a", lines, b"").await;
        let all = wire.seen();
        let seen = all.iter().rfind(|seen| seen.method() == "POST").expect("it was passed on");
        assert!(!seen.has("authorization") || seen.all("authorization") == ["callers"]);
    }
    wire.end().await;
    issuer.end().await;
}

#[tokio::test]
async fn without_token_misses_are_503() {
    let issuer = Issuer::start().await;
    let wire = Wire::with(2, &issuer.route(), guarded).await;
    wire.live();
    assert_eq!(wire.get("/r/stored", &[]).await.status(), 200);
    wire.idle().await;
    issuer.fail(true);
    // Longer than half a life: it goes on with the last one.
    wire.pass_live(10 * MINUTE);
    while issuer.asked() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(wire.get("/r/new", &[]).await.status(), 200);
    let ready = wire.page("/readyz").await;
    assert!(ready.text().contains("credentials (oauth): they cannot be renewed"), "{}", ready.text());
    // Longer than a life.
    wire.pass_live(5 * MINUTE);
    let asked = wire.seen().len();
    let refused = wire.get("/r/newer", &[]).await;
    assert_eq!((refused.status(), refused.header("content-type")), (503, "application/problem+json"));
    assert!(refused.text().contains("urn:nearside:problem:credentials-unavailable"), "{}", refused.text());
    assert_eq!(wire.seen().len(), asked, "no region was asked");
    assert!(wire.get("/r/stored", &[]).await.is_hit());
    let ready = wire.page("/readyz").await;
    assert!(
        ready.text().contains("\"degraded\"") && ready.text().contains("answered 503; look at"),
        "{}",
        ready.text()
    );
    issuer.fail(false);
    while wire.get("/r/newest", &[]).await.status() != 200 {
        wire.pass_live(Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    wire.end().await;
    issuer.end().await;
}

/// The second region has other settings than the first: it refuses every token.
#[tokio::test]
async fn one_refusing_region_costs_no_mint() {
    let issuer = Issuer::start().await;
    let wire = Wire::with(2, &issuer.route(), guarded).await;
    assert_eq!(wire.get("/r/first", &[]).await.status(), 200);
    wire.idle().await;
    wire.regions[1].says(|_| reply(401, "", ""));
    for key in 0..50 {
        assert_eq!(wire.get(&format!("/r/{key}"), &[]).await.status(), 200);
    }
    wire.idle().await;
    assert_eq!(issuer.asked(), 1);
    wire.end().await;
    issuer.end().await;
}

#[tokio::test]
async fn changed_secret_is_used_at_once() {
    let issuer = Issuer::start().await;
    let wire = Wire::with(1, &issuer.route(), guarded).await;
    assert_eq!(wire.get("/r/a", &[]).await.status(), 200);
    let file = issuer.folder.path().join("secret");
    std::fs::write(file.with_extension("new"), "another").unwrap();
    std::fs::rename(file.with_extension("new"), &file).unwrap();
    let mut key = 0;
    while wire.last_seen().header("authorization") != "Bearer minted-2" {
        assert!(key < 3_000, "the file was not read again");
        tokio::time::sleep(Duration::from_millis(20)).await;
        wire.get(&format!("/r/{key}"), &[]).await;
        key += 1;
    }
    let [first, second] = &issuer.server.seen()[..] else { panic!("two mints") };
    assert_ne!(first.header("authorization"), second.header("authorization"));
    wire.end().await;
    issuer.end().await;
}

/// An OAuth server by oauthlib, which ends with its handle.
struct PythonServer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl PythonServer {
    fn start(client: &str, secret: &str, scope: &str) -> Self {
        let mut command = Command::new(clients().join("bin/python"));
        command.arg(script_file("oauth_server.py")).args([client, secret, scope]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Its URL, then each token that it issues.
    fn says(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }
}

impl Drop for PythonServer {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

#[tokio::test]
async fn tokens_of_oauthlib_reach_regions() {
    let (client, secret, scope) = ("jira:ci", "p%+ss: w\u{f6}rd&", "contexts.read limits.read");
    let (folder, mut server) = (tempfile::tempdir().unwrap(), PythonServer::start(client, secret, scope));
    let file = folder.path().join("secret");
    std::fs::write(&file, secret).unwrap();
    let route = format!(
        "[[service.route]]\npath = \"/r/{{key}}\"\nrecords = [\"thing:{{key}}\"]\nidentity = \"sidecar\"\n\
         credentials = {{ kind = \"oauth\", token_url = \"{}\", client_id = \"{client}\", scope = \"{scope}\", \
         secret_file = \"{}\", header = \"x-own\" }}\n",
        server.says(),
        file.display()
    );
    let wire = Wire::with(1, &route, |_| reply(200, "", "x")).await;
    assert_eq!(wire.get("/r/a", &[]).await.status(), 200);
    assert_eq!(wire.last_seen().all("x-own"), [format!("Bearer {}", server.says())]);
    std::fs::write(&file, "another secret").unwrap();
    loop {
        let ready = wire.page("/readyz").await;
        if ready.text().contains("answered 401 (invalid_client); correct credentials.client_id") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    wire.end().await;
}

/// Runs the program with these arguments over a file of settings; returns all that it says.
async fn run(issuer: &Issuer, args: &'static [&'static str]) -> String {
    let region = Region::start(&issuer.tasks, Arc::new(guarded)).await;
    let file = issuer.folder.path().join("nearside.toml");
    std::fs::write(&file, configuration(&[region], &issuer.route())).unwrap();
    let output = move || {
        let config = file.to_str().unwrap().to_owned();
        let output = program::command(&[args, &["--config", &config]].concat()).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    nearside::tasks::on_disk(output).await.unwrap()
}

#[tokio::test]
async fn check_mints_nothing_doctor_does() {
    let issuer = Issuer::start().await;
    let checked = run(&issuer, &["check"]).await;
    assert!(checked.contains("credentials.kind = \"oauth\""), "{checked}");
    assert_eq!(issuer.asked(), 0);
    let doctor = run(&issuer, &["doctor", "--listen", "100ms", "--path", "/r/a"]).await;
    assert!(doctor.contains("an opaque token, which shows no claims; it ends in"), "{doctor}");
    assert_eq!(issuer.asked(), 1);
    issuer.fail(true);
    let failing = run(&issuer, &["doctor", "--listen", "100ms", "--path", "/r/a"]).await;
    assert!(failing.contains("answered 503; look at the server's own log"), "{failing}");
    for text in [checked, doctor, failing] {
        assert!(!text.contains("minted-") && !text.contains("hush"), "{text}");
    }
    issuer.end().await;
}
