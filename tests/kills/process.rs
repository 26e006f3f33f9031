//! One process of the program: its start, its SIGKILL, what it says. None outlives its handle.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use nearside::model::time::{Clock, Moment};
use rustix::process::{Pid, Signal, kill_process};

/// The lab's command that [`super::main`] runs in the place of itself.
pub(crate) const DEV: &str = "dev";

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Folder of the logs: one for each seed, so that two runs do not meet.
static LOGS: OnceLock<PathBuf> = OnceLock::new();

/// Makes that folder; returns it.
pub(crate) fn log_under(seed: u64) -> io::Result<&'static Path> {
    let logs = LOGS.get_or_init(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kills-{seed}")));
    std::fs::create_dir_all(logs)?;
    Ok(logs)
}

pub(crate) struct Process {
    pub(crate) name: String,
    /// Name under which it is counted.
    pub(crate) role: &'static str,
    arguments: Vec<String>,
    log: PathBuf,
    /// Offset in the log at which this start begins.
    from: u64,
    child: Option<Child>,
    /// Since when it is up.
    pub(crate) started: Moment,
}

impl Process {
    /// Not started yet; what it says goes to a file of this name, each start after the other.
    pub(crate) fn new(half: &str, name: &str, role: &'static str, arguments: Vec<String>) -> Self {
        let log = LOGS.get().map_or_else(PathBuf::new, |logs| logs.join(format!("{half}-{name}.log")));
        // What an earlier run said is of no use; there may be none.
        let _ = std::fs::remove_file(&log);
        let started = Clock::System.now();
        Self { name: name.to_owned(), role, arguments, log, from: 0, child: None, started }
    }

    pub(crate) fn start(&mut self) -> io::Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        self.from = log.metadata()?.len();
        self.started = Clock::System.now();
        let child = Command::new(self.program()?)
            .args(&self.arguments)
            .env_clear()
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_CONFIG_FILE", "/dev/null")
            .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.child = Some(child);
        Ok(())
    }

    /// `NEARSIDE`, or what cargo built for the tests; of the lab, this executable.
    fn program(&self) -> io::Result<OsString> {
        if self.role == DEV {
            return std::env::current_exe().map(PathBuf::into_os_string);
        }
        Ok(std::env::var_os("NEARSIDE").unwrap_or_else(|| env!("CARGO_BIN_EXE_nearside").into()))
    }

    /// SIGKILL, and its end.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // An error means that it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.child.is_some()
    }

    /// Exit code, if it ended by itself.
    pub(crate) fn ended(&mut self) -> Option<Option<i32>> {
        let ended = self.child.as_mut()?.try_wait().ok().flatten()?;
        self.child = None;
        Some(ended.code())
    }

    /// Waits for its end; returns the exit code, if it came in time.
    pub(crate) async fn until_ended(&mut self, within: Duration) -> Option<i32> {
        let end = Clock::System.now() + within;
        while Clock::System.now() < end {
            if let Some(code) = self.ended() {
                return code;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        None
    }

    /// Ctrl-C, and its end.
    pub(crate) async fn interrupt(&mut self, within: Duration) -> Option<i32> {
        let pid = self.child.as_ref().and_then(|child| Pid::from_raw(i32::try_from(child.id()).ok()?))?;
        // It is our child and was not waited for: the id is its own.
        kill_process(pid, Signal::INT).ok()?;
        self.until_ended(within).await
    }

    /// Log since the last start.
    pub(crate) fn said(&self) -> String {
        let said = std::fs::read(&self.log).unwrap_or_default();
        let from = usize::try_from(self.from).unwrap_or_default().min(said.len());
        String::from_utf8_lossy(&said[from..]).into_owned()
    }

    /// The last lines of that.
    pub(crate) fn last_words(&self) -> String {
        let said = self.said();
        let lines: Vec<_> = said.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
