//! `make kills`: real processes of every role, killed at random instants while records are written and
//! sidecars read.
//!
//! ```text
//! plan (seed) -> embedded | emulated -> SIGKILL, start      writers -> catalogue      readers -> sidecars
//!                        |                                      |                          |
//!                        +--------- figures, write log <--------+--------------------------+
//!                                        |
//!                     settle (histories, views, verify) -> check -> report
//! ```
//!
//! Exit code 1 says that a promise was broken, 2 that the run itself failed; README.md says more.

mod asked;
mod check;
mod embedded;
mod emulated;
#[path = "../it/support/emulator.rs"]
#[allow(dead_code, clippy::unwrap_used, clippy::panic, reason = "it belongs to the tests in tests/it")]
mod emulator;
mod field;
mod files;
mod plan;
mod process;
mod readers;
mod report;
mod selfcheck;
mod settle;
mod writers;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use field::{Order, Verdict};

/// Why a run could not go on.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Parser)]
struct Arguments {
    /// Seed of kills, writes and reads.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// SIGKILLs, half of them in each half.
    #[arg(long, default_value_t = 200)]
    kills: usize,
    /// Writes on redb; on the emulator a tenth of them, because it is slow.
    #[arg(long, default_value_t = 50_000)]
    writes: u64,
    /// One half alone.
    #[arg(long)]
    half: Option<Half>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Half {
    Embedded,
    Emulated,
}

/// Load that a debug build takes on two cores without falling behind.
const EMBEDDED: Order =
    Order { seed: 0, kills: 0, writes: 0, tenants: 200, rate: 60.0, pause: Duration::from_millis(20) };
const EMULATED: Order = Order { tenants: 60, rate: 8.0, pause: Duration::from_millis(100), ..EMBEDDED };
/// Divisor of the writes on redb that gives the emulator's.
const EMULATED_PART: u64 = 10;
const EMULATED_LEAST: u64 = 100;

#[expect(clippy::print_stderr, reason = "the driver speaks to its user")]
fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(process::DEV) {
        return nearside_lab::cli::execute(nearside_lab::cli::Cli::parse());
    }
    let arguments = Arguments::parse();
    selfcheck::proves_itself();
    plan::proves_itself(arguments.seed);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime can be made");
    let mut code = ExitCode::SUCCESS;
    for half in [Half::Embedded, Half::Emulated] {
        if arguments.half.is_some_and(|only| only != half) {
            continue;
        }
        let outcome = runtime.block_on(async {
            tokio::select! {
                outcome = run(half, &arguments) => outcome,
                _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
            }
        });
        match outcome {
            Ok(Verdict { is_kept: true, .. }) => field::say(&format!("seed {}: {half:?} held", arguments.seed)),
            Ok(Verdict { reported, .. }) => {
                eprintln!("seed {}: {half:?}: a promise was broken\n{reported}", arguments.seed);
                code = ExitCode::from(1);
            }
            Err(error) => {
                eprintln!("seed {}: {half:?}: the run itself failed: {error}", arguments.seed);
                return ExitCode::from(2);
            }
        }
    }
    code
}

async fn run(half: Half, arguments: &Arguments) -> Result<Verdict, Failure> {
    let (seed, kills) = (arguments.seed, arguments.kills / 2);
    let logs = process::log_under(seed)?;
    field::say(&format!("seed {seed}: {half:?}, {kills} kills; what the processes say: {}", logs.display()));
    match half {
        Half::Embedded => Box::pin(embedded::run(Order { seed, kills, writes: arguments.writes, ..EMBEDDED })).await,
        Half::Emulated => {
            let writes = (arguments.writes / EMULATED_PART).max(EMULATED_LEAST);
            Box::pin(emulated::run(Order { seed, kills, writes, ..EMULATED })).await
        }
    }
}
