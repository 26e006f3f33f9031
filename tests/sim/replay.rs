//! Owns the story of one seed: what happened to the record that went wrong, in the shortest run
//! that shows it.
//!
//! Before it: a seed that failed. After it: a page to read. Invariant: the run stops at its first
//! violation, so the story is the shortest prefix that fails; faults without which it fails just
//! the same are left out.

use std::time::Duration;

use super::designs::Design;
use super::faults::Fault;
use super::plan::{Plan, Wishes};
use super::run::Outcome;
use super::simulate;

/// Extent of the story.
pub(crate) struct Extent {
    /// So long.
    pub(crate) back: Duration,
    /// True for all records rather than the one.
    pub(crate) all: bool,
}

/// Runs `seed` twice, tells what happened, and returns whether all was well.
pub(crate) fn replay(seed: u64, wishes: &Wishes, extent: &Extent) -> bool {
    let outcome = simulate(seed, wishes, Design::Nearside, true);
    let again = simulate(seed, wishes, Design::Nearside, false);
    let same = outcome.trace == again.trace;
    println!("seed {seed}, trace {:016x}{}", outcome.trace, if same { ", twice the same" } else { ", NOT REPEATED" });
    tell_plan(&outcome.world.plan);
    let Some(violation) = &outcome.checker.violation else {
        if extent.all {
            outcome.world.noticed().story.iter().flatten().for_each(|line| println!("{line}"));
        }
        println!("no violation: {:?}", outcome.checker.tallies);
        return same;
    };
    let needed = shrink(seed, wishes, &outcome);
    println!("\nthe last {} s before it failed:", extent.back.as_secs());
    for line in outcome.world.noticed().story.iter().flatten() {
        let of_it = violation.key.is_none_or(|key| line.keys.is_empty() || line.keys.contains(&key));
        if (extent.all || of_it) && line.at + extent.back > violation.at {
            println!("{line}");
        }
    }
    println!("\n{violation}");
    let needed: Vec<&str> = needed.iter().map(|fault| fault.word()).collect();
    println!("it takes {}", if needed.is_empty() { "no fault".to_owned() } else { needed.join(", ") });
    false
}

fn tell_plan(plan: &Plan) {
    println!(
        "{} records, replies {:?}, proof {:?}, {} topics, announcements {} versions, ttl {} s{}",
        plan.truth.keys(),
        plan.style,
        plan.proof,
        plan.topics,
        if plan.announces_versions { "with" } else { "without" },
        plan.ttl.as_secs(),
        if plan.strict { ", strict" } else { "" },
    );
    for (number, region) in plan.regions.iter().enumerate() {
        println!("  region {number}: {region:?}");
    }
    for window in &plan.windows {
        let (from, until) = (window.from.as_secs_f64(), window.until.as_secs_f64());
        println!("  {from:7.1} - {until:7.1} s  {} (region {}, k{})", window.fault, window.region, window.key);
    }
}

/// The faults of a failing seed without which it does not fail the same way. Each is left out in
/// turn.
fn shrink(seed: u64, wishes: &Wishes, failed: &Outcome) -> Vec<Fault> {
    let property = failed.checker.violation.as_ref().map(|violation| violation.property);
    let mut suppressed = Vec::new();
    let mut faults: Vec<Fault> = failed.world.plan.windows.iter().map(|window| window.fault).collect();
    faults.dedup();
    for fault in &faults {
        let mut less = wishes.clone();
        less.without = suppressed.iter().copied().chain([*fault]).collect();
        let outcome = simulate(seed, &less, Design::Nearside, false);
        if outcome.checker.violation.map(|violation| violation.property) == property {
            suppressed.push(*fault);
        }
    }
    faults.into_iter().filter(|fault| !suppressed.contains(fault)).collect()
}
