//! A full cache: what an entry takes in memory, and what a hit costs among a million. Memory is the
//! growth of the process since it served its first few misses (its code and its tables belong to no
//! entry), less the entries' own key, stored headers and body.

use fastrand::Rng;
use nearside::model::time::Clock;

use super::hit;
use crate::bench::entrant::Entrant;
use crate::bench::error::BenchError;
use crate::bench::load::BenchRequest;
use crate::bench::pace::{End, LoadPace};
use crate::bench::paths::{self, Paths};
use crate::bench::progress::ProgressLine;
use crate::bench::regions::{self, Delay};
use crate::bench::result::{Goal, PlotData, Row, Scenario};
use crate::bench::session::Bench;
use crate::bench::sidecar::{self, Extra, NEARSIDE};

/// Number of entries at each measurement.
const SIZES: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Connections that fill the cache.
const FILLERS: usize = 64;
/// Entries that are stored before memory is first read.
const FIRST: u64 = 256;
/// Entries between two updates of the progress bar.
const STRETCH: u64 = 20_000;
const VIEW: &str = "1k";
/// Length of a key besides the path: the kind, the route, whose reply it is, the codings, and the
/// lengths of the path and of `Accept`, which the harness does not send ([`nearside::cache::key`]).
const KEY_BYTES: usize = 1 + 8 + 16 + 1 + 2 * 4;

/// Measures memory per entry and CPU per hit, by the number of entries.
pub(super) fn entries(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let mut scenario = Scenario {
        name: "million".to_owned(),
        title: "A million entries of 1 KiB".to_owned(),
        how: "filled through misses on 64 connections, then hits on keys drawn evenly, closed loop; memory is the \
              growth of the process (Pss)"
            .to_owned(),
        ..Scenario::default()
    };
    let regions = bench.host.regions(1, Delay::None)?;
    let mut wish = bench.host.wish(NEARSIDE, &regions)?;
    wish.cache_bytes = 4 << 30;
    // Without announcements, entries would be revalidated every 30 s while the cache fills.
    let extra = Extra { cache: "soft_ttl = \"1h\"".to_owned(), ..Extra::default() };
    let subject = sidecar::start(bench.host.product()?, &wish, &extra)?.subject;
    let ask = BenchRequest::new(Paths::Fixed(paths::path(0, VIEW)), regions::body_bytes(VIEW) as u64);
    let mut entrant = Entrant::new(subject, FILLERS, ask)?;
    let bar = bench.progress.scenario(&scenario.name, SIZES.len());
    let mut failures = fill(&mut entrant, 0, FIRST, &bar)?;
    let before = entrant.memory();
    let (mut memory, mut over, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut filled, mut filling_s) = (FIRST, 0.0);
    for size in SIZES {
        bar.doing(&format!("{size} entries"));
        let began = Clock::System.now();
        failures += fill(&mut entrant, filled, size, &bar)?;
        filling_s += (Clock::System.now() - began).as_secs_f64();
        if failures > 0 {
            scenario.notes.push(format!("{failures} requests failed while it was filled to {size}"));
            failures = 0;
        }
        filled = size;
        let (keys, rng) = (size, Rng::with_seed(bench.settings.seed));
        entrant.ask_for(Paths::Even { keys, view: VIEW, rng });
        entrant.warm(LoadPace::Closed, End::After(bench.settings.warm_up))?;
        let grown = entrant.memory().saturating_sub(before) as f64;
        let stored = (paths::path(size / 2, VIEW).len() + KEY_BYTES + regions::stored_bytes(VIEW)) as f64;
        let each = grown / (size - FIRST) as f64;
        memory.push((size as f64, each));
        over.push((size as f64, each - stored));
        // The first and the last size are compared; those between only show how the cost grows.
        let rounds =
            if SIZES.first() == Some(&size) || SIZES.last() == Some(&size) { bench.settings.rounds } else { 1 };
        for _ in 0..rounds {
            entrant.measure(LoadPace::Closed, End::After(bench.settings.round))?;
        }
        let row = entrant.take_row(format!("{NEARSIDE}, {size} entries"));
        costs.push((size as f64, hit::cpu(&row)));
        scenario.rows.push(row);
        bar.done_one();
    }
    scenario
        .notes
        .push(format!("it was filled in {filling_s:.0} s, {:.0} misses a second", filled as f64 / filling_s));
    finish(&mut scenario, memory, over, costs);
    Ok(scenario)
}

/// Asks for the keys from `filled` up to `size`, shows the progress, and returns how many requests
/// failed.
fn fill(entrant: &mut Entrant, filled: u64, size: u64, bar: &ProgressLine) -> Result<u64, BenchError> {
    entrant.ask_for(Paths::Each { next: filled, view: VIEW });
    let (mut at, mut failures) = (filled, 0);
    while at < size {
        bar.doing(&format!("{at} of {size} entries"));
        let some = (size - at).min(STRETCH);
        failures += entrant.warm(LoadPace::Closed, End::Requests(some))?.failures;
        at += some;
    }
    Ok(failures)
}

type Points = Vec<(f64, f64)>;

fn finish(scenario: &mut Scenario, memory: Points, over: Points, costs: Points) {
    if let (Some(first), Some(last), Some(over)) = (costs.first(), costs.last(), over.last()) {
        let ratio = last.1 / first.1.max(1e-9);
        scenario.goals.push(Goal::at_most(
            "memory per entry beyond key, headers and body <= 400 bytes",
            over.1,
            400.0,
        ));
        scenario.goals.push(Goal::at_most("CPU per hit at a million <= 1.3 x that at a thousand", ratio, 1.3));
    }
    let series = vec![("in all".to_owned(), memory), ("beyond key, headers and body".to_owned(), over)];
    scenario.plots.push(plot("Memory per entry", "bytes", series));
    scenario.plots.push(plot("CPU per hit", "microseconds", vec![(NEARSIDE.to_owned(), costs)]));
    scenario.rows.retain(|row: &Row| !row.rounds.is_empty());
}

fn plot(title: &str, y: &str, series: Vec<(String, Points)>) -> PlotData {
    PlotData { title: title.to_owned(), x: "entries".to_owned(), y: y.to_owned(), x_is_log: true, series }
}
