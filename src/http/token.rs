//! Reads the token that callers of a port must send (`listen.token_file`, `admin.token_file`).

use std::path::{Path, PathBuf};

use crate::config::limits::TOKEN_BYTES;

/// The port's token could not be read. The operator has to fix it.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("{0}: {1} cannot be read: {2}; create it, or take the setting out")]
    Unreadable(&'static str, PathBuf, std::io::Error),
    #[error("{0}: {1} is empty or larger than {2} bytes; put one line with the token in it")]
    Size(&'static str, PathBuf, u64),
}

/// The trimmed content of the `file` that `setting` names; `None` without one.
///
/// # Errors
/// When the file cannot be read, is empty or too large.
pub(crate) fn read(setting: &'static str, file: Option<&Path>) -> Result<Option<Vec<u8>>, TokenError> {
    let Some(file) = file else { return Ok(None) };
    let text = std::fs::read(file).map_err(|error| TokenError::Unreadable(setting, file.to_owned(), error))?;
    let token = text.trim_ascii().to_vec();
    if token.is_empty() || token.len() as u64 > TOKEN_BYTES {
        return Err(TokenError::Size(setting, file.to_owned(), TOKEN_BYTES));
    }
    Ok(Some(token))
}
