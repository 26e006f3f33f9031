//! Reads that are tried again: work of minutes must not fail because a table throttles for a second.

use super::limits::RETRIES;
use crate::catalogue::CatalogueError;
use crate::engine::retry_delay;

/// The result of the first attempt that does not fail transiently, or of the last.
pub(super) async fn read_again<T, F>(attempt: impl Fn() -> F) -> Result<T, CatalogueError>
where
    F: Future<Output = Result<T, CatalogueError>>,
{
    let mut failures = 0;
    loop {
        match attempt().await {
            Err(CatalogueError::Unread(error)) if error.is_transient() && failures < RETRIES => {
                failures += 1;
                tokio::time::sleep(retry_delay(failures)).await;
            }
            result => return result,
        }
    }
}
