//! Work for threads that serve no requests.

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits;

/// Runs a computation that takes milliseconds on a thread that serves no requests. The caller waits
/// for it; if the caller stops waiting, it still runs to its end. At most [`limits::COMPUTATIONS`]
/// run at once. `None` means it panicked.
pub async fn on_blocking_pool<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    static ROOM: Semaphore = Semaphore::const_new(limits::COMPUTATIONS);
    let room = ROOM.acquire().await.ok()?;
    let made = tokio::task::spawn_blocking(move || {
        let _room = room;
        work()
    });
    made.await.ok()
}

/// Runs work that waits for a disk, which takes no computation's place. Its callers bound how many
/// run at once.
pub async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// Runs a computation of less than a millisecond on a thread that serves no requests, in a place among
/// those that its callers have. `None` means it panicked.
pub async fn on_bounded_threads<T: Send + 'static>(
    place: OwnedSemaphorePermit,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let made = tokio::task::spawn_blocking(move || {
        let _place = place;
        work()
    });
    made.await.ok()
}
