//! The templates of a route: the path that it answers to, and the records that such a path shows.
//! [`crate::routing::router`] matches paths with them.
//!
//! One path leads to one key per record. A path that a region might read differently (dot segments,
//! encoded or not, or a broken escape) leads to none.

mod escapes;
mod path;
mod record;
mod segment;

pub use escapes::{is_plain, unescaped};
pub use path::{Captures, PathTemplate};
pub use record::RecordTemplate;
pub use segment::Segment;

#[cfg(test)]
mod tests;
