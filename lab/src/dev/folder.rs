//! A folder for files that the world hands to its services and its sidecar.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// A folder of its own that only this user reads, and that goes with this.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn create() -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("nearside-dev-{:016x}", fastrand::u64(..)));
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self(folder))
    }

    /// Writes a file, and returns its path.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        std::fs::write(&path, content)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Somebody may have cleared the folder of temporary files before.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
