//! The schema of the view "limits", in a file as the sidecar wants it.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

const LIMITS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/limits.binpb"));
const MESSAGE: &str = "nearside.dev.v1.Limits";

/// A folder of its own, which goes with this.
pub(super) struct SchemaFile(PathBuf);

impl SchemaFile {
    pub(super) fn write() -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("nearside-dev-{:016x}", fastrand::u64(..)));
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let file = Self(folder);
        std::fs::write(file.path(), LIMITS)?;
        Ok(file)
    }

    fn path(&self) -> PathBuf {
        self.0.join("limits.binpb")
    }

    /// As a route names it.
    pub(super) fn named(&self) -> String {
        format!("{}#{MESSAGE}", self.path().display())
    }
}

impl Drop for SchemaFile {
    fn drop(&mut self) {
        // Somebody may have cleared the folder of temporary files before.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
