//! Reasons why a mask is refused.

use crate::payload::limits::{MASK_BYTES, MASK_DEPTH, MASK_PATHS};

/// Fault of a mask. It is always the caller's fault: a 400 that says this.
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
