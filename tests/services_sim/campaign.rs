//! Many seeds, on all cores. What comes of each does not depend on the number of threads.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::check::Violation;
use super::faults::Fault;
use super::plan::Wishes;
use super::run::{Outcome, simulate};

#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) seeds: u64,
    pub(crate) tallies: BTreeMap<&'static str, u64>,
    pub(crate) drawn: BTreeMap<Fault, u64>,
    /// The longest that a seed without the sweeps' faults took to agree.
    pub(crate) slowest: Duration,
    pub(crate) violations: BTreeMap<u64, Violation>,
}

impl Totals {
    fn add(&mut self, seed: u64, outcome: Outcome) {
        self.seeds += 1;
        for (what, count) in outcome.tallies {
            *self.tallies.entry(what).or_default() += count;
        }
        if !outcome.faults.iter().any(|fault| fault.needs_sweep()) {
            self.slowest = self.slowest.max(outcome.agreed_after);
        }
        for fault in outcome.faults {
            *self.drawn.entry(fault).or_default() += 1;
        }
        if let Some(violation) = outcome.violation {
            self.violations.insert(seed, violation);
        }
    }
}

/// Runs seeds on each thread until all are done; with `prepare` on each thread first.
pub(crate) fn run<G>(
    seeds: std::ops::Range<u64>,
    threads: usize,
    wishes: &Wishes,
    prepare: impl Fn() -> G + Sync,
) -> Totals {
    let (next, totals) = (AtomicU64::new(seeds.start), Mutex::new(Totals::default()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let _prepared = prepare();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let outcome = simulate(seed, wishes, false);
                    totals.lock().expect("no panic while it was held").add(seed, outcome);
                }
            });
        }
    });
    totals.into_inner().expect("no panic while it was held")
}
