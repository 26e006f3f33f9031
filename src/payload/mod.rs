//! What a body says, whatever its content coding, and parts of it.

pub mod digest;
pub(crate) mod limits;
pub mod mask;
pub mod projection;
mod recent;
