//! For tests: tables whose writes wait for the next commit, as those of redb wait for the disk, so
//! that commits can be counted.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::delegate_tables;
use super::memory::MemoryStore;
use super::{ItemWrite, Tables, WriteError, limits};

/// From one commit to the next.
const COMMIT: Duration = Duration::from_millis(7);

pub(crate) struct Committing {
    inner: MemoryStore,
    began: Instant,
    /// Those that had writes in them.
    commits: Mutex<BTreeSet<u128>>,
}

impl Committing {
    pub(crate) fn new(inner: MemoryStore) -> Self {
        Self { inner, began: Instant::now(), commits: Mutex::default() }
    }

    pub(crate) fn commits(&self) -> usize {
        self.commits.lock().len()
    }
}

impl Tables for Committing {
    delegate_tables!(inner: get, query, last, scan);

    fn writes_at_once(&self) -> usize {
        limits::REDB_WRITES_AT_ONCE
    }

    fn write(&self, writes: Vec<ItemWrite>) -> BoxFuture<'_, Result<(), WriteError>> {
        async move {
            let number = self.began.elapsed().as_millis() / COMMIT.as_millis() + 1;
            let at = COMMIT * u32::try_from(number).expect("no test takes so long");
            tokio::time::sleep_until(self.began + at).await;
            self.commits.lock().insert(number);
            self.inner.write(writes).await
        }
        .boxed()
    }
}
