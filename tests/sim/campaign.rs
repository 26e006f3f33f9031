//! Owns running many seeds: on all cores, with progress, to be taken up again where it stopped.
//!
//! Before it: [`super::main`]. After it: totals, and the seeds that failed. Invariant: which seeds
//! were run, and what came of each, does not depend on the number of threads.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::designs::Design;
use super::faults::Fault;
use super::plan::Wishes;
use super::property::Violation;
use super::simulate;
use super::tallies::Tallies;

/// Interval of progress reports on a terminal, and elsewhere.
const PROGRESS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Which seeds, and how.
pub(crate) struct Campaign {
    /// The first.
    pub(crate) from: u64,
    /// Number of seeds.
    pub(crate) seeds: u64,
    /// On how many threads.
    pub(crate) threads: usize,
    /// Requirements of each plan.
    pub(crate) wishes: Wishes,
    /// Design under test.
    pub(crate) design: Design,
    /// File of the progress; its seeds are not run again.
    pub(crate) resume: Option<PathBuf>,
}

/// Sums over seeds.
#[derive(Default)]
pub(crate) struct Totals {
    /// Number of seeds that were run.
    pub(crate) seeds: u64,
    /// Counts over all of them.
    pub(crate) tallies: Tallies,
    /// Number of seeds in which each fault took effect.
    pub(crate) fired: BTreeMap<Fault, u64>,
    /// Those that failed.
    pub(crate) violations: BTreeMap<u64, Violation>,
}

impl Totals {
    fn add(&mut self, seed: u64, outcome: super::run::Outcome) {
        self.seeds += 1;
        self.tallies.add(&outcome.checker.tallies);
        for fault in &outcome.world.noticed().fired {
            *self.fired.entry(*fault).or_default() += 1;
        }
        if let Some(violation) = outcome.checker.violation {
            self.violations.insert(seed, violation);
        }
    }
}

impl Campaign {
    /// Runs them all.
    pub(crate) fn run(&self) -> Totals {
        let done = self.resumed();
        let (next, finished) = (AtomicU64::new(self.from + done), AtomicU64::new(done));
        let totals = Mutex::new(Totals::default());
        let started = Instant::now();
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..self.threads).map(|_| scope.spawn(|| self.work(&next, &finished, &totals))).collect();
            let every = if std::io::stderr().is_terminal() { PROGRESS.0 } else { PROGRESS.1 };
            let mut said = Instant::now();
            while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                std::thread::sleep(Duration::from_millis(50));
                if said.elapsed() >= every {
                    said = Instant::now();
                    let failed = totals.lock().expect("no panic while it was held").violations.len();
                    self.progress(finished.load(Ordering::Relaxed), done, failed, started.elapsed());
                }
            }
        });
        self.note(self.seeds);
        totals.into_inner().expect("no panic while it was held")
    }

    /// Simulates one seed after another until none is left.
    fn work(&self, next: &AtomicU64, finished: &AtomicU64, totals: &Mutex<Totals>) {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.from + self.seeds {
                return;
            }
            let outcome = simulate(seed, &self.wishes, self.design, false);
            totals.lock().expect("no panic while it was held").add(seed, outcome);
            finished.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn progress(&self, finished: u64, before: u64, failed: usize, took: Duration) {
        let rate = (finished - before) as f64 / took.as_secs_f64();
        let left = (self.seeds - finished) as f64 / rate.max(0.001);
        let line = format!("{finished} of {} seeds, {rate:.0}/s, {left:.0} s to go, {failed} failed", self.seeds);
        if std::io::stderr().is_terminal() {
            let _ = write!(std::io::stderr(), "\r  {line}\x1b[K");
        } else {
            eprintln!("  {line}");
        }
        // A few are under way: they are run again.
        self.note(finished.saturating_sub(self.threads as u64));
    }

    fn resumed(&self) -> u64 {
        let text = self.resume.as_ref().and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
        let mut words = text.split_whitespace().filter_map(|word| word.parse().ok());
        match (words.next(), words.next()) {
            (Some(from), Some(done)) if from == self.from && done < self.seeds => done,
            _ => 0,
        }
    }

    fn note(&self, done: u64) {
        if let Some(file) = &self.resume {
            // Without it the campaign begins anew, no more.
            let _ = std::fs::write(file, format!("{} {done}\n", self.from));
        }
    }
}
