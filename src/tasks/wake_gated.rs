//! Polls rare events only when they have woken the task.
//!
//! A connection's task waits for its socket and also for things that hardly ever happen: a
//! shutdown, a timer. Polling those with every request costs locks that all connections share.
//! [`WakeGated`] has a waker of its own and polls only after that has been woken; [`unless`] runs
//! such a future next to the main one.
//!
//! A wake-up is never lost. The bell is rung before the task is woken, and a poll stores whom to
//! wake, for good, before it checks whether the bell has rung.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

/// The future's own waker: it rings the bell and wakes the task.
struct Bell {
    rung: AtomicBool,
    task: Mutex<Waker>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        // The waker is cloned, so that polls need not put it back, and so that it is woken with no
        // lock held.
        let task = self.task.lock().clone();
        task.wake();
    }
}

/// A future that is polled only after it was woken. It must not be polled again once it was ready.
pub(crate) struct WakeGated<F> {
    future: F,
    bell: Arc<Bell>,
    waker: Waker,
    /// The waker that the bell wakes.
    task: Waker,
}

impl<F: Future + Unpin> WakeGated<F> {
    /// Starts with the bell rung, so that the first poll looks at the future.
    pub(crate) fn new(future: F) -> Self {
        let task = Waker::noop();
        let bell = Arc::new(Bell { rung: AtomicBool::new(true), task: Mutex::new(task.clone()) });
        Self { future, waker: bell.clone().into(), bell, task: task.clone() }
    }
}

impl<F: Future + Unpin> Future for WakeGated<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        if !this.task.will_wake(cx.waker()) {
            this.task.clone_from(cx.waker());
            this.bell.task.lock().clone_from(cx.waker());
        }
        // Checked before it is written, because most polls need not write.
        if !this.bell.rung.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        this.bell.rung.swap(false, Ordering::AcqRel);
        Pin::new(&mut this.future).poll(&mut Context::from_waker(&this.waker))
    }
}

/// The output of `future`, or `None` if `end` comes first. `end` is polled only after it has been
/// woken.
pub(crate) async fn unless<F: Future>(end: impl Future<Output = ()>, future: F) -> Option<F::Output> {
    let (mut future, end) = (pin!(future), pin!(end));
    let mut end = WakeGated::new(end);
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Pin::new(&mut end).poll(cx).map(|()| None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::{mpsc, oneshot};

    use super::*;

    #[tokio::test]
    async fn unwoken_future_is_not_polled() {
        let (polls, (end, ended), (say, mut said)) =
            (AtomicUsize::new(0), oneshot::channel::<()>(), mpsc::channel::<u32>(1));
        let mut ended = pin!(ended);
        let counted = std::future::poll_fn(|cx| {
            polls.fetch_add(1, Ordering::Relaxed);
            ended.as_mut().poll(cx).map(drop)
        });
        let often = async {
            for number in 0..50 {
                assert_eq!(said.recv().await, Some(number));
            }
            end.send(()).unwrap();
            std::future::pending::<()>().await;
        };
        let speaks = async {
            for number in 0..50 {
                say.send(number).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let (waited, ()) = tokio::join!(unless(counted, often), speaks);
        assert_eq!(waited, None);
        assert_eq!(polls.load(Ordering::Relaxed), 2, "once at the start, once when it was over");
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_woken_again_and_again() {
        let thrice = async {
            for _ in 0..3 {
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
        };
        let waited = tokio::time::timeout(std::time::Duration::from_secs(60), WakeGated::new(Box::pin(thrice)));
        assert_eq!(waited.await, Ok(()));
    }

    #[tokio::test]
    async fn moved_future_wakes_new_task() {
        let (end, ended) = oneshot::channel::<()>();
        let mut seldom = WakeGated::new(ended);
        assert!(futures_util::poll!(&mut seldom).is_pending());
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(seldom);
        tokio::task::yield_now().await;
        end.send(()).unwrap();
        assert_eq!(tasks.join_next().await.unwrap().unwrap(), Ok(()));
    }
}
