//! The seeded simulation of the services: catalogue, views and regions, as they run on any engine,
//! over stores in memory, in simulated time, with every fault that the design speaks of, and a
//! checker that knows the truth.
//!
//! Read in this order: [`faults`], [`plan`] (what a seed stands for), [`place`] and [`gate`] (the
//! seams of the world), [`world`] (the processes), [`deliveries`] and [`node`] (who answers),
//! [`writers`], [`readers`], [`trouble`] (what goes wrong), [`check`] (what must hold), [`made`],
//! [`run`], [`campaign`] (many seeds), [`guards`] (the test of the tester).

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program for a terminal, that says how long it takes; what it simulates has a clock of its own"
)]

mod campaign;
mod check;
mod deliveries;
mod faults;
mod gate;
mod guards;
mod made;
mod node;
mod place;
mod plan;
mod readers;
mod run;
mod trouble;
mod world;
mod writers;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

use faults::Fault;
use plan::Wishes;
use run::simulate;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Simulates catalogue, views and regions under faults, and checks what they promise.
#[derive(Parser)]
struct Args {
    /// Number of seeds.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Threads; all cores unless given.
    #[arg(long)]
    threads: Option<usize>,
    /// Tell the story of one seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Only lines of the story that hold this.
    #[arg(long)]
    about: Option<String>,
    /// Only with exactly these faults, by their names in `faults.rs`.
    #[arg(long)]
    fault: Vec<String>,
    /// With this guard off.
    #[arg(long)]
    without: Option<String>,
    /// Seeds on which each guard is switched off; 0 for none.
    #[arg(long, default_value_t = 60)]
    guards: u64,
    /// Only this guard.
    #[arg(long)]
    guard: Option<String>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let faults: Vec<Fault> = args
        .fault
        .iter()
        .filter_map(|name| Fault::ALL.into_iter().find(|fault| fault.to_string() == *name))
        .collect();
    let faults = (!args.fault.is_empty()).then_some(faults);
    let wishes = Wishes { faults, ..Wishes::default() };
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into));
    let is_well = if let Some(seed) = args.seed {
        tell(seed, &wishes, &args)
    } else {
        let is_well = args.guard.is_some() || seeds(&args, threads, &wishes);
        is_well & guards(&args, threads)
    };
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The story of one seed; twice, to see that it is the same.
fn tell(seed: u64, wishes: &Wishes, args: &Args) -> bool {
    use nearside::switch::{Guard, off};
    let without = args.without.as_ref().and_then(|name| Guard::ALL.into_iter().find(|it| format!("{it:?}") == *name));
    let _off = without.map(off);
    let outcome = simulate(seed, wishes, true);
    outcome
        .story
        .iter()
        .filter(|line| args.about.as_ref().is_none_or(|about| line.contains(about)))
        .for_each(|line| println!("{line}"));
    println!("{:#?}\n{:?}\nagreed {:?} after it was calm", outcome.plan, outcome.tallies, outcome.agreed_after);
    let is_same = simulate(seed, wishes, true).story == outcome.story;
    println!("seed {seed}, {}", if is_same { "twice the same" } else { "NOT REPEATED" });
    match &outcome.violation {
        Some(violation) => println!("VIOLATED {}: {} at {:.3}", violation.property, violation.text, violation.at),
        None => println!("no violation"),
    }
    outcome.violation.is_none() && is_same
}

fn seeds(args: &Args, threads: usize, wishes: &Wishes) -> bool {
    let began = Instant::now();
    let totals = campaign::run(args.from..args.from + args.seeds, threads, wishes, || ());
    println!("services_sim: {} seeds in {:.0} s", totals.seeds, began.elapsed().as_secs_f64());
    for (what, count) in &totals.tallies {
        println!("{count:>9}  {what}");
    }
    println!("{:>7} s  at most from calm to agreement without a sweep", totals.slowest.as_secs());
    for (fault, count) in &totals.drawn {
        println!("{count:>9}  seeds with {fault}");
    }
    for (seed, violation) in totals.violations.iter().take(20) {
        println!("VIOLATED  seed {seed}: {}: {} at {:.3}", violation.property, violation.text, violation.at);
    }
    println!("{} violated", totals.violations.len());
    totals.violations.is_empty()
}

fn guards(args: &Args, threads: usize) -> bool {
    if args.guards == 0 {
        return true;
    }
    let began = Instant::now();
    let caught = guards::catch_all(args.guards, threads, args.guard.as_deref());
    println!("services_sim: each guard switched off on {} seeds", args.guards);
    for guard in &caught {
        let first = guard.first.as_ref().map_or("MISSED".to_owned(), |(seed, text)| format!("seed {seed}: {text}"));
        println!("{:<25} {:>4}  {first}", format!("{:?}", guard.guard), guard.count);
    }
    println!("guards took {:.0} s", began.elapsed().as_secs_f64());
    caught.iter().all(|guard| guard.first.is_some())
}
