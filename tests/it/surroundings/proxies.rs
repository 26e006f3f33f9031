//! The environment names proxies: no call goes through one, and it is said.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::ffi::OsStringExt;
use std::process::Command;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use tokio::sync::watch;

use super::super::program::{self, Program, TIMEOUT, settings, text};
use crate::world::World;

/// Every variable that some client takes for a proxy.
const VARIABLES: [&str; 6] = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// A port that notes what each connection begins with, and answers it with credentials.
struct Recorder {
    address: SocketAddr,
    heard: watch::Receiver<Vec<String>>,
}

impl Recorder {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (say, heard) = watch::channel(Vec::new());
        let serving = std::thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            for stream in listener.incoming() {
                let (stream, say) = (stream.unwrap(), say.clone());
                std::thread::Builder::new().spawn(move || record(stream, &say)).unwrap();
            }
        });
        serving.unwrap();
        Self { address, heard }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.borrow().clone()
    }

    /// Waits until somebody has said something.
    async fn asked(&self) {
        let mut heard = self.heard.clone();
        let came = tokio::time::timeout(TIMEOUT, heard.wait_for(|heard| !heard.is_empty())).await;
        assert!(came.is_ok(), "nobody came");
    }
}

fn record(mut stream: TcpStream, say: &watch::Sender<Vec<String>>) {
    let mut begin = [0; 2048];
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let read = stream.read(&mut begin).unwrap_or(0);
    say.send_modify(|heard| heard.push(String::from_utf8_lossy(&begin[..read]).into_owned()));
    let body = r#"{"AccessKeyId":"a","SecretAccessKey":"b","Token":"c","Expiration":"2099-01-01T00:00:00Z"}"#;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    // Who has gone needs no answer.
    let _ = stream.write_all((head + body).as_bytes());
}

/// The program's command with a proxy that has a password.
fn behind(variable: &str, proxy: &Recorder, args: &[&str]) -> Command {
    set(variable, format!("http://user:hush@{}", proxy.address), args)
}

/// The program's command where a variable names a proxy.
fn set(variable: &str, value: impl AsRef<OsStr>, args: &[&str]) -> Command {
    let mut command = program::command(args);
    command.env(variable, value).env("NO_PROXY", "elsewhere.test");
    command
}

/// Values of every kind that a variable has been seen with; those of the second list are no address.
fn values(proxy: &Recorder) -> Vec<OsString> {
    let schemes = ["https", "socks4", "socks4a", "socks5", "socks5h"];
    let known = schemes.map(|scheme| format!("{scheme}://user:hush@{}", proxy.address));
    let bare = [proxy.address.to_string(), format!("http://user:hush@{}/way?a=b", proxy.address)];
    let none = [
        "http://",
        "://hush",
        "hush:hush:hush",
        "http://[::1",
        "http://user:hush@localhost:99999",
        "gopher://user:hush@localhost",
        "http://hush\n",
        " ",
    ];
    let texts = known.into_iter().chain(bare).chain(none.map(str::to_owned)).map(OsString::from);
    texts.chain([OsString::from_vec(b"http://hush\xff".to_vec())]).collect()
}

fn of_world(world: &World, aws: &str, rest: &str) -> String {
    let region = &world.regions[0];
    let rest = format!("[drain]\nlinger = \"0s\"\n[announcements]\nendpoint_url = \"{aws}\"\n{rest}");
    settings("proxied", &[(region.name.as_str(), &region.url(), region.publisher.topic())], &rest)
}

#[tokio::test]
async fn announcements_arrive_past_every_proxy() {
    let world = World::builder().regions(1).records(10).heartbeat(Duration::from_millis(250)).start().await.unwrap();
    let base = &world.aws.base;
    let settings = of_world(&world, base, &format!("insecure_sns_signer = \"{base}\"\n"));
    let each = VARIABLES.map(|variable| {
        let settings = &settings;
        async move {
            let proxy = Recorder::start();
            let program = Program::start_by(settings, |args| behind(variable, &proxy, args)).await;
            // Subscribed, its signatures verified.
            program.until("/readyz", |page| page["state"] == "fresh").await;
            super::serves(&program, "tenant-1").await;
            let reported =
                program.line(|line| line["message"].as_str().is_some_and(|it| it.contains("is ignored"))).await;
            assert!(reported["message"].as_str().unwrap().starts_with(variable), "{reported}");
            assert!(program.lines().iter().all(|line| !line.contains("hush")), "its password is nobody's");
            super::stops(program).await;
            assert_eq!(proxy.heard(), Vec::<String>::new(), "{variable}");
        }
    });
    join_all(each).await;
}

/// Programs at once.
const SIDE_BY_SIDE: usize = 4;

#[tokio::test]
async fn every_proxy_kind_is_bypassed() {
    let world = World::builder().regions(1).records(10).heartbeat(Duration::from_millis(250)).start().await.unwrap();
    let base = &world.aws.base;
    let settings = of_world(&world, base, &format!("insecure_sns_signer = \"{base}\"\n"));
    let proxy = Recorder::start();
    let each = values(&proxy).into_iter().chain([OsString::new()]).enumerate().map(|(number, value)| {
        let (settings, variable) = (&settings, VARIABLES[number % VARIABLES.len()]);
        async move {
            let program = Program::start_by(settings, |args| set(variable, &value, args)).await;
            program.until("/readyz", |page| page["state"] == "fresh").await;
            super::serves(&program, "tenant-1").await;
            let lines = program.lines();
            let named = lines.iter().any(|line| line.contains(variable) && line.contains("is ignored"));
            assert_eq!(named, !value.is_empty(), "{variable}={value:?}: {lines:#?}");
            assert!(lines.iter().all(|line| !line.contains("hush")), "{variable}={value:?}: {lines:#?}");
            super::stops(program).await;
        }
    });
    stream::iter(each).buffer_unordered(SIDE_BY_SIDE).collect::<Vec<()>>().await;
    assert_eq!(proxy.heard(), Vec::<String>::new());
}

#[tokio::test]
async fn https_calls_go_straight_too() {
    let world = World::builder().regions(1).records(10).start().await.unwrap();
    let each = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"].map(|variable| {
        let world = &world;
        async move {
            let (proxy, aws) = (Recorder::start(), Recorder::start());
            let settings = of_world(world, &format!("https://{}", aws.address), "");
            let program = Program::start_by(&settings, |args| behind(variable, &proxy, args)).await;
            tokio::select! {
                () = aws.asked() => {}
                () = proxy.asked() => {}
            }
            assert_eq!(proxy.heard(), Vec::<String>::new(), "{variable}");
            super::serves(&program, "tenant-1").await;
            super::stops(program).await;
        }
    });
    join_all(each).await;
}

#[tokio::test]
async fn task_token_reaches_only_its_address() {
    let world = World::builder().regions(1).records(10).start().await.unwrap();
    // Loopback, as the agents of EKS and Greengrass have it; link-local, as ECS has it, where nobody is here.
    for link_local in [false, true] {
        let (proxy, agent) = (Recorder::start(), Recorder::start());
        let settings = of_world(&world, "http://aws.invalid:4566", "");
        let program = Program::start_by(&settings, |args| {
            let mut command = behind("HTTP_PROXY", &proxy, args);
            command.env("AWS_CONTAINER_AUTHORIZATION_TOKEN", "secret").env("AWS_MAX_ATTEMPTS", "1");
            command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
            if link_local {
                command.env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/credentials");
            } else {
                let uri = format!("http://{}/credentials", agent.address);
                command.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri);
            }
            command
        });
        let program = program.await;
        let topic = world.regions[0].publisher.topic().to_owned();
        program.line(|line| line["level"] == "WARN" && line["topic"] == *topic).await;
        assert_eq!(proxy.heard(), Vec::<String>::new(), "link-local: {link_local}");
        let given = agent.heard().iter().any(|head| head.to_lowercase().contains("authorization: secret"));
        assert_eq!(given, !link_local, "{:?}", agent.heard());
        super::serves(&program, "tenant-1").await;
        super::stops(program).await;
    }
}

#[test]
fn check_and_doctor_name_ignored_proxies() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nearside.toml");
    let rest = "[announcements]\ntransport = \"off\"\n";
    std::fs::write(&file, settings("proxied", &[("eu", "http://127.0.0.1:9", "")], rest)).unwrap();
    let proxy = Recorder::start();
    let http = OsString::from(format!("http://user:hush@{}", proxy.address));
    let values: Vec<OsString> = values(&proxy).into_iter().chain([http]).collect();
    let checks = values.iter().map(|value| (&["check"][..], value));
    for (args, value) in checks.chain([(&["doctor", "--listen", "100ms"][..], &values[0])]) {
        let args: Vec<&str> = args.iter().copied().chain(["--config", program::path(&file)]).collect();
        let output = set("https_proxy", value, &args).output().unwrap();
        let reported = text(&output.stderr);
        assert!(
            reported.contains("https_proxy: ") && reported.contains("is ignored") && !reported.contains("hush"),
            "{args:?}, {value:?}: {reported}"
        );
    }
    let output = set("https_proxy", "", &["check", "--config", program::path(&file)]).output().unwrap();
    assert!(!text(&output.stderr).contains("is ignored"), "an empty variable names none: {output:?}");
    assert_eq!(proxy.heard(), Vec::<String>::new());
}
