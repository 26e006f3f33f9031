//! The log is blocked, gone, full or closed: lines may be lost, and nothing else.

use std::fs::{File, OpenOptions};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpStream;

use super::super::program::{self, PATIENCE, get, kill, settings};
use super::super::service::Service;

/// A sidecar whose standard error is the test's own.
struct Unheard {
    child: Child,
    tcp: SocketAddr,
    admin: SocketAddr,
    _directory: TempDir,
    _service: Service,
}

/// An address that nobody listens on.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

impl Unheard {
    async fn start(command: impl FnOnce(&[&str]) -> Command) -> Self {
        let service = Service::start(1);
        let (tcp, admin) = (free(), free());
        let rest = format!(
            "[listen]\ntcp = \"{tcp}\"\n[announcements]\ntransport = \"off\"\n[drain]\nlinger = \"0s\"\ndeadline = \"3s\"\n"
        );
        let text = settings("unheard", &[("eu-west-1", service.urls()[0].as_str(), "")], &rest);
        let text = text.replace("[admin]\nlisten = \"127.0.0.1:0\"", &format!("[admin]\nlisten = \"{admin}\""));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("nearside.toml");
        std::fs::write(&file, text).unwrap();
        let child = command(&["run", "--config", program::path(&file)]).stdout(Stdio::null()).spawn().unwrap();
        let started = async { while TcpStream::connect(admin).await.is_err() {} };
        let mut own = Self { child, tcp, admin, _directory: directory, _service: service };
        let came = tokio::time::timeout(PATIENCE, started).await;
        assert!(came.is_ok(), "it never listened: {:?}", own.child.try_wait());
        own
    }

    async fn status(&self) -> Value {
        let url = format!("http://{}/status", self.admin);
        let asked = tokio::time::timeout(Duration::from_secs(10), get(&url));
        serde_json::from_str(&asked.await.expect("/status is answered").1).unwrap()
    }

    /// Has it say more lines than one, then asks the suite's question of it.
    async fn bears_it(self) {
        for _ in 0..4 {
            let before = self.status().await["reload"]["at"].clone();
            kill(&self.child, Signal::HUP);
            let reloaded = async { while self.status().await["reload"]["at"] == before {} };
            tokio::time::timeout(PATIENCE, reloaded).await.expect("it is reloaded");
        }
        for url in [
            format!("http://{}/v1/contexts/alpha", self.tcp),
            format!("http://{}/v1/contexts/alpha", self.tcp),
            format!("http://{}/livez", self.admin),
        ] {
            let asked = tokio::time::timeout(Duration::from_secs(10), get(&url)).await;
            assert_eq!(asked.expect("it is answered").0, 200, "{url}");
        }
        kill(&self.child, Signal::TERM);
        let mut child = self.child;
        let ended = tokio::task::spawn_blocking(move || child.wait().unwrap());
        let status = tokio::time::timeout(Duration::from_secs(20), ended).await.expect("it ends").unwrap();
        assert_eq!(status.code(), Some(0));
    }
}

async fn bears(stderr: impl Into<Stdio>) {
    Unheard::start(|args| {
        let mut command = program::command(args);
        command.stderr(stderr);
        command
    })
    .await
    .bears_it()
    .await;
}

#[tokio::test]
async fn a_blocked_log_stops_nothing() {
    let (_reader, writer) = std::io::pipe().unwrap();
    // Filled through a description of its own, so that the program's end stays as it was made.
    let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
    let own = std::os::unix::fs::OpenOptionsExt::custom_flags(OpenOptions::new().write(true), flags).open(path);
    let own = own.unwrap();
    for size in [4096, 1] {
        while std::io::Write::write(&mut &own, &vec![b'x'; size]).is_ok() {}
    }
    bears(writer).await;
}

#[tokio::test]
async fn a_log_whose_reader_left_stops_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    bears(writer).await;
}

#[tokio::test]
async fn a_log_socket_without_peer_stops_nothing() {
    let (peer, ours) = UnixStream::pair().unwrap();
    drop(peer);
    bears(std::os::fd::OwnedFd::from(ours)).await;
}

#[tokio::test]
async fn a_log_on_a_full_disk_stops_nothing() {
    bears(OpenOptions::new().write(true).open("/dev/full").unwrap()).await;
}

#[tokio::test]
async fn a_log_that_is_read_only_stops_nothing() {
    bears(File::open("/dev/null").unwrap()).await;
}

/// The program as a shell starts it that does `first`, with `stderr`.
async fn bears_in_shell(first: &str, stderr: Stdio) {
    Unheard::start(|args| {
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
async fn a_log_at_its_file_limit_stops_nothing() {
    let file = tempfile::tempfile().unwrap();
    bears_in_shell("ulimit -f 0; exec \"$0\" \"$@\"", file.into()).await;
}
