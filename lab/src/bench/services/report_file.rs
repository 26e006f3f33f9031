//! Reports of a process of the harness, besides what can be measured from outside: a file of JSON,
//! replaced as a whole, so that a half-written one is never read.

use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(super) fn write_report(file: &Path, what: &impl Serialize) -> io::Result<()> {
    let (text, beside) = (serde_json::to_string(what)?, file.with_extension("new"));
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, file)
}

/// Returns the last report; `None` before there was any.
pub(crate) fn read_report<T: DeserializeOwned>(file: &Path) -> Option<T> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_message_is_read_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("said.json");
        assert_eq!(read_report::<u64>(&file), None);
        write_report(&file, &7).unwrap();
        write_report(&file, &8).unwrap();
        assert_eq!(read_report::<u64>(&file), Some(8));
    }
}
