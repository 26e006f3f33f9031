//! Part of a record: JSON in, and what a mask names of it out, cut from the bytes as they came.
//! Numbers, escapes and the white space inside of what is kept are the region's, byte for byte.
//!
//! Objects keep the members that the mask names, in their own order; those that are missing stay
//! missing. Lists are cut element by element. Where a path goes on and the value is no object or
//! list, it has none of the fields and is left out, from a list as well. An object of which nothing
//! is left is `{}`, a list `[]`: they were there. Of members with one name the last counts. Names
//! are compared as they are meant, whatever is escaped in them.
//!
//! What is stepped over is not judged: of a body that is no JSON the answer may be an error or
//! part of the damage. A body that is JSON gives JSON.
//!
//! Who pays: a caller of a small body (see [`Index::pays_for`]) one look over it, per
//! request. For larger ones the first caller of a version pays for [`Index::of`], one look over
//! the body; the first of each mask for a cut, which steps over what it need not enter; everybody
//! else for a look at what the index remembers, as much as it costs to find an entry in a map.

use bytes::Bytes;

use crate::payload::limits::{CONTAINER_BYTES, CONTAINERS_SHARE, INDEX_SHARE, INDEXED_BODY_BYTES};
use crate::payload::mask::Mask;
use crate::payload::recent::Recent;

mod containers;
mod cut;
mod error;
mod json;
#[cfg(test)]
mod tests;
mod tree;

pub use error::ProjectionError;

use containers::{Containers, Place};
use tree::Tree;

/// Kept parts of a body, ready to be sent. Cloning it copies no bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projected(Bytes);

impl Projected {
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl AsRef<[u8]> for Projected {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Index that makes projections of one body cheap: the places of its larger objects and lists, and
/// the answers that were cut from it lately. Made once per version, shared by everybody who reads
/// it.
#[derive(Debug)]
pub struct Index {
    places: Box<[Place]>,
    answers: Recent<Bytes>,
    /// Length of the body that it belongs to.
    len: usize,
    weight: usize,
}

impl Index {
    /// True if a body is large enough for an index: a smaller one is scanned faster than its index
    /// is found, and 5 % of it would hold nothing.
    pub fn pays_for(body: &[u8]) -> bool {
        body.len() >= INDEXED_BODY_BYTES
    }

    /// One look over the body: about 0.4 ms for a megabyte.
    pub fn of(body: &[u8]) -> Result<Self, ProjectionError> {
        if u32::try_from(body.len()).is_err() {
            return Err(ProjectionError::TooLarge);
        }
        let budget = (body.len() / INDEX_SHARE).saturating_sub(size_of::<Self>());
        let places = containers::places(body, budget / CONTAINERS_SHARE / size_of::<Place>(), CONTAINER_BYTES)?;
        let room = budget - size_of_val(&*places);
        let weight = size_of::<Self>() + budget;
        Ok(Self { places, answers: Recent::new(room), len: body.len(), weight })
    }

    /// The projection, if it was cut lately: for who must not wait for a cut of a large body, which
    /// takes up to 0.5 ms for each megabyte.
    pub fn remembered(&self, mask: &Mask) -> Option<Projected> {
        self.answers.get(mask.id(), mask.canonical()).map(Projected)
    }

    /// Upper bound in bytes, whatever it will remember: 5 % of the body from 16 KiB on.
    pub fn weight(&self) -> usize {
        self.weight
    }
}

/// Cuts the fields of `mask` out of `body`. An index of another body is not used.
///
/// Every error means: serve the body whole.
pub fn project(body: &[u8], index: Option<&Index>, mask: &Mask) -> Result<Projected, ProjectionError> {
    if mask.is_everything() {
        return Err(ProjectionError::Everything);
    }
    let Some(index) = index.filter(|index| index.len == body.len()) else {
        return cut::cut(body, Containers::new(&[]), &Tree::of(mask)).map(|cut| Projected(cut.into()));
    };
    if let Some(answer) = index.remembered(mask) {
        return Ok(answer);
    }
    let mut answer = cut::cut(body, Containers::new(&index.places), &Tree::of(mask))?;
    // What is remembered takes what it is reckoned with.
    answer.shrink_to_fit();
    let answer = Bytes::from(answer);
    index.answers.keep(mask.id(), mask.shared(), &answer, answer.len());
    Ok(Projected(answer))
}
