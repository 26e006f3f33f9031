//! The stamp by which a watcher of a file sees that it is another one.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A mark that changes with a file's content, its owner and its permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    modified: (i64, i64),
    changed: (i64, i64),
    length: u64,
    inode: u64,
}

impl FileStamp {
    /// The stamp of a file; `None` while there is none, or it cannot be asked for.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let meta = std::fs::metadata(path).ok()?;
        let (modified, changed) = ((meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
        Some(Self { modified, changed, length: meta.len(), inode: meta.ino() })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A secret is often copied first and made readable then.
    #[test]
    fn stamp_reflects_owner_mode_and_file() {
        let folder = tempfile::tempdir().unwrap();
        let [file, beside] = ["file", "beside"].map(|name| folder.path().join(name));
        assert_eq!(FileStamp::of(&file), None);
        std::fs::write(&file, "one").unwrap();
        std::fs::write(&beside, "two").unwrap();
        let times = std::fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
        for path in [&file, &beside] {
            std::fs::File::options().write(true).open(path).unwrap().set_times(times).unwrap();
        }
        let first = FileStamp::of(&file);
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let second = FileStamp::of(&file);
        assert_ne!(first, second);
        std::fs::rename(&beside, &file).unwrap();
        assert_ne!(FileStamp::of(&file), second);
        assert_eq!(FileStamp::of(&file), FileStamp::of(&file));
    }
}
