//! Owns `nearside bench`: its arguments, its report, and the harness's own servers, which are hidden commands of it.
//!
//! Before it: the command line. After it: a table on standard output, and files where they are asked for. Invariant:
//! the exit code is 0 when everything was measured, whatever came of the goals; they are in the report.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};

use super::CommandError;
use crate::bench::floor;
use crate::bench::progress::Progress;
use crate::bench::regions::{self, Delay};
use crate::bench::result::Report;
use crate::bench::run::{self, RunError, Settings};
use crate::bench::subject::Address;
use crate::limits;

/// `nearside bench`
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    /// How often everything is repeated
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,
    /// How long a round is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    pub seconds: f64,
    /// Measure only this scenario; may be given several times
    #[arg(long, value_name = "SCENARIO")]
    pub only: Vec<String>,
    /// Where everything that is drawn begins
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write the report as JSON too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// What the harness starts beside itself.
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
}

/// The harness's own servers.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// Answer from memory on a bare epoll loop
    #[command(hide = true)]
    Floor {
        /// The port to listen on
        #[arg(long, required_unless_present = "unix")]
        tcp: Option<SocketAddr>,
        /// The Unix socket to listen on
        #[arg(long, conflicts_with = "tcp")]
        unix: Option<PathBuf>,
        /// The body's length
        #[arg(long, value_parser = clap::value_parser!(u32).range(..=(limits::BENCH_BODY_KIB as i64) << 10))]
        body_bytes: u32,
    },
    /// Answer as the regions of a service
    #[command(hide = true)]
    Regions {
        /// How late: none, fixed:5ms, tail:SEED
        #[arg(long, default_value = "none", value_parser = Delay::parse)]
        delay: Delay,
        /// One port per region
        #[arg(required = true, num_args = 1..=limits::REGIONS)]
        addresses: Vec<SocketAddr>,
    },
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "write a number of seconds, such as 3 or 0.5".to_owned())?;
    if (0.01..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("write 0.01 to 3600 seconds".to_owned()) }
}

/// Measures, or serves.
pub(super) fn bench(args: BenchArgs) -> Result<(), CommandError> {
    match args.command {
        None => measure(&args),
        Some(BenchCommand::Floor { tcp, unix, body_bytes }) => {
            let address = match (tcp, unix) {
                (Some(tcp), _) => Address::Tcp(tcp),
                (None, Some(unix)) => Address::Unix(unix),
                (None, None) => return Err(CommandError::Usage("write --tcp or --unix".to_owned())),
            };
            floor::serve(&address, &floor::answer(body_bytes as usize)).map_err(failed)
        }
        Some(BenchCommand::Regions { delay, addresses }) => regions::serve(&addresses, delay).map_err(failed),
    }
}

fn measure(args: &BenchArgs) -> Result<(), CommandError> {
    let round = Duration::from_secs_f64(args.seconds);
    let settings = Settings {
        rounds: usize::from(args.rounds),
        round,
        warm_up: (round / 4).min(Duration::from_secs(1)),
        only: args.only.clone(),
        seed: args.seed,
    };
    let report = run::run(&settings, &Progress::for_stderr()).map_err(|error| match error {
        RunError::Unknown { .. } => CommandError::Usage(error.to_string()),
        error => failed(error),
    })?;
    if let Some(path) = &args.json {
        write(path, &serde_json::to_string_pretty(&report).map_err(failed)?)?;
    }
    std::io::stdout().lock().write_all(table(&report).as_bytes()).map_err(failed)
}

fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    let told = |error| CommandError::Failed(format!("{} could not be written: {error}", path.display()));
    std::fs::write(path, text).map_err(told)
}

fn failed(error: impl std::fmt::Display) -> CommandError {
    CommandError::Failed(error.to_string())
}

fn table(report: &Report) -> String {
    let mut text = String::new();
    for scenario in &report.scenarios {
        text += &format!("\n{}: {}\n{}\n", scenario.name, scenario.title, scenario.how);
        for row in &scenario.rows {
            let cpu = row.median(|round| round.cpu_us.unwrap_or(0.0));
            let (low, high) = row.spread(|round| round.cpu_us.unwrap_or(0.0)).unwrap_or_default();
            let at = |figure: fn(&crate::bench::result::Latency) -> f64| row.median(|round| figure(&round.latency));
            text += &format!(
                "  {:16} {:8.0}/s  CPU {cpu:6.2} us ({low:.2} to {high:.2})  p50 {:7.1}  p99 {:8.1}  p99.9 {:8.1} us  \
                 failed {}  {}\n",
                row.subject,
                row.rate(),
                at(|latency| latency.p50_us),
                at(|latency| latency.p99_us),
                at(|latency| latency.p999_us),
                row.rounds.iter().map(|round| round.failures).sum::<u64>(),
                row.proof,
            );
        }
        for goal in &scenario.goals {
            let met = if goal.met { "met" } else { "MISSED" };
            text += &format!("  {met:6} {}: {:.3}\n", goal.text, goal.seen);
        }
        for note in &scenario.notes {
            text += &format!("  {note}\n");
        }
    }
    for missing in &report.missing {
        text += &format!("not measured: {}: {}\n", missing.name, missing.why);
    }
    text
}
