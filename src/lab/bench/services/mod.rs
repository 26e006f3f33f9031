//! The services as subjects: what the harness starts of them, and what it puts in the place of AWS.

pub(crate) mod counting;
pub(crate) mod deployment;
pub(crate) mod disk;
pub(crate) mod ear;
pub(crate) mod heard;
pub(crate) mod node;
mod troubled;
