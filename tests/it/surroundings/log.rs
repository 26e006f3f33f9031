//! The log is blocked, gone, full or closed: lines may be lost, and nothing else.

use std::fs::{File, OpenOptions};
use std::io::{PipeWriter, Read};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nearside_lab::loopback;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpStream;

use super::super::program::{self, TIMEOUT, get, kill, settings};
use super::super::service::Service;
use crate::world::World;

/// A sidecar whose standard error is the test's own.
struct Unheard {
    child: Child,
    tcp: SocketAddr,
    admin: SocketAddr,
    _directory: TempDir,
}

impl Unheard {
    /// A sidecar of one region: its URL, its topic, and how announcements come from it.
    async fn start(url: &str, topic: &str, announcements: &str, command: impl FnOnce(&[&str]) -> Command) -> Self {
        let (tcp, admin) = (loopback::address().unwrap(), loopback::address().unwrap());
        let rest = format!(
            "[listen]\ntcp = \"{tcp}\"\n[announcements]\n{announcements}[drain]\nlinger = \"0s\"\ndeadline = \"3s\"\n"
        );
        let text = settings("unheard", &[("eu-west-1", url, topic)], &rest);
        let text = text.replace("[admin]\nlisten = \"127.0.0.1:0\"", &format!("[admin]\nlisten = \"{admin}\""));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("nearside.toml");
        std::fs::write(&file, text).unwrap();
        let child = command(&["run", "--config", program::path(&file)]).stdout(Stdio::null()).spawn().unwrap();
        let started = async {
            while TcpStream::connect(admin).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let mut own = Self { child, tcp, admin, _directory: directory };
        let came = tokio::time::timeout(TIMEOUT, started).await;
        assert!(came.is_ok(), "it never listened: {:?}", own.child.try_wait());
        own
    }

    async fn status(&self) -> Value {
        let url = format!("http://{}/status", self.admin);
        let asked = tokio::time::timeout(Duration::from_secs(10), get(&url));
        serde_json::from_str(&asked.await.expect("/status is answered").1).unwrap()
    }

    /// Has it say something.
    async fn reload(&self) {
        let before = self.status().await["reload"]["at"].clone();
        kill(&self.child, Signal::HUP);
        let reloaded = async { while self.status().await["reload"]["at"] == before {} };
        tokio::time::timeout(TIMEOUT, reloaded).await.expect("it is reloaded");
    }

    /// Number of lines it counts as lost.
    async fn lost(&self, reason: &str) -> u64 {
        let page = get(&format!("http://{}/metrics", self.admin)).await.1;
        let name = format!("nearside_log_lines_lost_total{{reason=\"{reason}\"}} ");
        page.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap()
    }

    /// Has it say more lines than one, then asks the suite's question of it.
    async fn bears_it(self) {
        for _ in 0..4 {
            self.reload().await;
        }
        super::misses_and_hits(&format!("http://{}/v1/contexts/tenant-1", self.tcp)).await;
        let url = format!("http://{}/livez", self.admin);
        let asked = tokio::time::timeout(Duration::from_secs(10), get(&url)).await;
        assert_eq!(asked.expect("it is answered").0, 200, "{url}");
        kill(&self.child, Signal::TERM);
        let mut child = self.child;
        let ended = tokio::task::spawn_blocking(move || child.wait().unwrap());
        let status = tokio::time::timeout(Duration::from_secs(20), ended).await.expect("it ends").unwrap();
        assert_eq!(status.code(), Some(0));
    }
}

/// Settings without announcements.
const OFF: &str = "transport = \"off\"\n";

/// The program's command with this standard error.
fn with(stderr: impl Into<Stdio>) -> impl FnOnce(&[&str]) -> Command {
    move |args| {
        let mut command = program::command(args);
        command.stderr(stderr);
        command
    }
}

async fn bears(stderr: impl Into<Stdio>) {
    let service = Service::start(1);
    Unheard::start(&service.urls()[0], "", OFF, with(stderr)).await.bears_it().await;
}

/// The end of a pipe whose reader has gone.
fn abandoned() -> PipeWriter {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer
}

#[tokio::test]
async fn a_blocked_log_stops_nothing() {
    let (_reader, writer) = std::io::pipe().unwrap();
    program::fill(&writer);
    bears(writer).await;
}

#[tokio::test]
async fn slow_log_reader_stops_nothing() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    program::fill(&writer);
    // What it takes is far less than what is written, until the program has ended.
    let slow = std::thread::Builder::new().spawn(move || {
        while reader.read(&mut [0; 16]).is_ok_and(|count| count > 0) {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    slow.unwrap();
    bears(writer).await;
}

/// The end of a pipe that is read, without waiting for somebody who writes.
fn open(path: &Path) -> File {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
    std::os::unix::fs::OpenOptionsExt::custom_flags(OpenOptions::new().read(true), flags).open(path).unwrap()
}

/// The lines that were lost are counted, and a line says so as soon as somebody reads again.
#[tokio::test]
async fn lost_lines_are_counted_and_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR);
    rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).unwrap();
    let first = open(&path);
    let writer = OpenOptions::new().write(true).open(&path).unwrap();
    let service = Service::start(1);
    let unheard = Unheard::start(&service.urls()[0], "", OFF, with(writer)).await;
    drop(first);
    unheard.reload().await;
    let counted = unheard.lost("not-written").await;
    assert!(counted > 0, "nobody read what a reload says");
    let mut reader = open(&path);
    let (mut page, reported) = (Vec::new(), "log lines were lost");
    let comes = async {
        while !String::from_utf8_lossy(&page).contains(reported) {
            unheard.reload().await;
            let mut more = [0; 65_536];
            let count = reader.read(&mut more).unwrap_or(0);
            page.extend_from_slice(&more[..count]);
        }
    };
    tokio::time::timeout(TIMEOUT, comes).await.expect("a line says how many");
    let text = String::from_utf8(page).unwrap();
    let line = text.lines().find(|line| line.contains(reported)).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["lost"], unheard.lost("not-written").await);
    unheard.bears_it().await;
}

/// A service with such a log: `role` with a file of all three.
async fn service_bears(role: &str, stderr: impl Into<Stdio>) {
    let (listen, admin) = (loopback::address().unwrap(), loopback::address().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let (file, views) = (directory.path().join("service.toml"), directory.path().join("views.toml"));
    let view = "[[view]]\nname = \"limits\"\ndefinition = 1\nfrom = \"tenant\"\n[view.fields]\nusers = \"/users\"\n";
    std::fs::write(&views, view).unwrap();
    // One of the three runs, so they may share addresses.
    let text = format!(
        "[engine]\nkind = \"memory\"\n[catalogue]\nlisten = \"{listen}\"\nadmin = \"{admin}\"\n\
         [[catalogue.type]]\nname = \"tenant\"\n[views]\nfile = \"{}\"\nadmin = \"{admin}\"\n\
         [[region]]\nname = \"eu-west-1\"\nlisten = \"{listen}\"\nadmin = \"{admin}\"\n\
         [drain]\nlinger = \"0s\"\ndeadline = \"3s\"\n[log]\nformat = \"json\"\n",
        views.display()
    );
    std::fs::write(&file, text).unwrap();
    let mut command = with(stderr)(&[role, "--config", program::path(&file)]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    // A region answers 503 until it has been filled, which it is at some moment.
    let called: Option<(&str, [u16; 2])> = match role {
        "catalogue" => Some(("/v1/records/tenant/acme", [404, 404])),
        "region" => Some(("/v1/contexts/acme/limits", [503, 404])),
        _ => None,
    };
    let started = async {
        for address in [admin].into_iter().chain(called.map(|_| listen)) {
            while TcpStream::connect(address).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    let came = tokio::time::timeout(TIMEOUT, started).await;
    assert!(came.is_ok(), "it never listened: {:?}", child.try_wait());
    // Each is a line in its log.
    (0..4).for_each(|_| kill(&child, Signal::HUP));
    let called = called.map(|(path, statuses)| (listen, path, statuses));
    let pages = ["/livez", "/metrics", "/status"].map(|path| (admin, path, [200, 200]));
    for (address, path, statuses) in called.into_iter().chain(pages) {
        let url = format!("http://{address}{path}");
        let asked = tokio::time::timeout(Duration::from_secs(10), get(&url)).await;
        let status = asked.expect("it is answered").0;
        assert!(statuses.contains(&status), "{url}: {status}");
    }
    kill(&child, Signal::TERM);
    let ended = tokio::task::spawn_blocking(move || child.wait().unwrap());
    let status = tokio::time::timeout(Duration::from_secs(20), ended).await.expect("it ends").unwrap();
    assert_eq!(status.code(), Some(0));
}

/// Checks that a service goes on while nobody reads its log.
async fn service_bears_a_blocked_log(role: &str) {
    let (_reader, writer) = std::io::pipe().unwrap();
    program::fill(&writer);
    service_bears(role, writer).await;
}

#[tokio::test]
async fn a_catalogue_bears_a_blocked_log() {
    service_bears_a_blocked_log("catalogue").await;
}

#[tokio::test]
async fn views_bear_a_blocked_log() {
    service_bears_a_blocked_log("views").await;
}

#[tokio::test]
async fn a_region_bears_a_blocked_log() {
    service_bears_a_blocked_log("region").await;
}

#[tokio::test]
async fn services_bear_departed_log_reader() {
    for role in ["catalogue", "views", "region"] {
        service_bears(role, abandoned()).await;
    }
}

#[tokio::test]
async fn services_bear_log_on_full_disk() {
    for role in ["catalogue", "views", "region"] {
        service_bears(role, OpenOptions::new().write(true).open("/dev/full").unwrap()).await;
    }
}

#[tokio::test]
async fn departed_log_reader_stops_nothing() {
    bears(abandoned()).await;
}

/// Subscribed, with a reader who left and with one who reads nothing: hits are fresh, and SIGTERM leaves nothing in AWS.
#[tokio::test]
async fn an_abandoned_log_leaves_no_queue() {
    let world = World::builder().regions(1).records(10).heartbeat(Duration::from_millis(250)).start().await.unwrap();
    let (base, region) = (&world.aws.base, &world.regions[0]);
    let announcements = format!("endpoint_url = \"{base}\"\ninsecure_sns_signer = \"{base}\"\n");
    let (_reader, blocked) = std::io::pipe().unwrap();
    program::fill(&blocked);
    for stderr in [abandoned(), blocked] {
        let topic = region.publisher.topic();
        let unheard = Unheard::start(&region.url(), topic, &announcements, with(stderr)).await;
        let ready = format!("http://{}/readyz", unheard.admin);
        let subscribed = async {
            while !get(&ready).await.1.contains("\"fresh\"") {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, subscribed).await.expect("it is subscribed");
        assert_eq!(world.aws.queues.names("eu-west-1", "nearside-").len(), 1);
        unheard.bears_it().await;
        assert_eq!(world.aws.queues.names("eu-west-1", "nearside-"), Vec::<String>::new());
        assert_eq!(world.aws.topics.standing(topic).subscriptions, 0);
    }
}

#[tokio::test]
async fn peerless_log_socket_stops_nothing() {
    let (peer, ours) = UnixStream::pair().unwrap();
    drop(peer);
    bears(std::os::fd::OwnedFd::from(ours)).await;
}

#[tokio::test]
async fn log_on_full_disk_stops_nothing() {
    bears(OpenOptions::new().write(true).open("/dev/full").unwrap()).await;
}

#[tokio::test]
async fn read_only_log_stops_nothing() {
    bears(File::open("/dev/null").unwrap()).await;
}

/// The program as a shell starts it that does `first`, with `stderr`.
async fn bears_in_shell(first: &str, stderr: Stdio) {
    let service = Service::start(1);
    Unheard::start(&service.urls()[0], "", OFF, |args| {
        let program = program::command(args);
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(first).arg(program.get_program()).args(program.get_args());
        command.stdin(Stdio::null()).stderr(stderr);
        command
    })
    .await
    .bears_it()
    .await;
}

#[tokio::test]
async fn a_closed_standard_error_stops_nothing() {
    bears_in_shell("exec \"$0\" \"$@\" 2>&-", Stdio::inherit()).await;
}

#[tokio::test]
async fn log_at_file_limit_stops_nothing() {
    let file = tempfile::tempfile().unwrap();
    bears_in_shell("ulimit -f 0; exec \"$0\" \"$@\"", file.into()).await;
}
