//! Opens a file that a setting names.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// Refuses a named pipe: opening one waits for its writer, perhaps for ever.
pub(super) fn open(file: &Path) -> io::Result<File> {
    if std::fs::symlink_metadata(file)?.file_type().is_fifo() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a named pipe, not a file"));
    }
    File::open(file)
}
