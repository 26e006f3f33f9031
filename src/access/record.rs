//! The grants as a record: one document, and the note by which a region knows how old its copy is.
//!
//! Both are items of the type [`GRANTS`], which nothing that is configured can be called. They take
//! the way that views take, into every region.

use crate::model::time::Wall;

/// Type of the record, in the catalogue, among the views and in announcements.
pub const GRANTS: &str = "_grants";
/// Key of the document.
pub const DOCUMENT: &str = "grants";
/// Key of the confirmation, among the views and in regions.
pub const CONFIRMED: &str = "confirmed";

/// A look of the views service at the catalogue's document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// Time of the look: the item's version.
    pub at: Wall,
    /// Version of the document that it found.
    pub version: u64,
}

impl Confirmation {
    /// The item's note.
    #[must_use]
    pub fn note(self) -> String {
        self.version.to_string()
    }

    /// Reads what an item of this version says with this note; `None` if that is no confirmation.
    #[must_use]
    pub fn read(at: u64, note: Option<&str>) -> Option<Self> {
        Some(Self { at: Wall::from_millis(at), version: note?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirmation_survives_its_item() {
        let confirmation = Confirmation { at: Wall::from_millis(1_764_043_205_000), version: 1_764_043_200_000 };
        let note = confirmation.note();
        assert_eq!(Confirmation::read(1_764_043_205_000, Some(&note)), Some(confirmation));
        assert_eq!(Confirmation::read(1_764_043_205_000, None), None);
        assert_eq!(Confirmation::read(1_764_043_205_000, Some("-1")), None);
    }
}
