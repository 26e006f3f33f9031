//! Errors that the commands of `nearside grants` end with.

use crate::access::grants::GrantsError;
use crate::cli::error::CommandError;

pub(super) fn none_yet() -> CommandError {
    CommandError::Failed("there are no grants yet; `nearside grants apply` writes the first".to_owned())
}

pub(super) fn wrong(errors: &[GrantsError]) -> CommandError {
    CommandError::Usage(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}
