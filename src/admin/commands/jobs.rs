//! Jobs: work that commands started and that goes on in the background, and how far each has got.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::access::Operator;
use super::refused::CommandRefused;
use crate::admin::limits;
use crate::model::time::Moment;
use crate::request::settings::Settings;

/// The state of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobSeen {
    pub job: u64,
    /// The command that started it.
    pub command: String,
    pub by: String,
    /// Subject of its work; no key and no path.
    pub about: String,
    /// `running`, `done` or `stopped`.
    pub state: String,
    /// Entries to process.
    pub entries: u64,
    pub done: u64,
    /// Entries for which no region gave anything better; what was stored stays.
    pub failed: u64,
    /// Entries that belong to no route, or have gone in the meantime.
    pub skipped: u64,
    /// Run time so far, or in all.
    pub seconds: u64,
}

/// Every job that is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobsSeen {
    /// Oldest first.
    pub jobs: Vec<JobSeen>,
}

/// The running jobs and the last ones that ended.
#[derive(Default)]
pub(super) struct Jobs {
    known: Mutex<BTreeMap<u64, Arc<Job>>>,
    last: AtomicU64,
}

/// A job, which does its own counting.
pub(super) struct Job {
    number: u64,
    command: &'static str,
    by: Operator,
    about: String,
    entries: u64,
    begun: Moment,
    /// Nanoseconds since boot; zero while it runs.
    ended: AtomicU64,
    pub(super) done: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) skipped: AtomicU64,
    /// Cancelled when an operator stops it.
    pub(super) stopped: CancellationToken,
}

impl Jobs {
    fn known(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Job>>> {
        // A job is inserted or removed whole: a panic elsewhere cannot leave half of one.
        self.known.lock()
    }

    /// Registers a job. The oldest one that ended is forgotten to make room.
    pub(super) fn begin(
        &self,
        command: &'static str,
        by: Operator,
        about: String,
        entries: u64,
        now: Moment,
    ) -> Result<Arc<Job>, CommandRefused> {
        let mut known = self.known();
        let running = known.values().filter(|job| job.is_running()).count();
        if running >= limits::JOBS {
            let what = format!("{running} jobs run already: wait, or stop one (nearside ctl jobs --stop NUMBER)");
            return Err(CommandRefused::Busy(what));
        }
        if known.len() >= limits::JOBS_REMEMBERED {
            let oldest = known.iter().find(|(_, job)| !job.is_running()).map(|(number, _)| *number);
            oldest.map(|number| known.remove(&number));
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let job = Arc::new(Job {
            number,
            command,
            by,
            about,
            entries,
            begun: now,
            ended: AtomicU64::new(0),
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            stopped: CancellationToken::new(),
        });
        known.insert(number, job.clone());
        Ok(job)
    }
}

impl Job {
    fn is_running(&self) -> bool {
        self.ended.load(Ordering::Acquire) == 0
    }

    pub(super) fn end(&self, now: Moment) {
        self.ended.store(now.as_nanos().max(1), Ordering::Release);
    }

    pub(super) fn seen(&self, now: Moment) -> JobSeen {
        let until = if self.is_running() { now } else { Moment::from_nanos(self.ended.load(Ordering::Acquire)) };
        let state = match (self.is_running(), self.stopped.is_cancelled()) {
            (true, _) => "running",
            (false, true) => "stopped",
            (false, false) => "done",
        };
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        JobSeen {
            job: self.number,
            command: self.command.to_owned(),
            by: self.by.to_string(),
            about: self.about.clone(),
            state: state.to_owned(),
            entries: self.entries,
            done: load(&self.done),
            failed: load(&self.failed),
            skipped: load(&self.skipped),
            seconds: until.since(self.begun).as_secs(),
        }
    }
}

/// Lists the jobs, after stopping one if its number is given.
pub(super) fn jobs(jobs: &Jobs, sidecar: &Settings, stop: Option<u64>) -> Result<JobsSeen, CommandRefused> {
    let known = jobs.known();
    if let Some(number) = stop {
        let Some(job) = known.get(&number) else {
            let numbers: Vec<String> = known.keys().map(u64::to_string).collect();
            let known = if numbers.is_empty() { "there are none".to_owned() } else { numbers.join(", ") };
            return Err(CommandRefused::Malformed(format!("no job has the number {number}; the jobs are: {known}")));
        };
        job.stopped.cancel();
    }
    let now = sidecar.fill.shared.clock.now();
    Ok(JobsSeen { jobs: known.values().map(|job| job.seen(now)).collect() })
}
