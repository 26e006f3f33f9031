//! `make chaos`: the sidecar, three regions and the AWS emulator as processes, under a seeded
//! script of faults.
//!
//! ```text
//! script (seed) -> run -> processes, proxies, topics      load -> the sidecar -> proxy -> region
//!                   |                                      |                               |
//!                   +------------> history <---------------+----- feed <-- progress -------+
//!                                     |                            (the source of truth)
//!                                   check -> report
//! ```
//!
//! The region processes are this program again. Exit code 1 says that a promise was broken;
//! `tests/chaos/README.md` says how to read the rest.

mod check;
#[path = "../it/support/emulator.rs"]
#[allow(dead_code, clippy::unwrap_used, clippy::panic, reason = "it belongs to the tests in tests/it")]
mod emulator;
mod feed;
mod history;
mod load;
mod processes;
mod proxy;
#[path = "../world/records.rs"]
mod records;
mod region;
mod report;
mod run;
mod script;
mod selfcheck;

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
struct Arguments {
    /// Seed of the script.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Duration of the script; from 5 on every kind of fault comes at least three times.
    #[arg(long, default_value_t = 5)]
    minutes: u64,
    /// After the script: SIGSTOP of the sidecar for 90 s, with changes meanwhile.
    #[arg(long)]
    pause_90s: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(clap::Subcommand)]
enum Part {
    /// A region process; only the driver starts it.
    Region(region::Place),
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the driver speaks to its user")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match &arguments.part {
        Some(_) => tokio::runtime::Builder::new_current_thread().enable_all().build(),
        None => tokio::runtime::Builder::new_multi_thread().enable_all().build(),
    };
    let runtime = runtime.expect("a runtime can be made");
    if let Some(Part::Region(place)) = arguments.part {
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
        let ended = runtime.block_on(region::run(place));
        // Nothing is left to wait for: its driver is gone, or it could not begin.
        eprintln!("the region ends: {ended:?}");
        return ExitCode::from(u8::from(ended.is_err()));
    }
    selfcheck::proves_itself();
    script::proves_itself(arguments.seed, arguments.minutes);
    let order = run::Order { seed: arguments.seed, minutes: arguments.minutes, long_pause: arguments.pause_90s };
    let plan = script::plan(order.seed, order.minutes);
    println!("seed {}: {} faults in {} minutes", order.seed, plan.len(), order.minutes);
    let history = match runtime.block_on(run::run(&order, plan)) {
        Ok(history) => history,
        Err(error) => {
            eprintln!("seed {}: the run itself failed: {error}", order.seed);
            return ExitCode::from(2);
        }
    };
    let judgement = check::judge(&history);
    let (table, kept) = report::table(&history, &judgement, order.seed, order.minutes >= 5);
    print!("{}{}\n{table}", report::slices(&history), report::stories(&history, &judgement));
    ExitCode::from(u8::from(!kept))
}
