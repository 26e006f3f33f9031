//! An issuer's keys in a file.

use std::path::{Path, PathBuf};

use super::keys::{KeySet, KeySetError};
use super::limits::KEYS_BYTES;

/// An issuer's keys could not be read. The operator has to fix it; a later try may succeed.
#[derive(Debug, thiserror::Error)]
pub enum KeysUnread {
    #[error("the keys of {iss} cannot be read from {}: {error}; create the file or correct access.issuer.keys", file.display())]
    Unreadable { iss: String, file: PathBuf, error: std::io::Error },
    #[error("{} is larger than {KEYS_BYTES} bytes; a JWK Set of {iss} belongs there", file.display())]
    TooLarge { iss: String, file: PathBuf },
    #[error("{} is no JWK Set that can be used for {iss}: {error}", file.display())]
    Unusable { iss: String, file: PathBuf, error: KeySetError },
}

/// The keys of this issuer, as the file has them.
///
/// # Errors
/// [`KeysUnread`].
pub fn read(iss: &str, file: &Path) -> Result<KeySet, KeysUnread> {
    let (iss, file) = (iss.to_owned(), file.to_owned());
    match content(&file) {
        Err(error) => Err(KeysUnread::Unreadable { iss, file, error }),
        Ok(None) => Err(KeysUnread::TooLarge { iss, file }),
        Ok(Some(bytes)) => KeySet::read(&bytes).map_err(|error| KeysUnread::Unusable { iss, file, error }),
    }
}

/// `None` of a file that is too large.
fn content(file: &Path) -> std::io::Result<Option<Vec<u8>>> {
    if std::fs::metadata(file)?.len() > KEYS_BYTES {
        return Ok(None);
    }
    std::fs::read(file).map(Some)
}
