//! The product's own binary, which is what most scenarios measure. The harness is another program:
//! it looks beside itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::subject::SubjectError;

const NAME: &str = "nearside";

/// Nearside's binary.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    /// An absolute path, because processes run in folders of their own.
    pub program: PathBuf,
    /// Version in its own words.
    pub version: String,
}

impl Product {
    /// The binary at `given`, else the one in the folder of `harness`.
    pub(super) fn find(given: Option<&Path>, harness: &Path) -> Result<Self, SubjectError> {
        let beside = harness.with_file_name(NAME);
        let path = given.unwrap_or(&beside);
        Self::at(path).ok_or_else(|| SubjectError::NoProduct { path: path.display().to_string() })
    }

    /// `None` if the program at `path` is not the product.
    fn at(path: &Path) -> Option<Self> {
        let program = std::path::absolute(path).ok()?;
        let said = Command::new(&program).arg("--version").output().ok()?;
        let said = String::from_utf8_lossy(&said.stdout);
        let version = said.trim().strip_prefix(NAME)?.trim().to_owned();
        Some(Self { program, version })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn script(folder: &Path, text: &str) -> PathBuf {
        let file = folder.join(NAME);
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    #[test]
    fn the_binary_beside_the_harness_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = script(folder.path(), "echo nearside 1.2.3");
        let found = Product::find(None, &folder.path().join("nearside-lab")).unwrap();
        assert_eq!((found.program, found.version.as_str()), (file, "1.2.3"));
    }

    #[test]
    fn a_missing_binary_says_how_to_build_one() {
        let folder = tempfile::tempdir().unwrap();
        let error = Product::find(None, &folder.path().join("nearside-lab")).unwrap_err().to_string();
        assert!(error.contains("cargo build --release --bin nearside") && error.contains("--nearside"), "{error}");
        let other = script(folder.path(), "echo something else");
        assert!(Product::find(Some(&other), Path::new("/bin/nearside-lab")).is_err());
    }
}
