//! Answers that the commands of `nearside grants` wait for, print, or end with.

use std::io::Write;

use crate::access::grants::GrantsError;
use crate::app::process;
use crate::cli::error::CommandError;

pub(super) fn block_on<T>(asked: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    process::block_on(asked).map_err(CommandError::failed)?
}

pub(super) fn none_yet() -> CommandError {
    CommandError::Failed("there are no grants yet; `nearside grants apply` writes the first".to_owned())
}

pub(super) fn print(line: &str) -> Result<(), CommandError> {
    writeln!(std::io::stdout().lock(), "{line}").map_err(CommandError::failed)
}

pub(super) fn wrong(errors: &[GrantsError]) -> CommandError {
    CommandError::Usage(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}
