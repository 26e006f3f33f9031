//! Parse, build, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use nearside::cli::{self, Cli};

fn main() -> ExitCode {
    cli::execute(Cli::parse())
}
