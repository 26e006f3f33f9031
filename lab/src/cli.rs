//! The lab's command line. Exit codes are the product's: 0 is success, 1 is failure at run time, 2
//! is an error in the command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use nearside::cli::error::run_to_end;

mod bench;
mod dev;

/// Nearside's world on one machine: a whole service to look at and to disturb, and the benchmark.
#[derive(Clone, Debug, Parser)]
#[command(name = "nearside-lab", version, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 success, 1 failure at run time, 2 error in arguments.\n\
                        The sidecar itself is another program: nearside")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Commands of the program.
#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Run regions, topics and a sidecar on this machine, and show what it does
    #[command(after_help = "Example:\n  nearside-lab dev\n  nearside-lab dev put tenant-7 '{\"plan\":\"gold\"}'\n  \
                            nearside-lab dev chaos us-east-1 slow 5s\n  nearside-lab dev chaos us-east-1 reset")]
    Dev(dev::DevArgs),
    /// Measure nearside beside what else there is on this machine
    #[command(after_help = "Examples:\n  nearside-lab bench --only hit-1k\n  \
                            nearside-lab bench --rounds 3 --json report.json\n\n\
                            It measures the nearside beside it, built in the same way.")]
    Bench(Box<bench::BenchArgs>),
}

/// Runs the command to its end.
pub fn execute(cli: Cli) -> ExitCode {
    run_to_end("nearside-lab", || match cli.command {
        Command::Dev(args) => dev::dev(args),
        Command::Bench(args) => bench::bench(*args),
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_command_shows_an_example() {
        let command = Cli::command();
        command.clone().debug_assert();
        for sub in command.get_subcommands() {
            assert!(sub.get_about().is_some(), "{}", sub.get_name());
            let after = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains(&format!("nearside-lab {}", sub.get_name())), "{}", sub.get_name());
        }
    }
}
