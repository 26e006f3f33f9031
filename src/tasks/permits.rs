//! Bounds concurrency by a number that a reload may change.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, TryAcquireError};

use super::handle::Tasks;

/// A semaphore whose size can change; clones share it.
#[derive(Clone, Debug)]
pub struct Permits {
    semaphore: Arc<Semaphore>,
    most: Arc<AtomicUsize>,
}

impl Permits {
    pub fn new(most: usize) -> Self {
        Self { semaphore: Arc::new(Semaphore::new(most)), most: Arc::new(AtomicUsize::new(most)) }
    }

    /// Takes a permit if one is free.
    ///
    /// # Errors
    /// When all are taken.
    pub fn try_take(&self) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.semaphore.clone().try_acquire_owned()
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// Never: nobody closes the semaphore.
    pub async fn take(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.semaphore.clone().acquire_owned().await
    }

    pub fn taken(&self) -> usize {
        self.most.load(Ordering::Relaxed).saturating_sub(self.semaphore.available_permits())
    }

    /// Allows at most `most` at once from now on. What exceeds that ends by itself, and nothing new
    /// begins until then.
    pub fn resize(&self, most: usize, tasks: &Tasks) {
        let before = self.most.swap(most, Ordering::Relaxed);
        self.semaphore.add_permits(most.saturating_sub(before));
        let fewer = before.saturating_sub(most);
        let Ok(rest) = u32::try_from(fewer - self.semaphore.forget_permits(fewer)) else { return };
        if rest > 0 {
            let (semaphore, stopping) = (self.semaphore.clone(), tasks.stopping());
            tasks.spawn("permits", async move {
                if let Some(Ok(spare)) = stopping.run_until_cancelled(semaphore.acquire_many_owned(rest)).await {
                    spare.forget();
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn permits_grow_at_once_shrink_later() {
        let (permits, tasks) = (Permits::new(2), Tasks::new());
        let held: Vec<_> = (0..2).map(|_| permits.try_take().unwrap()).collect();
        assert!(permits.try_take().is_err());
        permits.resize(3, &tasks);
        let third = permits.try_take().unwrap();
        assert_eq!(permits.taken(), 3);
        permits.resize(1, &tasks);
        tokio::task::yield_now().await;
        drop(held);
        tokio::task::yield_now().await;
        assert!(permits.try_take().is_err(), "the third is the one that there may be");
        drop(third);
        let one = permits.take().await.unwrap();
        assert!(permits.try_take().is_err());
        drop(one);
        assert_eq!(permits.taken(), 0);
    }
}
