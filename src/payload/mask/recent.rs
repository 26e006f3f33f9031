//! The masks that callers of a route sent lately: they are few, and each is sent again and again.

use super::canonical::Mask;
use super::error::MaskError;
use crate::payload::limits::MASKS_BYTES;
use crate::payload::recent::{Recent, hash};

/// One per route and schema: what a text means depends on both. Bounded.
#[derive(Debug)]
pub struct Masks(Recent<Mask>);

impl Default for Masks {
    fn default() -> Self {
        Self(Recent::new(MASKS_BYTES))
    }
}

impl Masks {
    /// The mask that `read` makes of `text`, or made of it lately. Only the first of a text pays
    /// for reading it; a faulty one is read every time.
    pub fn read(&self, text: &str, read: impl FnOnce(&str) -> Result<Mask, MaskError>) -> Result<Mask, MaskError> {
        let hash = hash(text);
        if let Some(mask) = self.0.get(hash, text) {
            return Ok(mask);
        }
        let mask = read(text)?;
        // The suffix is a piece of memory of its own: two counters, and a pointer with a length to it.
        let bytes = mask.canonical().len() + mask.tag_suffix().len() + 4 * size_of::<usize>();
        self.0.keep(hash, &text.into(), &mask, bytes);
        Ok(mask)
    }
}
