//! Parts that both halves share: the writers, the readers, the figures, and the line every few
//! seconds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearside::model::time::{Clock, Moment};
use nearside::tasks::Tasks;
use tokio_util::sync::CancellationToken;

use super::Failure;
use super::check::judge;
use super::process::Process;
use super::readers::{READERS, Sidecar};
use super::report::{self, Figures, Killed};
use super::settle;
use super::writers::{WRITERS, WriteLog};

const PROGRESS: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const STOP: Duration = Duration::from_secs(60);

/// Parameters of a half.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub(crate) seed: u64,
    pub(crate) kills: usize,
    pub(crate) writes: u64,
    pub(crate) tenants: u64,
    /// Requests a second.
    pub(crate) rate: f64,
    /// Between two reads of a reader.
    pub(crate) pause: Duration,
}

pub(crate) struct Field {
    pub(crate) half: &'static str,
    pub(crate) order: Order,
    pub(crate) write_log: Arc<WriteLog>,
    pub(crate) sidecars: Vec<Arc<Sidecar>>,
    figures: Arc<Mutex<Figures>>,
    began: Moment,
    tasks: Tasks,
    writing: CancellationToken,
    reading: CancellationToken,
}

impl Field {
    pub(crate) fn new(half: &'static str, order: Order, sidecars: Vec<Arc<Sidecar>>) -> Result<Self, Failure> {
        Ok(Self {
            half,
            order,
            write_log: WriteLog::new(order.tenants)?,
            sidecars,
            figures: Arc::default(),
            began: Clock::System.now(),
            tasks: Tasks::new(),
            writing: CancellationToken::new(),
            reading: CancellationToken::new(),
        })
    }

    pub(crate) fn figures(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Adds the time of a start, also from a task.
    pub(crate) fn ready(&self) -> impl Fn(&'static str, Duration) + Send + Sync + 'static {
        let figures = self.figures.clone();
        move |role, took| {
            let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
            figures.restarts.entry(role).or_default().push(took);
        }
    }

    /// Everything is up: writers and readers begin.
    pub(crate) fn begin(&self) {
        for number in 0..WRITERS {
            let seed = self.order.seed.wrapping_mul(1_000) + number;
            self.tasks.spawn("writer", self.write_log.clone().write(seed, self.order.rate, self.writing.clone()));
        }
        for (sidecar, number) in self.sidecars.iter().zip(0u64..) {
            for reader in 0..READERS {
                let seed = self.order.seed.wrapping_mul(1_000) + 100 + number * READERS + reader;
                self.tasks.spawn(
                    "reader",
                    sidecar.clone().read(seed, self.order.tenants, self.order.pause, self.reading.clone()),
                );
            }
        }
        let (write_log, sidecars, figures) = (self.write_log.clone(), self.sidecars.clone(), self.figures.clone());
        let (half, began, over) = (self.half, self.began, self.reading.clone());
        self.tasks.spawn("progress", async move {
            while over.run_until_cancelled(tokio::time::sleep(PROGRESS)).await.is_some() {
                let figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
                let line = report::progress(&write_log, &sidecars, &figures);
                say(&format!("{half} {:>4} s  {line}", (Clock::System.now() - began).as_secs()));
            }
        });
    }

    /// SIGKILL, noted.
    pub(crate) fn kill(&self, process: &mut Process) {
        process.kill();
        let now = Clock::System.now();
        let (name, role) = (process.name.clone(), process.role);
        self.figures().kills.push(Killed { name, role, at: now - self.began, up: now - process.started });
    }

    /// Waits until so many writes are over, for as long as they come; `each` looks after the rest.
    pub(crate) async fn until_written(
        &self,
        count: u64,
        mut each: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        /// Without a single write: far beyond any lease and start.
        const STANDSTILL: Duration = Duration::from_secs(180);
        let (mut known, mut since) = (self.write_log.written(), Clock::System.now());
        while known < count {
            each()?;
            tokio::time::sleep(LOOK_EVERY).await;
            let (written, now) = (self.write_log.written(), Clock::System.now());
            if written != known {
                (known, since) = (written, now);
            } else if now - since > STANDSTILL {
                return Err(format!("no write in {STANDSTILL:?}").into());
            }
        }
        Ok(())
    }

    /// Ends the writers; each has its answer or has given up then.
    pub(crate) async fn end_writing(&self) {
        self.writing.cancel();
        let end = Clock::System.now() + STOP;
        while self.tasks.running().get("writer").is_some_and(|count| *count > 0) && Clock::System.now() < end {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Everything is up again: whether all agrees, before the processes end.
    pub(crate) async fn settle(&self) -> Result<Verdict, Failure> {
        let last_write = Clock::System.now();
        let (histories, mut violations) = settle::histories(&self.write_log).await?;
        let requests = self.write_log.requests();
        violations.extend(judge(&requests, &histories));
        let agreed = settle::until_all_agree(&self.sidecars, self.order.tenants, &histories).await;
        let took = Clock::System.now() - last_write;
        self.reading.cancel();
        self.tasks.drain(STOP).await;
        violations.extend(self.sidecars.iter().flat_map(|sidecar| sidecar.violations()));
        let mut reported = String::new();
        match agreed {
            Ok(()) => self.figures().agreed = Some(took),
            Err(error) => reported = error.to_string(),
        }
        let is_kept = violations.is_empty() && reported.is_empty();
        if !is_kept {
            let stories = report::stories(&violations, &requests, &histories, &self.figures());
            reported = format!("{reported}\n{stories}");
        }
        Ok(Verdict { is_kept, reported })
    }

    pub(crate) fn summary(&self) -> String {
        report::summary(&self.write_log, &self.sidecars, &self.figures())
    }
}

/// Verdict on the promises, with the stories of broken ones.
pub(crate) struct Verdict {
    pub(crate) is_kept: bool,
    pub(crate) reported: String,
}

#[expect(clippy::print_stdout, reason = "the driver speaks to its user")]
pub(crate) fn say(line: &str) {
    println!("{line}");
}
