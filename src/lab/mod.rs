//! What is not part of the product: the pretend world that `nearside dev` and the tests run
//! against, and the benchmark.

pub mod bench;
pub(crate) mod limits;
pub mod signer;
mod uuid;
pub mod world;
