//! Supervision of long-lived tasks: one that panics is counted, named to operators, and started
//! again after a growing pause. One that has run long enough since counts as well again.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::counts::FailingTask;
use super::handle::Tasks;
use super::limits;
use super::panics::unless_panicked;

impl Tasks {
    /// Starts a long-lived task, which `make` makes anew after each panic. Whatever must outlive a
    /// panic belongs to `make`.
    ///
    /// The future must watch [`Tasks::stopping`]. One that panics while the process stops gets one
    /// more run, to clean up; `None` means that this panicked too.
    pub fn spawn_service<M, F>(&self, name: &'static str, make: M) -> JoinHandle<Option<Option<F::Output>>>
    where
        M: FnMut() -> F + Send + 'static,
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_service_until(name, self.stopping(), make)
    }

    /// Starts a long-lived task that is stopped by a token of its own.
    pub fn spawn_service_until<M, F>(
        &self,
        name: &'static str,
        stopping: CancellationToken,
        make: M,
    ) -> JoinHandle<Option<Option<F::Output>>>
    where
        M: FnMut() -> F + Send + 'static,
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let record = self.counts().begin_record(name);
        let record = Record { tasks: self.clone(), id: record };
        self.spawn(name, supervise(record, name, stopping, make))
    }

    /// Long-lived tasks that are not well.
    pub fn failing(&self) -> Vec<FailingTask> {
        let running = self.counts();
        running.records.values().filter(|task| task.panics > 0).copied().collect()
    }
}

/// The state of one long-lived task, for as long as that is supervised.
struct Record {
    tasks: Tasks,
    id: u64,
}

impl Record {
    fn panicked(&self, name: &'static str) -> u64 {
        let mut running = self.tasks.counts();
        running.of(name).panics += 1;
        let record = running.records.get_mut(&self.id);
        record.map_or(0, |record| {
            record.panics += 1;
            record.panics
        })
    }

    fn settled(&self) {
        if let Some(record) = self.tasks.counts().records.get_mut(&self.id) {
            record.panics = 0;
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.tasks.counts().records.remove(&self.id);
    }
}

async fn supervise<F: Future>(
    record: Record,
    name: &'static str,
    stopping: CancellationToken,
    mut make: impl FnMut() -> F,
) -> Option<F::Output> {
    let (first, longest) = limits::RESTART;
    let (mut pause, mut is_last) = (first, false);
    loop {
        let ended = {
            let mut run = pin!(unless_panicked(async { make().await }));
            match tokio::time::timeout(limits::SETTLED, run.as_mut()).await {
                Ok(ended) => ended,
                Err(_) => {
                    record.settled();
                    pause = first;
                    run.await
                }
            }
        };
        if ended.is_some() {
            return ended;
        }
        let panics = record.panicked(name);
        if is_last {
            tracing::error!(task = name, "a task panicked twice while the process stops, and is given up");
            return None;
        }
        if !stopping.is_cancelled() {
            let again_in = jittered(pause);
            tracing::error!(task = name, panics, ?again_in, "a task panicked, and is started again");
            let _stopped = stopping.run_until_cancelled(tokio::time::sleep(again_in)).await;
            pause = (pause * 2).min(longest);
        }
        is_last = stopping.is_cancelled();
    }
}

/// Processes that panicked together do not begin again together.
fn jittered(span: Duration) -> Duration {
    span.mul_f64(0.5 + fastrand::f64())
}

/// Ends a supervised task as panicked after a part of it was, so that it is counted and started
/// again. What the part held has been given back by then.
pub fn pass_panic_on() -> ! {
    std::panic::resume_unwind(Box::new("a part of the task panicked"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::Instant;

    use super::*;

    /// A task whose first `panics` runs panic at once, and how often it was begun.
    fn unsteady(tasks: &Tasks, panics: usize) -> Arc<AtomicUsize> {
        let begun = Arc::new(AtomicUsize::new(0));
        let (count, stopping) = (begun.clone(), tasks.stopping());
        tasks.spawn_service("unsteady", move || {
            let (run, stopping) = (count.fetch_add(1, Ordering::SeqCst), stopping.clone());
            async move {
                assert!(run >= panics, "on purpose");
                stopping.cancelled().await;
            }
        });
        begun
    }

    /// Waits until it holds, an hour of the paused clock at most.
    async fn until(mut holds: impl FnMut() -> bool) {
        let looks = async {
            while !holds() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(3_600), looks).await.expect("it never held");
    }

    #[tokio::test(start_paused = true)]
    async fn panicked_task_is_named_and_restarted() {
        let tasks = Tasks::new();
        let (began, begun) = (Instant::now(), unsteady(&tasks, 3));
        until(|| begun.load(Ordering::SeqCst) == 4).await;
        // 1, 2 and 4 s, each between half of it and half as much again.
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(3500) && took <= Duration::from_secs(11), "{took:?}");
        assert_eq!(tasks.failing(), [FailingTask { name: "unsteady", panics: 3 }]);
        assert_eq!(tasks.panics()["unsteady"], 3);
        assert!(tasks.failing()[0].line().contains("\"unsteady\" panicked 3 times in a row"));
        until(|| tasks.failing().is_empty()).await;
        let took = began.elapsed();
        assert!(took >= limits::SETTLED + Duration::from_millis(3500), "{took:?}");
        assert_eq!(tasks.panics()["unsteady"], 3, "what happened stays counted");
        assert!(tasks.drain(Duration::from_secs(5)).await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn restart_pauses_grow_to_one_minute() {
        let tasks = Tasks::new();
        let (began, begun) = (Instant::now(), unsteady(&tasks, usize::MAX));
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let runs = begun.load(Ordering::SeqCst);
        assert!((3600 / 90..=7 + 3600 / 30).contains(&runs), "{runs} in {:?}", began.elapsed());
        assert_eq!(tasks.running()["unsteady"], 1);
        assert!(tasks.drain(Duration::from_secs(5)).await.is_empty(), "and it ends when asked to");
        assert!(tasks.failing().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn panic_while_stopping_gets_another_run() {
        let tasks = Tasks::new();
        let (begun, stopping) = (Arc::new(AtomicUsize::new(0)), tasks.stopping());
        let count = begun.clone();
        let task = tasks.spawn_service("cleaner", move || {
            let (run, stopping) = (count.fetch_add(1, Ordering::SeqCst), stopping.clone());
            async move {
                stopping.cancelled().await;
                assert!(run > 0, "on purpose");
                "clean"
            }
        });
        tokio::task::yield_now().await;
        assert!(tasks.drain(Duration::from_millis(100)).await.is_empty());
        assert_eq!(task.await.unwrap(), Some(Some("clean")));
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn short_task_panic_is_counted() {
        let tasks = Tasks::new();
        assert!(tasks.spawn("fill", async { panic!("on purpose") }).await.is_err());
        assert!(tasks.spawn("fill", async {}).await.is_ok());
        assert_eq!(tasks.panics()["fill"], 1);
        assert!(tasks.failing().is_empty() && tasks.running().is_empty());
    }
}
