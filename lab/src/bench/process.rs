//! Child processes: started on a core of their own, measured by the kernel's accounting, and
//! stopped. Nothing that was started here outlives its [`Running`].
//!
//! CPU time is what the scheduler itself counted (`/proc/PID/task/TID/schedstat`, nanoseconds, all
//! threads of all processes), not samples taken at a tick. Memory is the proportional share (`Pss`)
//! where the kernel tells it, so that pages shared by a server's workers count once, and `VmRSS`
//! elsewhere.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nearside::model::time::Clock;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::limits;
use crate::loopback;

/// Why a process could not be started or looked at.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("{program} could not be started: {error}")]
    Start { program: String, error: io::Error },
    /// There was no free port or no file.
    #[error("{what}: {error}")]
    Prepare {
        /// Thing that was to be prepared.
        what: String,
        error: io::Error,
    },
    #[error("{program} was not ready after {waited:?}; its output ends: {output}")]
    Late {
        program: String,
        waited: Duration,
        /// The end of what it wrote.
        output: String,
    },
    #[error("{program} ended at once with {status}; its output ends: {output}")]
    Ended {
        program: String,
        /// The exit status, as text.
        status: String,
        /// The end of what it wrote.
        output: String,
    },
}

/// A started program and its children; stopped on drop.
#[derive(Debug)]
pub struct Running {
    program: String,
    child: Child,
    log: PathBuf,
}

/// Starts `program` pinned to `core`, with nothing of this process's environment but `PATH`. Its
/// output goes to `folder/NAME.log`.
pub(super) fn start<A: AsRef<OsStr>>(
    program: &Path,
    arguments: impl IntoIterator<Item = A>,
    core: Option<usize>,
    folder: &Path,
) -> Result<Running, ProcessError> {
    start_held(None, program, arguments, core, folder)
}

/// Starts a program that ends when its standard input does, which this keeps open.
pub(super) fn start_piped<A: AsRef<OsStr>>(
    program: &Path,
    arguments: impl IntoIterator<Item = A>,
    core: Option<usize>,
    folder: &Path,
) -> Result<Running, ProcessError> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped());
    run(command, program, core, folder)
}

/// Starts it by way of `keeper`, which is this executable: its `bench hold` asks the kernel to end
/// the process with the harness, however that ends, and then becomes the program, which does not
/// ask for that itself.
pub(super) fn start_held<A: AsRef<OsStr>>(
    keeper: Option<&Path>,
    program: &Path,
    arguments: impl IntoIterator<Item = A>,
    core: Option<usize>,
    folder: &Path,
) -> Result<Running, ProcessError> {
    let mut command = Command::new(keeper.unwrap_or(program));
    if keeper.is_some() {
        command.args(["bench", "hold"]).arg(program);
    }
    command.args(arguments).stdin(Stdio::null());
    run(command, program, core, folder)
}

fn run(mut command: Command, program: &Path, core: Option<usize>, folder: &Path) -> Result<Running, ProcessError> {
    let name = program.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let log = folder.join(format!("{name}.log"));
    let out = File::options().create(true).append(true).open(&log);
    let (out, err) = out
        .and_then(|out| Ok((out.try_clone()?, out)))
        .map_err(|error| ProcessError::Prepare { what: format!("{} could not be written", log.display()), error })?;
    command.current_dir(folder).env_clear();
    command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.stdout(out).stderr(err);
    let child = on_core(core, || command.spawn());
    let child = child.map_err(|error| ProcessError::Start { program: name.clone(), error })?;
    Ok(Running { program: name, child, log })
}

/// Does `work` while this thread is pinned to `core`, so that what it starts inherits the pinning.
/// Without unsafe code there is no other way to pin a child from its first instruction.
fn on_core<T>(core: Option<usize>, work: impl FnOnce() -> T) -> T {
    let before = sched_getaffinity(None);
    if let Some(core) = core {
        hold(core);
    }
    let done = work();
    if let Ok(before) = before {
        // It was allowed a moment ago.
        let _ = sched_setaffinity(None, &before);
    }
    done
}

/// Pins this thread to `core`; returns whether that was allowed.
pub(super) fn hold(core: usize) -> bool {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).is_ok()
}

pub(super) fn cores() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// Raises this process's limit of open files as far as it may: a thousand callers need more than
/// the usual limit.
pub(super) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // With the usual limit, fewer connections can be opened, and then that fails with an error.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// A loopback address at which nobody listens.
pub(super) fn free_port() -> Result<SocketAddr, ProcessError> {
    loopback::address().map_err(|error| ProcessError::Prepare { what: "no free port on loopback".to_owned(), error })
}

impl Running {
    /// The id of the first process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `ready` returns a value, at most [`limits::BENCH_READY_WAIT`].
    pub fn wait_until<T>(&mut self, ready: impl FnMut() -> Option<T>) -> Result<T, ProcessError> {
        self.wait_within(limits::BENCH_READY_WAIT, ready)
    }

    /// Waits with a bound of its own, for what takes longer, or must not.
    pub fn wait_within<T>(
        &mut self,
        most: Duration,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Result<T, ProcessError> {
        let began = Clock::System.now();
        loop {
            if let Some(value) = ready() {
                return Ok(value);
            }
            let program = self.program.clone();
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(ProcessError::Ended { program, status: status.to_string(), output: self.output() });
            }
            let waited = Clock::System.now() - began;
            if waited > most {
                return Err(ProcessError::Late { program, waited, output: self.output() });
            }
            std::thread::sleep(limits::BENCH_READY_STEP);
        }
    }

    /// Ends it at once, as a machine does that loses power, except that what it wrote is still in
    /// the system's memory.
    pub fn kill(mut self) {
        signal(self.tree().iter(), Signal::KILL);
        // It was killed, however it says that it ended.
        let _ = self.child.wait();
    }

    /// The end of what it wrote.
    pub fn output(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let from = text.len().saturating_sub(limits::BENCH_OUTPUT_BYTES);
        String::from_utf8_lossy(&text[from..]).trim().to_owned()
    }

    /// The ids of the process and all its descendants.
    pub fn tree(&self) -> Vec<u32> {
        tree(self.pid())
    }

    /// CPU time so far of all threads of all its processes. Use differences, and note that a thread
    /// that ended in between takes its time with it.
    pub fn cpu(&self) -> Duration {
        self.tree().into_iter().map(cpu_of).sum()
    }

    /// Resident memory of all its processes, in bytes.
    pub fn memory(&self) -> u64 {
        self.tree().into_iter().map(memory_of).sum()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut tree = self.tree();
        drop(self.child.stdin.take());
        signal(tree.first(), Signal::TERM);
        if !within(limits::BENCH_STOP_WAIT, || !matches!(self.child.try_wait(), Ok(None))) {
            tree = self.tree();
            // It may have ended a moment ago, and then there is nothing to kill.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        // Children that their parent left behind. The system does not reuse an id within these few
        // milliseconds.
        signal(tree.iter().skip(1), Signal::KILL);
        within(limits::BENCH_STOP_WAIT, || tree.iter().all(|pid| memory_of(*pid) == 0));
    }
}

/// Checks every few milliseconds whether `done`; returns `false` if it is not within `wait`.
fn within(wait: Duration, mut done: impl FnMut() -> bool) -> bool {
    let began = Clock::System.now();
    while !done() {
        if Clock::System.now() - began > wait {
            return false;
        }
        std::thread::sleep(limits::BENCH_READY_STEP);
    }
    true
}

fn signal<'a>(pids: impl IntoIterator<Item = &'a u32>, signal: Signal) {
    for pid in pids.into_iter().filter_map(|pid| Pid::from_raw(*pid as i32)) {
        // It may have ended by itself.
        let _ = kill_process(pid, signal);
    }
}

/// `root` and all its descendants, `root` first.
fn tree(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent_of(pid)?)))
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(parents.iter().filter(|(pid, of)| *of == parent && *pid != root).map(|(pid, _)| *pid));
        next += 1;
    }
    found
}

/// The fourth field of `stat`; the second is a name in brackets that may contain anything.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// CPU time so far of this process's own threads.
pub(super) fn own_cpu() -> Duration {
    cpu_of(std::process::id())
}

fn cpu_of(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let spent = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(spent.sum())
}

fn memory_of(pid: u32) -> u64 {
    kib(pid, "smaps_rollup", "Pss:").or_else(|| kib(pid, "status", "VmRSS:")).unwrap_or(0) << 10
}

/// A field of one of the process's files.
fn kib(pid: u32, file: &str, field: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let line = text.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(folder: &Path, script: &str) -> Running {
        start(Path::new("/bin/sh"), ["-c", script], None, folder).unwrap()
    }

    #[test]
    fn cpu_time_grows_only_when_spinning() {
        let folder = tempfile::tempdir().unwrap();
        // A child does the spinning, which shows that the whole tree is counted.
        let spins = shell(folder.path(), "(while :; do :; done) & wait");
        let sleeps = shell(folder.path(), "exec sleep 60");
        let spent = Duration::from_millis(20);
        let began = Clock::System.now();
        while spins.cpu() < spent && Clock::System.now() - began < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        assert!(spins.cpu() >= spent, "{:?}", spins.cpu());
        assert!(sleeps.cpu() < spent, "{:?}", sleeps.cpu());
    }

    #[test]
    fn stubborn_process_tree_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let script = "trap '' TERM; sleep 61 & echo up; while :; do sleep 1; done";
        let mut stubborn = start(Path::new("/bin/sh"), ["-c", script], None, folder.path()).unwrap();
        let log = folder.path().join("sh.log");
        stubborn.wait_until(|| fs::read_to_string(&log).ok().filter(|text| text.contains("up"))).unwrap();
        let tree = stubborn.tree();
        assert!(tree.len() > 1, "{tree:?}");
        drop(stubborn);
        // A zombie that nobody waited for has no memory left.
        assert!(tree.iter().all(|pid| memory_of(*pid) == 0), "{tree:?}");
    }
}
