//! What is not part of the product: the pretend world that `nearside dev` and the tests run
//! against, and the benchmark.

pub mod bench;
pub mod limits;
pub mod signer;
pub mod uuid;
pub mod world;
