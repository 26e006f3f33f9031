//! Conditions of a write: they compare one number and nothing else, so that every engine can do it
//! alike.

/// Requirement on the item under a key for a write to take place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    Any,
    /// There is no item.
    Absent,
    /// There is an item with exactly this version.
    VersionIs(u64),
    /// There is no item, or one with a smaller version.
    Below(u64),
}

impl Condition {
    /// True if it holds where the item has `version`, or where there is none.
    pub fn holds(self, version: Option<u64>) -> bool {
        match (self, version) {
            (Self::Any, _) | (Self::Absent | Self::Below(_), None) => true,
            (Self::VersionIs(wanted), Some(version)) => version == wanted,
            (Self::Below(limit), Some(version)) => version < limit,
            (Self::Absent, Some(_)) | (Self::VersionIs(_), None) => false,
        }
    }
}
