//! The services as subjects: what the harness starts of them, and what it puts in the place of AWS.

pub(crate) mod deployment;
pub(crate) mod disk;
pub(crate) mod node;
pub(crate) mod report_file;
pub(crate) mod subscriber;
mod troubled;
