//! Futures that end with their owner.

use std::future::Future;

use tokio::task::{AbortHandle, JoinSet};

/// A set of futures that end with their owner: a race's attempts, none of which outlives it.
///
/// Unlike with [`super::Tasks::spawn`], dropping the set aborts what is still running.
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

    /// The result of the next attempt to end; `None` when none is left. An attempt that panicked has no
    /// result and is skipped.
    pub async fn next(&mut self) -> Option<T> {
        loop {
            if let Ok(result) = self.next_end().await? {
                return Some(result);
            }
        }
    }

    /// Returns the next end, for callers to whom every attempt matters.
    pub async fn next_end(&mut self) -> Option<Result<T, NoResult>> {
        let ended = self.set.join_next().await?;
        // The panic itself has been logged.
        Some(ended.map_err(|_| NoResult))
    }
}

/// An attempt panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoResult;
