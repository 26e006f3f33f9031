//! Opens a file that a setting names.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

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
    match open.metadata()?.is_file() {
        true => Ok(open),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// Its content; of a larger one `most_bytes` and one more.
pub fn read_regular(file: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open_regular(file)?.take(most_bytes + 1).read_to_end(&mut content)?;
    Ok(content)
}
