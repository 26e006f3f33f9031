//! Owns the processes of a run: one sidecar, three regions, the emulator; their start, their
//! signals, their end.
//!
//! Before it: [`super::run`] says what happens to whom. After it: the operating system. Invariant:
//! addresses stay while processes come and go; nothing outlives the driver, also when that panics.

use std::fs::OpenOptions;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use nearside_lab::chaos_server::port::Port;
use rustix::process::{Pid, Signal, kill_process};

/// A process that can be killed and started again at the same address.
pub(crate) struct Process {
    /// Address of its listener.
    pub(crate) address: SocketAddr,
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    child: Mutex<Option<Child>>,
    /// Nobody else is given the port while the process is away.
    _port: Port,
}

impl Process {
    /// Not started yet; what it says goes to `log`, each start after the other.
    pub(crate) fn new(program: &Path, arguments: Vec<String>, log: PathBuf, port: Port) -> Self {
        let address = port.address();
        // What an earlier run said is of no use; there may be none.
        let _ = std::fs::remove_file(&log);
        Self { address, program: program.to_owned(), arguments, log, child: Mutex::default(), _port: port }
    }

    /// Starts it.
    pub(crate) fn start(&self) -> io::Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_CONFIG_FILE", "/dev/null")
            .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        *self.child.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        Ok(())
    }

    /// SIGKILL, and its end.
    pub(crate) fn kill(&self) {
        if let Some(mut child) = self.child.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // An error means that it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// SIGSTOP, or SIGCONT.
    pub(crate) fn pause(&self, paused: bool) {
        let signal = if paused { Signal::STOP } else { Signal::CONT };
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = child.as_ref().and_then(|child| Pid::from_raw(i32::try_from(child.id()).ok()?));
        if let Some(pid) = pid {
            // It is our child and was not waited for: the id is its own.
            let _ = kill_process(pid, signal);
        }
    }

    /// True if it ended by itself, which none of them should.
    pub(crate) fn has_ended(&self) -> bool {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|ended| ended.is_some()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
