//! A mask in canonical form.

use std::fmt;
use std::sync::Arc;

use super::error::MaskError;
use super::paths::{self, Paths};
use crate::payload::limits::MASK_BYTES;
use crate::payload::recent::hash;
use crate::payload::schema::Schema;
use crate::payload::tags;

/// The fields that a caller wants, in canonical form: sorted, without duplicates and without what a
/// shorter path covers.
/// Cloning it copies no text.
#[derive(Clone)]
pub struct Mask {
    canonical: Arc<str>,
    id: u64,
    tag_suffix: Arc<str>,
    /// Schema with the other spellings of its names.
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

    /// Returns the mask for records that may spell a field either way: as JSON does, or as the
    /// schema. Its meaning then depends on the schema, and so do id and tag.
    #[must_use]
    pub fn in_either_spelling(self, schema: Arc<Schema>) -> Self {
        let id = self.id.rotate_left(8) ^ schema.id();
        Self { id, tag_suffix: suffix(id), spelling: Some(schema), ..self }
    }

    /// True if nothing is left out: then there is nothing to project.
    pub fn is_everything(&self) -> bool {
        &*self.canonical == paths::EVERYTHING
    }

    /// Tells masks apart, and schemas that say how records spell them; alike in every process. A hash without a secret: a caller can make two
    /// masks of one id, and thereby confuse the validators that it is given itself.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Suffix of the entity tag of these fields.
    pub fn tag_suffix(&self) -> &str {
        &self.tag_suffix
    }

    pub(in crate::payload) fn spelling(&self) -> Option<&Schema> {
        self.spelling.as_deref()
    }

    pub(in crate::payload) fn shared(&self) -> &Arc<str> {
        &self.canonical
    }

    /// The mask as it would be written by somebody who writes it shortest; `*` for everything.
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// The paths, sorted, each without one that covers it.
    pub(in crate::payload) fn paths(&self) -> Paths<'_> {
        Paths::read_within(&self.canonical, usize::MAX).expect("the canonical form is written to be read")
    }
}

fn suffix(id: u64) -> Arc<str> {
    tags::suffix(tags::FIELDS, id).into()
}
