//! Answers that commands wait for, and print.

use std::io::Write;

use crate::app::process;
use crate::cli::error::CommandError;

pub(super) fn block_on<T>(asked: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    process::block_on(asked).map_err(CommandError::failed)?
}

pub(super) fn print(line: &str) -> Result<(), CommandError> {
    writeln!(std::io::stdout().lock(), "{line}").map_err(CommandError::failed)
}
