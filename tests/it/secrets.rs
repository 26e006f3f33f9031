//! Secrets that must not show anywhere: a canary in every body, token and key, and a look at all
//! that the program says of itself.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nearside::tasks::Tasks;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::wire::{Message, Region, Say, configuration, exchange, reply, request};

/// The program itself, in a process of its own.
struct Sidecar {
    child: Child,
    log: PathBuf,
    tcp: String,
    admin: String,
}

impl Sidecar {
    /// Starts it over `config`, logging to `log`; resolves once it serves.
    async fn start(config: &Path, log: PathBuf) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nearside"))
            .env_clear()
            .args(["run", "--config", config.to_str().unwrap()])
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let serving = loop {
            let text = std::fs::read_to_string(&log).unwrap();
            let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            if let Some(line) = lines.find(|line| line["message"] == "serving") {
                break line;
            }
            assert!(child.try_wait().unwrap().is_none(), "it serves: {text}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let [tcp, admin] = ["tcp", "admin"].map(|name| {
            let text = serving[name].as_str().unwrap_or_default();
            text.trim_start_matches("Some(").trim_end_matches(')').to_owned()
        });
        Self { child, log, tcp, admin }
    }

    /// Ends it, and gives all that it logged.
    fn end(mut self) -> String {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        // A test that failed leaves nothing running; one that ended it has nothing left to kill.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

async fn talk(address: &str, bytes: &[u8]) -> Option<Message> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    exchange(&mut stream, bytes, false).await
}

#[tokio::test]
async fn no_secret_appears_in_any_output() {
    const CANARY: &str = "c4n4ry";
    let dir = tempfile::tempdir().unwrap();
    let [own, port] = [("credentials", "c4n4ry-own"), ("token", "c4n4ry-port")].map(|(name, text)| {
        std::fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name).display().to_string()
    });
    let tasks = Tasks::new();
    let region = Region::start(&tasks, std::sync::Arc::new(|request: &Message| answer_with_canaries(request))).await;
    // An issuer of canaries.
    let issuer = Region::start(&tasks, std::sync::Arc::new(|_: &Message| reply(200, "", CANARY_TOKEN))).await;
    let settings = settings(&own, &port, &issuer.url());
    let file = dir.path().join("nearside.toml");
    std::fs::write(&file, configuration(&[region], &settings)).unwrap();
    let sidecar = Sidecar::start(&file, dir.path().join("log")).await;

    let lines = [
        "X-Nearside-Token: c4n4ry-port",
        "Authorization: Bearer c4n4ry-caller",
        "Cookie: c4n4ry=c4n4ry",
        "X-Tenant: c4n4ry-tenant",
        "Traceparent: 00-c4n4ry",
    ];
    let deeds = ["good", "absent", "refused", "error", "garbage", "truncated", "silent", "large", "old", "moved"];
    for prefix in ["/own", "/minted", "/r", "/unrouted"] {
        for deed in deeds {
            for method in ["GET", "GET", "POST"] {
                let body: &[u8] = if method == "POST" { b"c4n4ry-body" } else { b"" };
                let target = format!("{prefix}/{deed}-c4n4ry?q=c4n4ry");
                let _whatever = talk(&sidecar.tcp, &request(method, &target, &lines, body)).await;
            }
        }
    }
    for lines in [
        &["X-Nearside-Token: c4n4ry-wrong"][..],
        &["X-Nearside-Token: c4n4ry-port", "Host: c4n4ry.example"],
        &["X-Nearside-Token: c4n4ry-port", "Upgrade: c4n4ry"],
    ] {
        talk(&sidecar.tcp, &request("GET", "/r/c4n4ry", lines, b"")).await.unwrap();
    }
    for broken in ["c4n4ry", "GET /c4n4ry HTTP/1.1\r\nc4n4ry\r\n\r\n", "GET /r/c4n4ry HTTP/1.1\r\nc4n4ry : 1\r\n\r\n"]
    {
        let mut stream = TcpStream::connect(&sidecar.tcp).await.unwrap();
        stream.write_all(broken.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut bytes = Vec::new();
        let _whatever = stream.read_to_end(&mut bytes).await;
    }
    for token in 0..70 {
        let token = format!("Authorization: c4n4ry-{token}");
        talk(&sidecar.tcp, &request("GET", "/r/good-c4n4ry", &["X-Nearside-Token: c4n4ry-port", &token], b""))
            .await
            .unwrap();
    }
    let mut shown = String::new();
    for page in ["/metrics", "/status", "/readyz", "/livez", "/", "/c4n4ry"] {
        let got = talk(&sidecar.admin, &request("GET", page, &[], b"")).await.unwrap();
        assert!(got.status() == 200 || page == "/c4n4ry", "{page}: {}", got.first_line);
        shown.push_str(got.text());
    }
    let log = sidecar.end();
    assert!(shown.contains("nearside_identity_churn_total 1"), "what could leak was there");
    assert!(log.contains("the sidecar's credentials were minted"), "{log}");
    assert!(log.contains("many identities ask for one record") && log.contains("a try failed"), "{log}");
    let leaks: Vec<_> = shown.lines().chain(log.lines()).filter(|line| line.contains(CANARY)).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
    tasks.drain(Duration::from_secs(10)).await;
}

/// Routes with the content of `own`, with tokens of `issuer`, and with callers' credentials.
fn settings(own: &str, port: &str, issuer: &str) -> String {
    format!(
        "listen.token_file = \"{port}\"\nlog.format = \"json\"\nlog.filter = \"nearside=trace,debug\"\n\
         race.deadline = \"200ms\"\n\
         [[service.route]]\npath = \"/own/{{key}}\"\nrecords = [\"thing:{{key}}\"]\nidentity = \"sidecar\"\n\
         credentials = {{ file = \"{own}\" }}\n\
         [[service.route]]\npath = \"/minted/{{key}}\"\nrecords = [\"thing:{{key}}\"]\nidentity = \"sidecar\"\n\
         credentials = {{ kind = \"oauth\", token_url = \"{issuer}/c\", client_id = \"id\", secret_file = \"{own}\" }}\n\
         [[service.route]]\npath = \"/r/{{key}}\"\nrecords = [\"thing:{{key}}\"]\nforward = [\"x-tenant\"]\n"
    )
}

/// Answer of an issuer.
const CANARY_TOKEN: &str =
    r#"{"access_token": "c4n4ry-minted", "token_type": "Bearer", "expires_in": 900, "c4n4ry": 1}"#;

/// A region that misbehaves as the target says, with a canary wherever one fits.
fn answer_with_canaries(request: &Message) -> Say {
    let last = request.target().rsplit('/').next().unwrap_or_default();
    let lines = "X-Record-Version: 5\nETag: \"c4n4ry\"\nSet-Cookie: c4n4ry=1\nCache-Control: public, max-age=1";
    match last.split('-').next().unwrap_or_default() {
        "absent" => reply(404, lines, "c4n4ry-body"),
        "refused" => reply(403, lines, "c4n4ry-body"),
        "error" => reply(503, "Retry-After: c4n4ry", "c4n4ry-body"),
        "garbage" => Say::Last(b"c4n4ry is not HTTP\r\n\r\n".to_vec()),
        "truncated" => Say::Last(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nc4n4ry".to_vec()),
        "silent" => Say::Last(Vec::new()),
        "large" => Say::Last(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\nc4n4ry".to_vec()),
        "moved" => reply(302, "Location: /c4n4ry", "c4n4ry-body"),
        "old" => reply(200, "X-Record-Version: c4n4ry", "c4n4ry-body"),
        _ => reply(200, lines, "c4n4ry-body"),
    }
}
