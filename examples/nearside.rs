//! The program as `make test` builds it: `cargo run --example nearside -- dev` shares its whole build with the tests.
//!
//! What only tests need of a dependency (tokio's paused clock, say) makes cargo build that dependency and all above it a
//! second time. An example is built with the tests' features, so that a newcomer's first command leaves nothing to build
//! again for the second.

use std::process::ExitCode;

use clap::Parser;
use nearside::cli::{self, Cli};

fn main() -> ExitCode {
    cli::execute(Cli::parse())
}
