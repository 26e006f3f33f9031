//! The attempts of one race that are under way. They run inside the task that waits for them: an attempt
//! makes progress only while [`Attempts::next`] is awaited, and none outlives the race.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::region::Attempt;

/// They are not tasks of their own: an attempt mostly waits for a socket, and a task would only hand its
/// reply to the one that waits for it, which is one more wake-up for every miss.
#[derive(Default)]
pub(crate) struct Attempts {
    under_way: FuturesUnordered<BoxFuture<'static, Option<Attempt>>>,
}

impl Attempts {
    /// Adds one; it begins with the next wait.
    pub(crate) fn start(&mut self, attempt: impl Future<Output = Attempt> + Send + 'static) {
        let unwinding = async move {
            let mut attempt = pin!(attempt);
            // Safe to unwind: an attempt that panics leaves behind only its region's counters, each of
            // which is changed whole.
            poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| attempt.as_mut().poll(cx))) {
                Ok(polled) => polled.map(Some),
                Err(_) => Poll::Ready(None),
            })
            .await
        };
        self.under_way.push(unwinding.boxed());
    }

    /// The next one that ends; `None` when none is left. An attempt that panicked is skipped, because it
    /// has no result.
    pub(crate) async fn next(&mut self) -> Option<Attempt> {
        loop {
            // Its panic has been logged.
            if let Some(attempt) = self.under_way.next().await? {
                return Some(attempt);
            }
        }
    }
}
