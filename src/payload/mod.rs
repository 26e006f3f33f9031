//! What a body says, whatever it is encoded with.

pub mod digest;
pub mod limits;
