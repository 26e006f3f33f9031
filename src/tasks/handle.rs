//! [`Tasks`], the handle through which tasks are spawned and drained.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::counts::Counted;
use super::draining::Draining;
use super::wake_gated;

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
    counts: Mutex<Counted>,
}

/// Counts a task for as long as it lives, however it ends.
struct Running {
    shared: Arc<Shared>,
    name: &'static str,
}

impl Running {
    fn new(shared: Arc<Shared>, name: &'static str) -> Self {
        shared.counts().of(name).running += 1;
        Self { shared, name }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = self.shared.counts();
        let counted = running.of(self.name);
        counted.running -= 1;
        // A task that panics is dropped by what catches the panic.
        counted.panics += u64::from(std::thread::panicking());
    }
}

impl Shared {
    fn counts(&self) -> MutexGuard<'_, Counted> {
        // A panic while a counter is held cannot leave it half-written.
        self.counts.lock()
    }
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tasks({:?})", self.running())
    }
}

impl Tasks {
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn counts(&self) -> MutexGuard<'_, Counted> {
        self.shared.counts()
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
        self.shared
            .draining
            .get()
            .copied()
            .unwrap_or_else(|| Draining { began: Instant::now(), deadline: Duration::ZERO })
    }

    /// Number of running tasks of each name.
    pub fn running(&self) -> BTreeMap<&'static str, usize> {
        let counted = self.counts();
        counted.names.iter().filter(|(_, it)| it.running > 0).map(|(name, it)| (*name, it.running)).collect()
    }

    /// Number of panicked tasks by name, of all names that there were.
    pub fn panics(&self) -> BTreeMap<&'static str, u64> {
        self.counts().names.iter().map(|(name, it)| (*name, it.panics)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn drain_waits_and_names_stuck_tasks() {
        let tasks = Tasks::new();
        let quick = tasks.spawn("quick", tokio::time::sleep(Duration::from_secs(1)));
        tasks.spawn("stuck", std::future::pending::<()>());
        assert_eq!(tasks.running(), BTreeMap::from([("quick", 1), ("stuck", 1)]));
        assert_eq!(tasks.drain(Duration::from_secs(2)).await, vec!["stuck"]);
        assert_eq!(quick.await.unwrap(), Some(()));
        assert!(tasks.running().is_empty());
    }

    #[tokio::test]
    async fn token_watching_task_drains_cleanly() {
        let tasks = Tasks::new();
        let stopping = tasks.stopping();
        tasks.spawn("watcher", async move { stopping.cancelled().await });
        assert!(tasks.drain(Duration::from_secs(5)).await.is_empty());
    }
}
