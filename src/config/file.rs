//! Opens a file that a setting names.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use super::error::ConfigProblem;

/// Refuses a named pipe: opening one waits for its writer, perhaps for ever.
pub(super) fn open(file: &Path) -> io::Result<File> {
    if std::fs::symlink_metadata(file)?.file_type().is_fifo() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a named pipe, not a file"));
    }
    File::open(file)
}

/// Opens what must be a file: a device has no end.
pub(super) fn open_regular(file: &Path) -> io::Result<File> {
    let open = open(file)?;
    if open.metadata()?.is_file() {
        Ok(open)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))
    }
}

/// The content of a file that a setting names, which is `shown` to people.
pub(super) fn content(file: &Path, shown: &str, most_bytes: u64, suggestion: &str) -> Result<Vec<u8>, ConfigProblem> {
    let mut content = Vec::new();
    match open(file).and_then(|open| open.take(most_bytes + 1).read_to_end(&mut content)) {
        Err(error) => {
            let what = format!("{shown} cannot be read: {error}");
            Err(ConfigProblem::new(what, "create it, or correct the path and its permissions"))
        }
        Ok(bytes) if bytes as u64 > most_bytes => {
            let what = format!("{shown} is larger than {}", bytesize::ByteSize(most_bytes));
            Err(ConfigProblem::new(what, suggestion))
        }
        Ok(_) => Ok(content),
    }
}

/// Its content; of a larger one `most_bytes` and one more.
pub fn read_regular(file: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open_regular(file)?.take(most_bytes + 1).read_to_end(&mut content)?;
    Ok(content)
}
