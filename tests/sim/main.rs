//! The seeded simulation of the freshness protocol: the real `freshness`, `serve`, `fill` and `race` over regions and
//! topics in memory, in simulated time, under every fault of FRESHNESS.md, with a checker that knows the truth.
//!
//! Read in this order: [`faults`], [`truth`], [`plan`] (what a seed stands for), [`world`] and [`topic`] (what happens),
//! [`subject`] and [`designs`] (what is tested), [`run`], [`check`] (what must hold).

mod check;
mod designs;
mod faults;
mod figure;
mod plan;
mod run;
mod subject;
mod topic;
mod truth;
mod world;

use std::time::Instant;

use check::Tallies;
use designs::Design;
use plan::Wishes;
use world::World;

fn simulate(seed: u64, wishes: &Wishes, design: Design, story: bool) -> run::Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = World::new(plan::draw(seed, wishes), story);
        run::run(world, design).await
    })
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| {
        let place = args.iter().position(|arg| arg == name)?;
        args.get(place + 1)?.parse::<u64>().ok()
    };
    let wishes = Wishes::default();
    if let Some(seed) = number("--seed") {
        let outcome = simulate(seed, &wishes, Design::Nearside, true);
        let again = simulate(seed, &wishes, Design::Nearside, false);
        if args.iter().any(|arg| arg == "--twice") {
            let second = simulate(seed, &wishes, Design::Nearside, true);
            let (a, b) = (outcome.world.noticed(), second.world.noticed());
            for (x, y) in a.story.as_ref().unwrap().iter().zip(b.story.as_ref().unwrap()) {
                if x.text != y.text || x.at != y.at {
                    println!("{:?} {}\n{:?} {}", x.at, x.text, y.at, y.text);
                    return;
                }
            }
            println!("{} {}", a.story.as_ref().unwrap().len(), b.story.as_ref().unwrap().len());
        }
        println!("trace {:x} {:x} {:?}", outcome.trace, again.trace, outcome.checker.tallies);
        let plan = &outcome.world.plan;
        println!(
            "{:?} {:?} announces_versions {} topics {} strict {} ttl {:?} {:#?}",
            plan.style, plan.proof, plan.announces_versions, plan.topics, plan.strict, plan.ttl, plan.regions
        );
        for window in &plan.windows {
            println!("{window:?}");
        }
        if let Some(violation) = &outcome.checker.violation {
            let noticed = outcome.world.noticed();
            for line in noticed.story.as_ref().unwrap() {
                if args.iter().any(|arg| arg == "--all")
                    || violation.key.is_none_or(|key| line.keys.is_empty() || line.keys.contains(&key))
                        && line.at + std::time::Duration::from_secs(number("--back").unwrap_or(60)) > violation.at
                {
                    println!("{:9.3} {}", line.at.as_secs_f64(), line.text);
                }
            }
            println!("{violation}");
        }
        return;
    }
    if args.iter().any(|arg| arg == "--designs") {
        let tallies = |seed, wishes: &Wishes, design| simulate(seed, wishes, design, false).checker.tallies;
        return figure::compare(number("--seeds").unwrap_or(300), tallies);
    }
    let (seeds, from) = (number("--seeds").unwrap_or(100), number("--from").unwrap_or(0));
    let started = Instant::now();
    let next = std::sync::atomic::AtomicU64::new(from);
    let total =
        std::sync::Mutex::new((Tallies::default(), 0, std::collections::BTreeMap::<faults::Fault, u64>::new()));
    std::thread::scope(|scope| {
        for _ in 0..number("--threads").unwrap_or(2) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if seed >= from + seeds {
                        return;
                    }
                    let outcome = simulate(seed, &wishes, Design::Nearside, false);
                    let mut total = total.lock().unwrap();
                    total.0.add(&outcome.checker.tallies);
                    for fault in &outcome.world.noticed().fired {
                        *total.2.entry(*fault).or_default() += 1;
                    }
                    if let Some(violation) = outcome.checker.violation {
                        total.1 += 1;
                        if total.1 < 30 {
                            println!("seed {seed}: {violation}");
                        }
                    }
                }
            });
        }
    });
    let total = total.into_inner().unwrap();
    println!("{seeds} seeds, {} violated, {:?}, {:?}", total.1, started.elapsed(), total.0);
    for fault in faults::Fault::ALL {
        println!("{:5} {fault}", total.2.get(fault).copied().unwrap_or(0));
    }
}
