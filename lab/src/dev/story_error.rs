//! Reasons why the story ends early.

use std::time::Duration;

use nearside::engine::EngineError;

use super::catalogue::NotWritten;

/// Longest wait for anything that a step brings about.
pub(super) const TIMEOUT: Duration = Duration::from_secs(8);

/// Error that ended the story early.
#[derive(Debug, thiserror::Error)]
pub enum StoryError {
    #[error("no HTTP client: {0}")]
    Client(#[from] reqwest::Error),
    #[error(transparent)]
    Refused(#[from] NotWritten),
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Something did not come in time.
    #[error("waited {waited:?} for {what}")]
    Late { what: &'static str, waited: Duration },
}

pub(super) const fn late(what: &'static str) -> StoryError {
    StoryError::Late { what, waited: TIMEOUT }
}
