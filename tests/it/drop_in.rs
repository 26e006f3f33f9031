//! Drop-in: clients that know nothing of Nearside send the same requests once to the service itself
//! and once to a sidecar in front of three regions of it, and must not be able to tell which was
//! which.
//!
//! The clients are Python's requests, Node's fetch, http.request and http2, and curl, over
//! keep-alive, on TCP (HTTP/1.1 and h2c) and on the Unix socket. What may differ is what the
//! sidecar adds, and framing.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::program::{self, Program, settings, text};
use super::service::Service;

/// One request of the script that every client runs.
#[derive(Clone, Debug, Serialize)]
struct Step {
    method: &'static str,
    path: &'static str,
    headers: std::collections::BTreeMap<&'static str, &'static str>,
    body: Option<String>,
}

/// Answer as a client received it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Answer {
    status: u16,
    /// Names in lower case, sorted.
    headers: Vec<(String, String)>,
    length: usize,
    /// Digest of the decoded body; of the body itself with curl, which says more when it fails.
    sha256: String,
}

#[derive(Debug, Deserialize)]
struct Seen {
    /// Number of connections that were opened for it all.
    connections: usize,
    answers: Vec<Answer>,
}

fn step(method: &'static str, path: &'static str, headers: &[(&'static str, &'static str)]) -> Step {
    Step { method, path, headers: headers.iter().copied().collect(), body: None }
}

fn write(method: &'static str, path: &'static str, body: String) -> Step {
    Step { body: Some(body), ..step(method, path, &[("Content-Type", "text/plain")]) }
}

/// The script. `broken` comes last: its 500s make the regions look ill.
fn script() -> Vec<Step> {
    vec![
        step("GET", "/v1/contexts/alpha", &[]),
        step("GET", "/v1/contexts/alpha", &[]),
        step("HEAD", "/v1/contexts/alpha", &[]),
        step("GET", "/v1/contexts/alpha", &[("Accept-Encoding", "identity")]),
        step("GET", "/v1/contexts/alpha", &[("If-None-Match", "\"v1\"")]),
        step("GET", "/v1/contexts/alpha", &[("If-None-Match", "\"v0\"")]),
        step("GET", "/v1/contexts/cold", &[("If-None-Match", "\"v1\"")]),
        step("GET", "/v1/contexts/alpha", &[("Range", "bytes=0-9"), ("Accept-Encoding", "identity")]),
        step("HEAD", "/v1/contexts/beta", &[]),
        step("GET", "/v1/contexts/beta?view=full&q=a%20b%2Fc&euro=%E2%82%AC", &[]),
        step("OPTIONS", "/v1/contexts/beta", &[]),
        step("GET", "/v1/contexts/chunked", &[]),
        step("GET", "/v1/contexts/chunked", &[]),
        step("GET", "/v1/contexts/large", &[]),
        step("GET", "/v1/contexts/large", &[]),
        step("GET", "/v1/contexts/huge", &[("Accept-Encoding", "identity")]),
        step("GET", "/v1/contexts/huge", &[("Accept-Encoding", "identity")]),
        step("GET", "/v1/contexts/missing", &[]),
        step("GET", "/v1/contexts/missing", &[]),
        step("HEAD", "/v1/contexts/missing", &[]),
        step("GET", "/v1/contexts/denied", &[]),
        step("GET", "/v1/contexts/moved", &[]),
        step("GET", "/v1/about", &[]),
        step("GET", "/v1/about", &[]),
        step("HEAD", "/v1/about", &[]),
        step("GET", "/v1/about", &[("If-Modified-Since", "Thu, 01 Jan 2026 00:00:00 GMT")]),
        step("GET", "/v1/search?q=a%20b%2Fc&euro=%E2%82%AC", &[]),
        write("POST", "/v1/echo", "to be or not to be".to_owned()),
        write("POST", "/v1/echo", "large ".repeat(30_000)),
        step("GET", "/v1/notes/1", &[]),
        write("PUT", "/v1/notes/1", "first".to_owned()),
        step("GET", "/v1/notes/1", &[]),
        step("GET", "/v1/notes/1", &[]),
        write("PUT", "/v1/notes/1", "second".to_owned()),
        step("GET", "/v1/notes/1", &[]),
        step("DELETE", "/v1/notes/1", &[]),
        step("GET", "/v1/notes/1", &[]),
        step("GET", "/v1/nowhere", &[]),
        step("GET", "/v1/contexts/broken", &[]),
    ]
}

/// The steps that a sidecar answers from its store; those on paths without a route only where it is
/// set to.
const FROM_THE_STORE: [usize; 12] = [1, 2, 4, 5, 12, 14, 18, 19, 23, 24, 25, 32];

/// The service, and a sidecar in front of three regions of another one just like it.
struct Stage {
    direct: Service,
    _regions: Service,
    program: Program,
    directory: TempDir,
    /// `cache.unrouted`
    unrouted: &'static str,
}

impl Stage {
    async fn set(unrouted: &'static str) -> Self {
        let (direct, regions) = (Service::start(1), Service::start(3));
        let urls = regions.urls();
        let named: Vec<_> =
            ["eu", "us", "ap"].into_iter().zip(&urls).map(|(name, url)| (name, url.as_str(), "")).collect();
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nearside.sock");
        let rest = format!(
            "[announcements]\ntransport = \"off\"\n[race]\ndeadline = \"10s\"\n[listen]\n\
             tcp = \"127.0.0.1:0\"\nunix = \"{}\"\n[cache]\nunrouted = \"{unrouted}\"\n",
            program::path(&socket)
        );
        let program = Program::start(&settings("drop-in", &named, &rest)).await;
        Self { direct, _regions: regions, program, directory, unrouted }
    }

    fn direct(&self) -> String {
        self.direct.urls().remove(0)
    }

    fn tcp(&self) -> String {
        format!("http://{}", self.program.tcp)
    }

    fn unix(&self) -> String {
        format!("unix:{}", program::path(&self.directory.path().join("nearside.sock")))
    }
}

/// Runs the set-up, which does nothing when it was done before; returns the virtual environment.
pub(crate) fn clients() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let done =
            Command::new(script_file("setup.sh")).stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
        assert!(done.status.success(), "tests/clients/setup.sh failed; what it said is above");
        PathBuf::from(text(&done.stdout).trim())
    })
}

pub(crate) fn script_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// Runs one of the client scripts.
fn run(program: &Path, file: &str, args: &[&str]) -> Seen {
    let mut command = Command::new(program);
    command.arg(script_file(file)).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&serde_json::to_vec(&script()).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{file} {args:?} failed; what it said is above");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn with_requests(base: &str) -> Seen {
    run(&clients().join("bin/python"), "with_requests.py", &[base])
}

fn with_node(how: &str, base: &str) -> Seen {
    clients();
    run(Path::new("node"), "with_node.mjs", &[how, base])
}

/// Runs the script with one curl.
fn with_curl(base: &str) -> Seen {
    clients();
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let (at, unix) = match base.strip_prefix("unix:") {
        Some(path) => ("http://localhost", Some(path)),
        None => (base, None),
    };
    let steps = script();
    let mut config = String::new();
    for (number, step) in steps.iter().enumerate() {
        option(&mut config, "url", &format!("{at}{}", step.path));
        option(&mut config, "dump-header", program::path(&step_file(directory, "head", number)));
        option(&mut config, "output", program::path(&step_file(directory, "body", number)));
        option(&mut config, "write-out", "%{http_code} %{num_connects}\\n");
        option(&mut config, "noproxy", "*");
        option(&mut config, "max-time", "60");
        for (name, value) in &step.headers {
            option(&mut config, "header", &format!("{name}: {value}"));
        }
        if let Some(path) = unix {
            option(&mut config, "unix-socket", path);
        }
        if let Some(body) = &step.body {
            let file = step_file(directory, "sent", number);
            std::fs::write(&file, body).unwrap();
            option(&mut config, "data-binary", &format!("@{}", program::path(&file)));
        }
        match step.method {
            "HEAD" => config += "head\n",
            method => option(&mut config, "request", method),
        }
        if !step.headers.contains_key("Accept-Encoding") {
            config += "compressed\n";
        }
        writeln!(config, "silent\nshow-error\n{}", if number + 1 < steps.len() { "next" } else { "" }).unwrap();
    }
    let file = step_file(directory, "config", 0);
    std::fs::write(&file, config).unwrap();
    let output = Command::new("curl").args(["-q", "--config", program::path(&file)]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (mut connections, mut answers) = (0, Vec::new());
    for (number, line) in text(&output.stdout).lines().enumerate() {
        let (status, connects) = line.split_once(' ').unwrap();
        connections += connects.parse::<usize>().unwrap();
        let head = std::fs::read_to_string(step_file(directory, "head", number)).unwrap();
        let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let mut headers: Vec<_> =
            fields.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
        headers.sort();
        // With --head what is written is the head again.
        let body = std::fs::read(step_file(directory, "body", number)).ok();
        let body = body.filter(|_| steps[number].method != "HEAD").unwrap_or_default();
        let sha256 = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &body);
        let sha256 = sha256.as_ref().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        answers.push(Answer { status: status.parse().unwrap(), headers, length: body.len(), sha256 });
    }
    Seen { connections, answers }
}

/// File that curl writes or reads for one step.
fn step_file(directory: &Path, kind: &str, number: usize) -> PathBuf {
    directory.join(format!("{kind}-{number}"))
}

/// Adds an option to curl's configuration.
fn option(config: &mut String, name: &str, value: &str) {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    writeln!(config, "{name} = \"{value}\"").unwrap();
}

/// Headers that the sidecar adds, or that belong to one connection.
const NOT_COMPARED: [&str; 6] = ["age", "cache-status", "date", "connection", "keep-alive", "transfer-encoding"];

fn states_length(answer: &Answer) -> bool {
    answer.headers.iter().any(|(name, _)| name == "content-length")
}

/// The compared headers of an answer, its length among them if both answers state one.
fn end_to_end(answer: &Answer, with_length: bool) -> Vec<&(String, String)> {
    let compared = answer.headers.iter().filter(|(name, _)| !NOT_COMPARED.contains(&name.as_str()));
    compared.filter(|(name, _)| with_length || name != "content-length").collect()
}

fn compare(name: &str, stage: &Stage, direct: &Seen, through: &Seen) {
    let steps = script();
    assert_eq!((direct.answers.len(), through.answers.len()), (steps.len(), steps.len()), "{name}");
    for (number, step) in steps.iter().enumerate() {
        let (one, other) = (&direct.answers[number], &through.answers[number]);
        let what = format!("{name}, step {number}, {} {} {:?}", step.method, step.path, step.headers);
        assert_eq!(one.status, other.status, "{what}: {one:?} {other:?}");
        assert_eq!((one.length, &one.sha256), (other.length, &other.sha256), "{what}: {one:?} {other:?}");
        // A body that came in chunks has a known length once it is stored.
        let both = states_length(one) && states_length(other);
        assert_eq!(end_to_end(one, both), end_to_end(other, both), "{what}");
        let label = other.headers.iter().find(|(name, _)| name == "cache-status").map(|(_, value)| value.as_str());
        let label = label.unwrap_or_else(|| panic!("{what}: no Cache-Status"));
        // fetch says no-cache with each condition of the caller's own.
        let anew = name.starts_with("fetch") && step.headers.keys().any(|name| name.starts_with("If-"));
        let kept = stage.unrouted == "cache" || step.path.starts_with("/v1/contexts/");
        let stored = FROM_THE_STORE.contains(&number) && kept && !anew;
        assert_eq!(label.starts_with("nearside; hit"), stored, "{what}: {label}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_requests_sees_no_difference() {
    let stage = Stage::set("pass").await;
    let direct = with_requests(&stage.direct());
    let through = with_requests(&stage.tcp());
    compare("requests over TCP", &stage, &direct, &through);
    assert_eq!((direct.connections, through.connections), (1, 1), "one connection for all");
    let stage = Stage::set("cache").await;
    let through = with_requests(&stage.unix());
    compare("requests over the Unix socket", &stage, &direct, &through);
    assert_eq!(through.connections, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_fetch_sees_no_difference() {
    let stage = Stage::set("pass").await;
    let direct = with_node("fetch", &stage.direct());
    let through = with_node("fetch", &stage.tcp());
    compare("fetch over TCP", &stage, &direct, &through);
    // fetch ends its connection after a HEAD and now and then else, with either side.
    assert_eq!(direct.connections, through.connections);
    assert!(through.connections < script().len() / 4, "{}", through.connections);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_http_request_sees_no_difference() {
    let stage = Stage::set("cache").await;
    let direct = with_node("request", &stage.direct());
    let through = with_node("request", &stage.unix());
    compare("http.request over the Unix socket", &stage, &direct, &through);
    assert_eq!((direct.connections, through.connections), (1, 1), "one connection for all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_h2c_equals_service_over_http1() {
    let stage = Stage::set("cache").await;
    let direct = with_node("request", &stage.direct());
    let through = with_node("h2c", &stage.tcp());
    compare("HTTP/2 without TLS", &stage, &direct, &through);
    assert_eq!(through.connections, 1, "one connection for all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_sees_no_difference() {
    let stage = Stage::set("pass").await;
    let direct = with_curl(&stage.direct());
    let through = with_curl(&stage.tcp());
    compare("curl over TCP", &stage, &direct, &through);
    assert_eq!((direct.connections, through.connections), (1, 1), "one connection for all");
    let stage = Stage::set("cache").await;
    let through = with_curl(&stage.unix());
    compare("curl over the Unix socket", &stage, &direct, &through);
    assert_eq!(through.connections, 1);
}
