//! Parse, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use nearside_lab::cli::{self, Cli};

fn main() -> ExitCode {
    cli::execute(Cli::parse())
}
