//! The program with the dependencies of `make test`: `cargo run --example nearside -- dev`.
//!
//! What only tests need of a dependency (tokio's paused clock, say) makes cargo build that
//! dependency and all above it once more. An example is built with the tests' features, so that a
//! newcomer's second command finds them built.

use std::process::ExitCode;

use clap::Parser;
use nearside::cli::{self, Cli};

fn main() -> ExitCode {
    cli::execute(Cli::parse())
}
