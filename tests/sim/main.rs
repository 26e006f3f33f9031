//! The seeded simulation of the freshness protocol: the real `protocol`, lookup, fill and race
//! over regions and topics in memory, in simulated time, under every fault of the protocol
//! page, with a checker that knows the truth.
//!
//! Read in this order: [`faults`], [`truth`], [`plan`] (what a seed stands for), [`world`] and
//! [`topic`] (what happens), [`subject`] and [`designs`] (what is tested), [`run`], [`check`] (what
//! must hold), [`campaign`] (many seeds), [`rules`] (the test of the tester), [`replay`] (the story
//! of one seed).
//!
//! `sim` runs 10,000 seeds and the rules; `sim --help` says what else there is.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a program for a terminal, that says how long it takes; what it simulates has a clock of its own"
)]

mod answer;
mod campaign;
mod check;
mod content;
mod designs;
mod faults;
mod figure;
mod grants;
mod manner;
mod plan;
mod property;
mod replay;
mod rules;
mod run;
mod subject;
mod tallies;
mod topic;
mod truth;
mod world;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

use campaign::{Campaign, Totals};
use designs::Design;
use faults::Fault;
use plan::Wishes;
use world::World;

/// A quarter of a simulated seed is allocating.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Simulates the freshness protocol under faults, and checks what readers see.
#[derive(Parser)]
struct Args {
    /// Number of seeds.
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Threads; all cores unless given.
    #[arg(long)]
    threads: Option<usize>,
    /// File to write the progress to, and to go on from.
    #[arg(long)]
    resume: Option<std::path::PathBuf>,
    /// Tell the story of one seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Length of the story, in seconds before the end.
    #[arg(long, default_value_t = 60)]
    back: u64,
    /// Story of all records; from the beginning, when nothing failed.
    #[arg(long)]
    all: bool,
    /// Only the rules, each switched off, on so many seeds.
    #[arg(long)]
    rules: Option<u64>,
    /// Only this rule.
    #[arg(long)]
    rule: Option<String>,
    /// Only the three designs on the same seeds: the table and the picture of docs/freshness.md.
    #[arg(long)]
    designs: bool,
    /// Only with exactly these faults, by their names in `faults.rs`.
    #[arg(long)]
    fault: Vec<String>,
    /// Only the simulation of grants (R22).
    #[arg(long)]
    grants: bool,
    /// Only the seeds, without the rules.
    #[arg(long)]
    no_rules: bool,
}

/// Seeds of the simulation of grants that run beside those of records.
const GRANTS_SEEDS: u64 = 10_000;

/// Seeds in which one such thing is all that is wrong.
const NAMED_SEEDS: u64 = 40;

/// Seeds on which a rule that is switched off must be caught.
const RULE_SEEDS: u64 = 1_000;

/// One run of `seed`, on this thread.
fn simulate(seed: u64, wishes: &Wishes, design: Design, story: bool) -> run::Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without I/O needs nothing").block_on(async {
        let world = World::new(plan::draw(seed, wishes), story);
        run::run(world, design).await
    })
}

fn main() -> ExitCode {
    let args = Args::parse();
    let wishes = wishes(&args);
    if let Some(seed) = args.seed.filter(|_| args.grants) {
        return verdict(grants::story(seed));
    }
    if let Some(seed) = args.seed {
        let extent = replay::Extent { back: Duration::from_secs(args.back), all: args.all };
        return verdict(replay::replay(seed, &wishes, &extent));
    }
    if args.designs {
        figure::compare(args.seeds, |seed, wishes, design| simulate(seed, wishes, design, false).checker.tallies);
        return ExitCode::SUCCESS;
    }
    let mut well = true;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if args.grants {
        well &= grants::seeds(args.from, args.seeds, args.threads.unwrap_or(cores));
        return verdict(well & (args.no_rules || grants::rule()));
    }
    if args.rules.is_none() && args.rule.is_none() {
        well &= seeds(&args, &wishes);
        well &= !args.fault.is_empty() || grants::seeds(args.from, args.seeds.min(GRANTS_SEEDS), cores);
    }
    if !args.no_rules && args.fault.is_empty() {
        well &= named();
        well &= rules(&args);
        well &= args.rule.is_some() || grants::rule();
    }
    verdict(well)
}

fn verdict(well: bool) -> ExitCode {
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Any faults, or only those that are asked for.
fn wishes(args: &Args) -> Wishes {
    let mut wishes = Wishes::default();
    for name in &args.fault {
        let named = Fault::ALL.iter().copied().find(|fault| format!("{fault:?}") == *name);
        let Some(fault) = named else {
            eprintln!("there is no fault {name}");
            continue;
        };
        plan::suit(fault, &mut wishes);
        wishes.faults.get_or_insert_default().push(fault);
    }
    wishes
}

/// The full mix of faults; false when a property did not hold, or a fault hardly ever fired.
fn seeds(args: &Args, wishes: &Wishes) -> bool {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let campaign = Campaign {
        from: args.from,
        seeds: args.seeds,
        threads: args.threads.unwrap_or(cores),
        wishes: wishes.clone(),
        design: Design::Nearside,
        resume: args.resume.clone(),
    };
    println!("sim: {} seeds from {}", args.seeds, args.from);
    let started = Instant::now();
    let totals = campaign.run();
    report(&totals, started.elapsed());
    let rare = rare(&totals);
    for fault in &rare {
        println!("RARE: {fault} fired in fewer than one seed of twenty");
    }
    if let Some(seed) = totals.violations.keys().next() {
        println!();
        let extent = replay::Extent { back: Duration::from_secs(args.back), all: false };
        replay::replay(*seed, wishes, &extent);
    }
    let (quiet, labelled) = totals.tallies.quiet;
    let labels = labelled * 20 <= quiet;
    if !labels {
        println!("VIOLATED  more than 5 % of the answers outside fault windows are labelled");
    }
    let drawn = totals.seeds >= 1_000 && wishes.faults.is_none();
    labels && totals.violations.is_empty() && (rare.is_empty() || !drawn)
}

/// Faults that took effect in fewer than one seed of twenty.
fn rare(totals: &Totals) -> Vec<Fault> {
    let fired = Fault::ALL.iter().map(|fault| (*fault, totals.fired.get(fault).copied().unwrap_or(0)));
    fired.filter(|(_, seeds)| seeds * 20 < totals.seeds).map(|(fault, _)| fault).collect()
}

fn report(totals: &Totals, took: Duration) {
    let tallies = &totals.tallies;
    println!("{:>8} seeds in {:.0} s, {} violated", totals.seeds, took.as_secs_f64(), totals.violations.len());
    println!(
        "{:>8} reads, {:.1} % hits, {} requests to regions ({:.2} a read), {} failed while no region was well",
        tallies.reads,
        percent(tallies.hits, tallies.reads),
        tallies.attempts,
        tallies.attempts as f64 / tallies.reads.max(1) as f64,
        tallies.failed,
    );
    let (protobuf, fields) = tallies.shaped;
    let (alone, together, waited) = tallies.parts;
    println!("{protobuf:>8} reads of Protobuf, {fields} of some fields");
    println!("{alone:>8} parts of batches for one key, {together} for several, of which {waited} waited for another");
    println!(
        "{:>8} labelled; outside fault windows {} of {} ({:.2} %), and {:.1} % of hits there state no bound",
        tallies.labelled,
        tallies.quiet.1,
        tallies.quiet.0,
        percent(tallies.quiet.1, tallies.quiet.0),
        percent(tallies.vouched.1, tallies.vouched.0),
    );
    println!(
        "{:>8} bounds stated, {:.1} s on average",
        tallies.bounds.1,
        tallies.bounds.0 as f64 / tallies.bounds.1.max(1) as f64
    );
    println!("   fired in seeds");
    for fault in Fault::ALL {
        println!("{:>8}  {fault} ({})", totals.fired.get(fault).copied().unwrap_or(0), fault.rules());
    }
    for (seed, violation) in totals.violations.iter().take(20) {
        println!("VIOLATED  seed {seed}: {violation}");
    }
}

fn percent(part: u64, of: u64) -> f64 {
    100.0 * part as f64 / of.max(1) as f64
}

/// Runs what no rule mends alone: it must be named.
fn named() -> bool {
    [Fault::Elsewhere, Fault::SameVersion, Fault::LetterCase].into_iter().all(|fault| {
        let mut wishes =
            Wishes { faults: Some(vec![fault]), audit: Some(Duration::from_secs(60)), ..Wishes::default() };
        plan::suit(fault, &mut wishes);
        println!("sim: {fault} alone, {NAMED_SEEDS} seeds");
        let (mut fired, mut violated) = (0, false);
        for seed in 0..NAMED_SEEDS {
            let outcome = simulate(seed, &wishes, Design::Nearside, false);
            fired += u64::from(outcome.world.noticed().fired.contains(&fault));
            if let Some(violation) = outcome.checker.violation {
                println!("VIOLATED  seed {seed}: {violation}");
                violated = true;
            }
        }
        !violated && fired > NAMED_SEEDS / 2
    })
}

/// Each rule switched off must be caught.
fn rules(args: &Args) -> bool {
    let seeds = args.rules.unwrap_or(RULE_SEEDS);
    println!("sim: each rule switched off, up to {seeds} seeds of its profile");
    let caught = rules::catch_all(seeds, args.rule.as_deref());
    println!("{:<18} {:<14} {:>6}  fault", "rule", "property", "seed");
    for rule in &caught {
        let seed = rule.seed.map_or("MISSED".to_owned(), |seed| seed.to_string());
        let faults: Vec<&str> = rule.faults.iter().map(|fault| fault.word()).collect();
        println!(
            "{:<18} {:<14} {seed:>6}  {}",
            format!("{:?}", rule.rule),
            format!("{:?}", rule.property),
            faults.join(", ")
        );
        println!("      {}", rule.text);
    }
    caught.iter().all(|rule| rule.seed.is_some())
}
