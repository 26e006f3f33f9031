//! Owns child processes: started on a core of their own, measured by the kernel's accounting, stopped.
//!
//! Before it: a subject knows its program and arguments. After it: CPU time and memory per request. Invariant: nothing
//! that was started here outlives its [`Running`].
//!
//! CPU time is what the scheduler itself counted (`/proc/PID/task/TID/schedstat`, nanoseconds, all threads of all
//! processes), not samples of a tick. Memory is the proportional share (`Pss`) where the kernel tells it, so that pages
//! which a server's workers share count once; `VmRSS` where not.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::lab::limits;
use crate::model::time::Clock;

/// Why a process could not be started or looked at.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The program did not start.
    #[error("{program} could not be started: {error}")]
    Start {
        /// The program.
        program: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// No port, no file.
    #[error("{what}: {error}")]
    Prepare {
        /// What was to be prepared.
        what: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// It did not get ready in time.
    #[error("{program} was not ready after {waited:?}; its output ends: {output}")]
    Late {
        /// The program.
        program: String,
        /// How long it was waited for.
        waited: Duration,
        /// The end of what it wrote.
        output: String,
    },
    /// It ended before it was ready.
    #[error("{program} ended at once with {status}; its output ends: {output}")]
    Ended {
        /// The program.
        program: String,
        /// How.
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

/// Starts `program`, held on `core`, with nothing of this process's environment but `PATH`. What it writes goes to
/// `folder/NAME.log`.
pub fn start<A: AsRef<OsStr>>(
    program: &Path,
    arguments: impl IntoIterator<Item = A>,
    core: Option<usize>,
    folder: &Path,
) -> Result<Running, ProcessError> {
    start_held(None, program, arguments, core, folder)
}

/// The same, by way of `keeper`: this executable, whose `bench hold` becomes the program and asks the kernel before to end
/// it with the harness, however that ends. A stranger's program does not ask that by itself.
pub fn start_held<A: AsRef<OsStr>>(
    keeper: Option<&Path>,
    program: &Path,
    arguments: impl IntoIterator<Item = A>,
    core: Option<usize>,
    folder: &Path,
) -> Result<Running, ProcessError> {
    let name = program.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let log = folder.join(format!("{name}.log"));
    let prepare = |error| ProcessError::Prepare { what: format!("{} could not be written", log.display()), error };
    let out = File::options().create(true).append(true).open(&log).map_err(prepare)?;
    let err = out.try_clone().map_err(prepare)?;
    let mut command = Command::new(keeper.unwrap_or(program));
    if keeper.is_some() {
        command.args(["bench", "hold"]).arg(program);
    }
    command.args(arguments).current_dir(folder).env_clear();
    command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    let child = on_core(core, || command.spawn());
    let child = child.map_err(|error| ProcessError::Start { program: name.clone(), error })?;
    Ok(Running { program: name, child, log })
}

/// Does `work` while this thread is held on `core`: what it starts inherits that. A child cannot be held from its first
/// instruction otherwise without unsafe code.
fn on_core<T>(core: Option<usize>, work: impl FnOnce() -> T) -> T {
    let before = sched_getaffinity(None);
    if let Some(core) = core {
        hold(core);
    }
    let done = work();
    if let Ok(before) = before {
        // Was allowed a moment ago.
        let _ = sched_setaffinity(None, &before);
    }
    done
}

/// Holds this thread on `core`; whether that was allowed.
pub fn hold(core: usize) -> bool {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).is_ok()
}

/// The cores that this thread may use.
pub fn cores() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// As many open files as this process may have: a thousand callers need more than the usual limit.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // With the usual limit fewer connections can be opened, which then says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// A loopback port that was free a moment ago, another each time: who is given two would find that the second is the first.
pub fn free_port() -> Result<SocketAddr, ProcessError> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let prepare = |error| ProcessError::Prepare { what: "no free port on loopback".to_owned(), error };
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    // Held until another is found, so that the system does not give the same again.
    let mut known = Vec::new();
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(prepare)?;
        let address = listener.local_addr().map_err(prepare)?;
        if given.insert(address.port()) {
            return Ok(address);
        }
        known.push(listener);
    }
}

impl Running {
    /// The first process's id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `ready` says so, at most [`limits::BENCH_READY_WAIT`].
    pub fn wait_until<T>(&mut self, mut ready: impl FnMut() -> Option<T>) -> Result<T, ProcessError> {
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
            if waited > limits::BENCH_READY_WAIT {
                return Err(ProcessError::Late { program, waited, output: self.output() });
            }
            std::thread::sleep(limits::BENCH_READY_STEP);
        }
    }

    /// The end of what it wrote.
    pub fn output(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let from = text.len().saturating_sub(limits::BENCH_OUTPUT_BYTES);
        String::from_utf8_lossy(&text[from..]).trim().to_owned()
    }

    /// Itself and all its descendants.
    pub fn tree(&self) -> Vec<u32> {
        tree(self.pid())
    }

    /// CPU time of all threads of all its processes so far. Differences count: a thread that ended in between takes
    /// its time with it.
    pub fn cpu(&self) -> Duration {
        self.tree().into_iter().map(cpu_of).sum()
    }

    /// Resident memory of all its processes, bytes.
    pub fn memory(&self) -> u64 {
        self.tree().into_iter().map(memory_of).sum()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut tree = self.tree();
        signal(tree.first(), Signal::TERM);
        if !within(limits::BENCH_STOP_WAIT, || !matches!(self.child.try_wait(), Ok(None))) {
            tree = self.tree();
            // What ended a moment ago is not there to be killed.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        // Children that their parent left behind. An id is not given anew within these few milliseconds.
        signal(tree.iter().skip(1), Signal::KILL);
        within(limits::BENCH_STOP_WAIT, || tree.iter().all(|pid| memory_of(*pid) == 0));
    }
}

/// Looks every few milliseconds whether `done`; `false` when it is not after `wait`.
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

/// The fourth field of `stat`; the second is a name in brackets that may hold anything.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
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
    let kib = |file: &str, field: &str| -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
        let line = text.lines().find(|line| line.starts_with(field))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    kib("smaps_rollup", "Pss:").or_else(|| kib("status", "VmRSS:")).unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_of_a_process_that_spins_grows_and_that_of_one_that_sleeps_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let shell = |script: &str| start(Path::new("/bin/sh"), ["-c", script], None, folder.path()).unwrap();
        // The spinning is done by a child: the tree is counted.
        let spins = shell("(while :; do :; done) & wait");
        let sleeps = shell("exec sleep 60");
        let spent = Duration::from_millis(20);
        let began = Clock::System.now();
        while spins.cpu() < spent && Clock::System.now() - began < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        assert!(spins.cpu() >= spent, "{:?}", spins.cpu());
        assert!(sleeps.cpu() < spent, "{:?}", sleeps.cpu());
    }

    #[test]
    fn a_process_that_ignores_to_be_stopped_and_its_children_are_gone_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let script = "trap '' TERM; sleep 61 & echo up; while :; do sleep 1; done";
        let mut stubborn = start(Path::new("/bin/sh"), ["-c", script], None, folder.path()).unwrap();
        let log = folder.path().join("sh.log");
        stubborn.wait_until(|| fs::read_to_string(&log).ok().filter(|text| text.contains("up"))).unwrap();
        let tree = stubborn.tree();
        assert!(tree.len() > 1, "{tree:?}");
        drop(stubborn);
        // A zombie that nobody waited for has no memory any more.
        assert!(tree.iter().all(|pid| memory_of(*pid) == 0), "{tree:?}");
    }
}
