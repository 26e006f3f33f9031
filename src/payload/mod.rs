//! What a body says, whatever its content coding, and in which form.

pub mod accept;
pub mod digest;
pub mod forms;
pub(crate) mod limits;
pub mod rpc_status;
pub mod schema;
