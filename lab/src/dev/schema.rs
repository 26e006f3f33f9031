//! The schema of the view "limits", in a file as the sidecar wants it.

use std::io;
use std::path::PathBuf;

use super::folder::Folder;

const LIMITS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/limits.binpb"));
const MESSAGE: &str = "nearside.dev.v1.Limits";

/// A file that goes with this.
pub(super) struct SchemaFile {
    path: PathBuf,
    _folder: Folder,
}

impl SchemaFile {
    pub(super) fn write() -> io::Result<Self> {
        let folder = Folder::create()?;
        Ok(Self { path: folder.write("limits.binpb", LIMITS)?, _folder: folder })
    }

    /// As a route names it.
    pub(super) fn named(&self) -> String {
        format!("{}#{MESSAGE}", self.path.display())
    }
}
