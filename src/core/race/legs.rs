//! The legs of one race that are under way. They run inside whoever waits for them: a leg makes
//! progress only while [`Legs::next`] is awaited, and none outlives the race.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::core::race::region::Leg;

/// They are not tasks of their own: a leg mostly waits for a socket, and a task would only hand its
/// reply to the one that waits for it, which is one more wake-up for every miss.
#[derive(Default)]
pub(crate) struct Legs {
    under_way: FuturesUnordered<BoxFuture<'static, Option<Leg>>>,
}

impl Legs {
    /// Adds one; it begins with the next wait.
    pub(crate) fn start(&mut self, leg: impl Future<Output = Leg> + Send + 'static) {
        let unwinding = async move {
            let mut leg = pin!(leg);
            // Safe to unwind: a leg that panics leaves behind only its region's counters, each of
            // which is changed whole.
            poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| leg.as_mut().poll(cx))) {
                Ok(polled) => polled.map(Some),
                Err(_) => Poll::Ready(None),
            })
            .await
        };
        self.under_way.push(unwinding.boxed());
    }

    /// The next one that ends; `None` when none is left. A leg that panicked is skipped, because it
    /// has no result.
    pub(crate) async fn next(&mut self) -> Option<Leg> {
        loop {
            // Its panic has been logged.
            if let Some(leg) = self.under_way.next().await? {
                return Some(leg);
            }
        }
    }
}
