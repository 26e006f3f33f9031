//! What a process of the harness tells it besides what can be measured from outside: a file of
//! JSON, replaced as a whole, so that a half-written one is never read.

use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(super) fn tell(file: &Path, what: &impl Serialize) -> io::Result<()> {
    let (text, beside) = (serde_json::to_string(what)?, file.with_extension("new"));
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, file)
}

/// What was told last; `None` before anything was.
pub(crate) fn heard<T: DeserializeOwned>(file: &Path) -> Option<T> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_last_is_heard_and_nothing_before_anything_was() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("said.json");
        assert_eq!(heard::<u64>(&file), None);
        tell(&file, &7).unwrap();
        tell(&file, &8).unwrap();
        assert_eq!(heard::<u64>(&file), Some(8));
    }
}
