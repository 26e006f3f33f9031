//! Which fields of a record a caller wants: a read mask as Google's APIs have it (AIP-157, AIP-161,
//! `google.protobuf.FieldMask`), such as `id,address.city`.
//!
//! Paths are separated by commas, names by dots. A name in backticks may hold commas and dots; two
//! backticks in it are one. Lists need no word of their own: a path goes through them element by
//! element. `*` alone is everything, and so is a mask without any path, as with Google; empty paths
//! and spaces around paths do not count. A `*` inside a path is refused, so that it can come to
//! mean something.
//!
//! Who pays: reading a mask of 50 paths takes 1 to 4 us, so a route remembers what it read
//! ([`Masks`]), and only the first caller of each spelling pays.

use std::fmt;
use std::sync::Arc;

use crate::payload::limits::{MASK_BYTES, MASK_DEPTH, MASK_PATHS};
use crate::payload::recent::hash;
use crate::payload::schema::Schema;
use crate::payload::tags;

mod parameter;
mod paths;
mod recent;
#[cfg(test)]
mod tests;

pub use parameter::{Stripped, decoded, take};
use paths::Paths;
pub use recent::Masks;

/// What is wrong with a mask. It is always the caller's fault: a 400 that says this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaskError {
    #[error("the mask is not UTF-8 once it is percent-decoded")]
    NotUtf8,
    #[error("the mask is longer than {MASK_BYTES} bytes")]
    TooLong,
    #[error("the mask has more than {MASK_PATHS} paths")]
    TooManyPaths,
    #[error("the path {0:?} has more than {MASK_DEPTH} names")]
    TooDeep(String),
    #[error("the path {0:?} has an empty name: names are separated by one dot; ask for an empty name with ``")]
    EmptyName(String),
    #[error("the path {0:?} has a backtick in the wrong place: a name is quoted whole, and `` in quotes is one")]
    Quote(String),
    #[error("the path {0:?} has a * in it: only a * alone has a meaning; quote it with backticks if it is a name")]
    Wildcard(String),
    #[error("the path {0:?} leads to no field of this record")]
    Unknown(String),
}

/// The fields that a caller wants, in canonical form: sorted, without duplicates and without what a
/// shorter path covers.
/// Cloning it copies no text.
#[derive(Clone)]
pub struct Mask {
    canonical: Arc<str>,
    id: u64,
    tag_suffix: Arc<str>,
    /// What else its names are called.
    spelling: Option<Arc<Schema>>,
}

impl PartialEq for Mask {
    fn eq(&self, other: &Self) -> bool {
        self.canonical == other.canonical
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mask").field(&self.canonical).finish()
    }
}

impl Mask {
    /// A mask whose paths are the names of the JSON, where no schema says more.
    pub fn literal(text: &str) -> Result<Self, MaskError> {
        Self::new(Paths::read(text)?)
    }

    /// A mask whose paths mean what `names` makes of them: the names that the JSON has, or `None`
    /// for a path that leads nowhere.
    pub fn parse(text: &str, names: impl Fn(&[&str]) -> Option<Vec<String>>) -> Result<Self, MaskError> {
        Self::new(Paths::read(text)?.meant(names)?)
    }

    fn new(paths: Paths<'_>) -> Result<Self, MaskError> {
        let canonical = paths.canonical();
        if canonical.len() > MASK_BYTES {
            return Err(MaskError::TooLong);
        }
        let id = hash(&canonical);
        Ok(Self { id, canonical: canonical.into(), tag_suffix: suffix(id), spelling: None })
    }

    /// The same for records that may spell a field either way: as JSON does, or as the schema. What
    /// it names then depends on the schema, and so do id and tag.
    #[must_use]
    pub fn in_either_spelling(self, schema: Arc<Schema>) -> Self {
        let id = self.id.rotate_left(8) ^ schema.id();
        Self { id, tag_suffix: suffix(id), spelling: Some(schema), ..self }
    }

    /// Whether nothing is left out: then there is nothing to project.
    pub fn is_everything(&self) -> bool {
        &*self.canonical == paths::EVERYTHING
    }

    /// Tells masks apart, and schemas that say how records spell them; alike in every process. A hash without a secret: a caller can make two
    /// masks of one id, and thereby confuse the validators that it is given itself.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What the entity tag of these fields ends with.
    pub fn tag_suffix(&self) -> &str {
        &self.tag_suffix
    }

    pub(super) fn spelling(&self) -> Option<&Schema> {
        self.spelling.as_deref()
    }

    pub(super) fn shared(&self) -> &Arc<str> {
        &self.canonical
    }

    /// The mask as it would be written by somebody who writes it shortest; `*` for everything.
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// The paths, sorted, each without one that covers it.
    pub(super) fn paths(&self) -> Paths<'_> {
        Paths::read_within(&self.canonical, usize::MAX).expect("the canonical form is written to be read")
    }
}

fn suffix(id: u64) -> Arc<str> {
    tags::suffix(tags::FIELDS, id).into()
}
