//! The reports of a benchmark: a table for the terminal, JSON to keep, a page and a picture to look
//! at.
//!
//! ```text
//! Report -> summary: medians and ratios -> table                                         a String of 110 columns
//!        |                              -> page     -> { lines, bars } -> scale, ink     one HTML file
//!        |                              -> picture  -> bars            -> scale, ink     one SVG for the README
//!        -> json, and back
//! ```
//!
//! Nothing here measures, reads a clock or touches a file: a [`Report`](super::result::BenchReport)
//! goes in, text comes out.

pub(crate) mod json;
pub(crate) mod page;
pub(crate) mod picture;
pub(crate) mod table;

mod bars;
mod escape;
mod figures;
mod ink;
mod lines;
mod scale;
mod summary;

#[cfg(test)]
mod sample;
