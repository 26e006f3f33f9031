//! Owns one run of a service (`nearside catalogue`, `views` or `region`) as a process: what it says on
//! standard error, and its pages.
//!
//! Invariant: no process outlives its handle; every line is a JSON object, or the test that reads
//! it fails.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tokio::sync::watch;

use super::program::{self, TIMEOUT, follow, get, kill, path};

/// Between two looks at a page.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A running service.
pub(crate) struct Service {
    child: Child,
    said: watch::Receiver<Vec<String>>,
    /// Its line that says where it serves.
    pub(crate) serving: Value,
}

impl Service {
    /// The command with this file, once it serves.
    pub(crate) async fn start(command: &[&str], file: &Path) -> Self {
        let args: Vec<&str> = command.iter().copied().chain(["--config", path(file)]).collect();
        Self::start_by(program::command(&args)).await
    }

    /// Starts by a whole command.
    pub(crate) async fn start_by(command: Command) -> Self {
        let mut service = Self::begin_by(command);
        service.serving = service.line("serving").await;
        service
    }

    /// A process that has yet to serve.
    pub(crate) fn begin_by(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let said = follow(child.stderr.take().expect("it is piped"));
        Self { child, said, serving: Value::Null }
    }

    /// The line with this message, said already or to come.
    pub(crate) async fn line(&self, message: &str) -> Value {
        self.first(message, |said| said == message).await
    }

    /// The line whose message has this in it.
    pub(crate) async fn line_with(&self, part: &str) -> Value {
        self.first(part, |said| said.contains(part)).await
    }

    async fn first(&self, wanted: &str, is_wanted: impl Fn(&str) -> bool) -> Value {
        let (mut said, mut found) = (self.said.clone(), None);
        let coming = said.wait_for(|lines| {
            let mut parsed =
                lines.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("JSON: {line}")));
            found = parsed.find(|line: &Value| line["message"].as_str().is_some_and(&is_wanted));
            found.is_some()
        });
        let came = tokio::time::timeout(TIMEOUT, coming).await;
        assert!(came.is_ok_and(|came| came.is_ok()), "{wanted}: {:#?}", self.said.borrow());
        found.expect("it was just there")
    }

    /// Address for callers, without a scheme.
    pub(crate) fn listen(&self) -> &str {
        self.serving["listen"].as_str().expect("it has callers")
    }

    /// Address for operators, without a scheme.
    pub(crate) fn admin(&self) -> &str {
        self.serving["admin"].as_str().expect("every service has pages")
    }

    pub(crate) async fn page(&self, path: &str) -> (u16, String) {
        get(&format!("http://{}{path}", self.admin())).await
    }

    pub(crate) async fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.page(path).await.1).unwrap()
    }

    /// Waits until `/readyz` says this; returns its status.
    pub(crate) async fn ready_says(&self, part: &str) -> u16 {
        let mut last = String::new();
        let looking = async {
            loop {
                let (status, said) = self.page("/readyz").await;
                if said.contains(part) {
                    return status;
                }
                last = said;
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let came = tokio::time::timeout(TIMEOUT, looking).await;
        came.unwrap_or_else(|_| panic!("{part}: {last}"))
    }

    /// Fills the disk as far as it concerns this service, or gives it room again.
    pub(crate) fn limit_files(&self, most: Option<u64>) {
        program::limit_files(&self.child, most);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(&self.child, signal);
    }

    /// Sends SIGTERM and waits for the end; returns the exit code.
    pub(crate) async fn terminated(self) -> Option<i32> {
        self.terminated_saying().await.0
    }

    /// Sends SIGTERM and waits for the end; returns the exit code and all lines of the log.
    pub(crate) async fn terminated_saying(mut self) -> (Option<i32>, Vec<String>) {
        self.signal(Signal::TERM);
        let closed = async { while self.said.changed().await.is_ok() {} };
        tokio::time::timeout(TIMEOUT, closed).await.expect("it ends");
        (self.child.wait().unwrap().code(), self.said.borrow().clone())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
