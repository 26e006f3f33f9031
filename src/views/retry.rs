//! Tries again what failed transiently, for a while.

use super::limits;
use crate::engine::{EngineError, retry_delay};

/// The result of the first attempt that does not fail transiently, or of the last.
pub(super) async fn retry_transient<T, F>(attempt: impl Fn() -> F) -> Result<T, EngineError>
where
    F: Future<Output = Result<T, EngineError>>,
{
    let mut failures = 0;
    loop {
        match attempt().await {
            Err(error) if error.is_transient() && failures < limits::RETRIES => {
                failures += 1;
                tokio::time::sleep(retry_delay(failures)).await;
            }
            result => return result,
        }
    }
}

/// After so many rounds in which somebody else was first.
pub(super) fn others_write(what: &str) -> EngineError {
    EngineError::Unavailable { what: what.to_owned(), why: "others kept writing it".to_owned() }
}
