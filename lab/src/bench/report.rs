//! The reports of a benchmark: a table for the terminal, JSON to keep, and a page to look at, whose
//! charts are also files of their own.
//!
//! ```text
//! Report -> summary: medians, ratios, columns -> render -> text.txt      110 columns of a terminal
//!        |                                              -> page.html     one HTML file
//!        -> charts -> draw (plotters) -> page.html, files                SVGs that stand alone
//!        -> json, and back
//! ```
//!
//! Nothing here measures, reads a clock or touches a file: a [`Report`](super::result::BenchReport)
//! goes in, text comes out.

pub(crate) mod charts;
pub(crate) mod json;
pub(crate) mod render;

mod draw;
mod figures;
mod ink;
mod summary;
mod text;

#[cfg(test)]
mod sample;
