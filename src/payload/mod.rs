//! What a body says, whatever its content coding, and how it is written.

pub mod accept;
pub mod digest;
pub mod forms;
pub(crate) mod limits;
pub mod mask;
pub mod projection;
pub mod rpc_status;
pub mod schema;
