//! Endings of a command: its error, and the exit code and last words that come of it.

use std::process::ExitCode;

use crate::telemetry::log;

/// Why a command ended without success.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// An error of the caller: other arguments or settings help, a retry does not. Empty if
    /// everything was already reported.
    #[error("{0}")]
    Usage(String),
    /// The fault of the machine or the network: a retry may help.
    #[error("{0}")]
    Failed(String),
}

impl CommandError {
    pub fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Runs a command of `program` and reports its error; what was logged is written before this
/// returns.
pub fn run_to_end(program: &str, command: impl FnOnce() -> Result<(), CommandError>) -> ExitCode {
    let _flush = log::FlushAtExit;
    let (code, text) = match command() {
        Ok(()) => return ExitCode::SUCCESS,
        Err(CommandError::Usage(text)) => (2, text),
        Err(CommandError::Failed(text)) => (1, text),
    };
    if !text.is_empty() {
        log::last_words(&format!("{program}: {text}"));
    }
    ExitCode::from(code)
}
