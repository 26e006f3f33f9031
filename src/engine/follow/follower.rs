//! A follower: what it reads, where it applies it, and how it tries again.

use std::sync::Arc;

use super::progress::{FeedPart, FeedProgress};
use crate::engine::{Change, EngineError, Feed, Table, Tables, retry_delay};
use crate::model::time::Clock;

/// Why following ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowEnd {
    /// Another process holds the lease.
    LeaseLost,
    /// Changes that were not read yet are no longer in the feed: begin again with a scan.
    Trimmed,
    /// A reader panicked, a fault of this program: the term is over.
    Panicked,
}

/// Feed and tables of a reader, and the place of its checkpoints.
#[derive(Clone)]
pub struct Follower {
    pub feed: Arc<dyn Feed>,
    pub tables: Arc<dyn Tables>,
    pub table: Table,
    /// The last part of the checkpoints' partition: `changes`, `views`.
    pub name: &'static str,
    pub clock: Clock,
    pub progress: Arc<FeedProgress>,
}

/// Takes what the feed brings.
pub trait Apply: Send + Sync + 'static {
    /// Returns once each change is dealt with for good, or written down as work to be done. It may
    /// get the same changes again, and older ones. Fails only with what may pass; then it is
    /// called again with the same batch.
    fn apply(&self, changes: Vec<Change>) -> futures_util::future::BoxFuture<'_, Result<(), EngineError>>;
}

impl Follower {
    /// Tries until it succeeds, and says meanwhile that it does not.
    pub async fn insist<T, F>(&self, what: &'static str, attempt: impl Fn() -> F) -> T
    where
        F: Future<Output = Result<T, EngineError>>,
    {
        self.insist_on(&FeedPart::Step(what), what, attempt).await
    }

    pub(super) async fn insist_on<T, F>(&self, part: &FeedPart, what: &'static str, attempt: impl Fn() -> F) -> T
    where
        F: Future<Output = Result<T, EngineError>>,
    {
        let mut failures = 0;
        loop {
            match attempt().await {
                Ok(done) => {
                    if failures > 0 {
                        self.progress.recovered(part);
                    }
                    return done;
                }
                Err(error) => failures = self.failed(part, what, error, failures).await,
            }
        }
    }

    /// Notes a failure and waits; returns how many there have been in a row.
    async fn failed(&self, part: &FeedPart, what: &str, error: EngineError, before: u32) -> u32 {
        if let Some(suppressed) = self.progress.line(self.clock.now()) {
            tracing::warn!(feed = self.name, what, %error, suppressed, "trying again");
        }
        self.progress.failed(part, self.clock.now(), error);
        tokio::time::sleep(retry_delay(before + 1)).await;
        before + 1
    }
}
