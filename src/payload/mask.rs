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

mod canonical;
mod error;
mod parameter;
mod paths;
mod recent;

pub use canonical::Mask;
pub use error::MaskError;
pub use parameter::{Stripped, decoded, take};
pub use recent::Masks;

#[cfg(test)]
mod tests;
