//! The shape in which a caller gets a record: its form (JSON or Protobuf), which of its fields, its
//! content coding, and what the answer's own header lines say.
//!
//! Whatever the shape, there is one entry and one race: a form is derived from the stored body once
//! for each version and kept with the entry ([`crate::cache::derived`]), fields are cut out of it
//! for each answer.

pub mod cache_status;
pub mod common_form;
pub mod cookies;
pub mod derive;
pub(crate) mod form;
pub(crate) mod header_text;
pub mod limits;
pub mod shapes;
pub mod show;
pub mod shown;
#[cfg(test)]
mod tests;
