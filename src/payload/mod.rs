//! What a body says, whatever its content coding.

pub mod coding;
pub mod digest;
pub(crate) mod limits;
