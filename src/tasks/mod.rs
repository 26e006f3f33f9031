//! The only place in the program that spawns tasks.
//!
//! A task is named, counted and drained under a deadline. Long-lived tasks are supervised
//! ([`supervision`]), watch [`Tasks::stopping`] and end by themselves; short ones (fills,
//! connections) are simply waited for. A panic is counted by the name of its task. When [`Tasks::drain`] has returned, no task that [`Tasks::spawn`] started is still running.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

pub(crate) mod file_stamp;
mod limits;
pub mod permits;
pub mod supervision;
pub(crate) mod wake_gated;

use supervision::FailingTask;

/// A handle to the process's tasks; clones share them.
#[derive(Clone, Default)]
pub struct Tasks {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    tracker: TaskTracker,
    stopping: CancellationToken,
    /// Set before `stopping` is cancelled.
    draining: OnceLock<Draining>,
    killed: CancellationToken,
    running: Mutex<Counted>,
}

/// A drain that has begun. Who waits for a peer must not wait as long as the drain does.
#[derive(Clone, Copy, Debug)]
pub struct Draining {
    began: Instant,
    deadline: Duration,
}

impl Draining {
    /// How long a peer may be silent, or take to send the rest of a request: `most`, or half of the
    /// drain if that is less.
    pub fn silence(self, most: Duration) -> Duration {
        most.min(self.deadline / 2)
    }

    /// When a request must have arrived that a peer may take `most` to send.
    pub fn arrived_by(self, most: Duration) -> Instant {
        self.began + self.silence(most)
    }

    /// When whoever still keeps the drain waiting is given up, so that the drain ends in time.
    pub fn given_up_at(self) -> Instant {
        self.began + self.deadline * 9 / 10
    }

    /// How often it is looked whether that is so: `most` at the most.
    pub fn look_every(self, most: Duration) -> Duration {
        most.min(self.deadline / 20)
    }
}

/// Everything that is counted of tasks.
#[derive(Default)]
struct Counted {
    names: BTreeMap<&'static str, CountedName>,
    /// Each long-lived task, while it is supervised.
    records: BTreeMap<u64, FailingTask>,
    next_record: u64,
}

#[derive(Default)]
struct CountedName {
    running: usize,
    panics: u64,
}

impl Counted {
    fn of(&mut self, name: &'static str) -> &mut CountedName {
        self.names.entry(name).or_default()
    }

    fn begin_record(&mut self, name: &'static str) -> u64 {
        self.next_record += 1;
        self.records.insert(self.next_record, FailingTask { name, panics: 0 });
        self.next_record
    }
}

/// Counts a task for as long as it lives, however it ends.
struct Running {
    shared: Arc<Shared>,
    name: &'static str,
}

impl Running {
    fn new(shared: Arc<Shared>, name: &'static str) -> Self {
        shared.running().of(name).running += 1;
        Self { shared, name }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = self.shared.running();
        let counted = running.of(self.name);
        counted.running -= 1;
        // A task that panics is dropped by what catches the panic.
        counted.panics += u64::from(std::thread::panicking());
    }
}

impl Shared {
    fn running(&self) -> std::sync::MutexGuard<'_, Counted> {
        // A panic while a counter is held cannot leave it half-written.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tasks {
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts `future`, which ends soon or with a peer, under `name`. It is dropped before it is done, wherever it waits, only when
    /// a drain's deadline passes.
    #[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
    pub fn spawn<F>(&self, name: &'static str, future: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let running = Running::new(self.shared.clone(), name);
        let killed = self.shared.killed.clone();
        let task = async move {
            let _running = running;
            // This is polled with every request of a connection, so it does not check each time
            // whether a drain is over.
            wake_gated::unless(killed.cancelled(), future).await
        };
        tokio::spawn(self.shared.tracker.track_future(task.instrument(tracing::trace_span!("task", name))))
    }

    /// A token that is cancelled when the process begins to stop. Long-lived tasks watch it.
    pub fn stopping(&self) -> CancellationToken {
        self.shared.stopping.clone()
    }

    /// Resolves when a drain begins.
    pub async fn draining(&self) -> Draining {
        self.shared.stopping.cancelled().await;
        let at_once = || Draining { began: Instant::now(), deadline: Duration::ZERO };
        self.shared.draining.get().copied().unwrap_or_else(at_once)
    }

    /// How many tasks of each name are running.
    pub fn running(&self) -> BTreeMap<&'static str, usize> {
        let counted = self.shared.running();
        counted.names.iter().filter(|(_, it)| it.running > 0).map(|(name, it)| (*name, it.running)).collect()
    }

    /// Number of panicked tasks by name, of all names that there were.
    pub fn panics(&self) -> BTreeMap<&'static str, u64> {
        self.shared.running().names.iter().map(|(name, it)| (*name, it.panics)).collect()
    }

    /// Tells long-lived tasks to stop, waits up to `deadline` for all tasks, then drops the rest.
    ///
    /// Returns the names of those it had to drop; none means a clean stop.
    pub async fn drain(&self, deadline: Duration) -> Vec<&'static str> {
        let _ = self.shared.draining.set(Draining { began: Instant::now(), deadline });
        self.shared.stopping.cancel();
        self.shared.tracker.close();
        if tokio::time::timeout(deadline, self.shared.tracker.wait()).await.is_ok() {
            return Vec::new();
        }
        let late = self.running().into_keys().collect();
        self.shared.killed.cancel();
        self.shared.tracker.wait().await;
        late
    }
}

/// Runs a computation that takes milliseconds on a thread that serves no requests. The caller waits
/// for it; if the caller stops waiting, it still runs to its end. At most [`limits::COMPUTATIONS`]
/// run at once. `None` means it panicked.
pub async fn on_blocking_pool<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    static ROOM: Semaphore = Semaphore::const_new(limits::COMPUTATIONS);
    let room = ROOM.acquire().await.ok()?;
    let held = move || {
        let _room = room;
        work()
    };
    tokio::task::spawn_blocking(held).await.ok()
}

/// The same for what waits for a disk, which takes no computation's place. Its callers bound how
/// many run at once.
pub async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// Runs a future to its end; `None` if it panics. What it shared with others must bear that.
pub async fn unless_panicked<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Some),
        Err(_) => Poll::Ready(None),
    })
    .await
}

/// hyper spawns the streams of an HTTP/2 connection through this.
impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        self.spawn("stream", future);
    }
}

/// A set of futures that end with their owner: a race's legs, none of which outlives it.
///
/// Unlike with [`Tasks::spawn`], dropping the set aborts what is still running.
#[derive(Default)]
pub struct TaskGroup<T: 'static> {
    set: JoinSet<T>,
}

impl<T: Send + 'static> TaskGroup<T> {
    pub fn new() -> Self {
        Self { set: JoinSet::new() }
    }

    pub fn start(&mut self, future: impl Future<Output = T> + Send + 'static) -> AbortHandle {
        self.set.spawn(future)
    }

    /// The result of the next leg to end; `None` when none is left. A leg that panicked has no
    /// result and is skipped.
    pub async fn next(&mut self) -> Option<T> {
        loop {
            if let Ok(result) = self.next_end().await? {
                return Some(result);
            }
        }
    }

    /// The same for those to whom every leg matters.
    pub async fn next_end(&mut self) -> Option<Result<T, NoResult>> {
        let ended = self.set.join_next().await?;
        // The panic itself has been logged.
        Some(ended.map_err(|_| NoResult))
    }
}

/// A leg panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoResult;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_drain_waits_for_what_ends_in_time_and_names_what_does_not() {
        let tasks = Tasks::new();
        let quick = tasks.spawn("quick", tokio::time::sleep(Duration::from_secs(1)));
        tasks.spawn("stuck", std::future::pending::<()>());
        assert_eq!(tasks.running(), BTreeMap::from([("quick", 1), ("stuck", 1)]));
        assert_eq!(tasks.drain(Duration::from_secs(2)).await, vec!["stuck"]);
        assert_eq!(quick.await.unwrap(), Some(()));
        assert!(tasks.running().is_empty());
    }

    #[tokio::test]
    async fn a_long_lived_task_that_watches_the_token_ends_in_a_clean_drain() {
        let tasks = Tasks::new();
        let stopping = tasks.stopping();
        tasks.spawn("watcher", async move { stopping.cancelled().await });
        assert!(tasks.drain(Duration::from_secs(5)).await.is_empty());
    }
}
