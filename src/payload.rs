//! Content of a body, whatever its content coding; the form in which it is written, and parts of
//! it.

pub mod accept;
pub mod coding;
pub mod compare;
pub mod digest;
pub mod forms;
pub(crate) mod limits;
pub mod mask;
pub mod projection;
mod recent;
pub mod rpc_status;
pub mod schema;
pub(crate) mod tags;
