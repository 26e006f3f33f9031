//! What is not part of the product: `nearside dev`, the pretend world that tests run against, and the
//! benchmark.

pub mod bench;
pub mod dev;
pub(crate) mod limits;
pub mod signer;
mod uuid;
pub mod world;
