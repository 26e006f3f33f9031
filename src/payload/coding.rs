//! Content codings of replies: what a region may compress with where a route asks it to, and what
//! that holds. Nobody decodes to more than they allow, however the body was made.

mod asked;
mod body;
mod content_coding;
mod dictionary;
mod error;
pub(super) mod layers;
mod zstd_frames;

pub use asked::{CODED_TAG, Codings, has_body, uncoded};
pub use body::{decode, encode};
pub use content_coding::Coding;
pub use dictionary::{Dictionary, available_dictionary};
pub use error::{CodingError, DictionaryError};

#[cfg(test)]
mod tests;
