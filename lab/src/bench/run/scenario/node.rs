//! A region's node, beside a sidecar and beside its own table: what its hits cost, and what its
//! store, its single flight and its second reads are worth on a bad day.

use fastrand::Rng;

use super::hit::{self, CONNECTIONS};
use super::ratios::ratio_of;
use crate::bench::announcer::Announcer;
use crate::bench::entrant::{Entrant, round};
use crate::bench::error::BenchError;
use crate::bench::histogram::Latencies;
use crate::bench::load::{BenchRequest, Counted};
use crate::bench::pace::{End, LoadPace};
use crate::bench::paths::{self, Paths};
use crate::bench::regions::{self, Delay};
use crate::bench::result::{Goal, Row, Scenario};
use crate::bench::services::node::{self, FAILS, NODE, TABLE, TableDay, VIEW};
use crate::bench::session::Bench;
use crate::bench::sidecar::{self, Extra, NEARSIDE};

/// Requests a second of `node-miss`, and over how many connections.
const RATE: f64 = 10_000.0;
const CALLERS: usize = 128;
/// Keys that the node has read before, and how often it is asked for another.
const KEYS: u64 = 10_000;
const MISSES: f64 = 0.01;
/// The first key that is asked for once.
const FIRST_NEW: u64 = 1_000_000;
const ALONE: &str = "nearside, a node's misses";

/// A hit of a node, beside a sidecar's.
pub(super) fn hits(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let mut scenario = Scenario {
        name: "node-hit".to_owned(),
        title: "A node's hit of 1 KiB, beside a sidecar's".to_owned(),
        how: format!(
            "HTTP/1.1, {CONNECTIONS} connections kept alive, closed loop, one key; both listen to the same topic over \
             SQS, and every hit must be fresh"
        ),
        ..Scenario::default()
    };
    let announcer = Announcer::start(bench.host, 1)?;
    let regions = bench.host.regions(1, Delay::None)?;
    let extra = Extra { live: Some(announcer.announcing.clone()), ..Extra::default() };
    let wish = bench.host.wish(NEARSIDE, &regions)?;
    let sidecar = sidecar::start(bench.host.product()?, &wish, &extra)?.subject;
    let node = node::start(bench.host, TableDay::Good, &announcer.announcing)?;
    let mut entrants = Vec::new();
    for subject in [sidecar, node] {
        let mut entrant = Entrant::new(subject, CONNECTIONS, ask(Paths::Fixed(paths::path(1, VIEW))))?;
        entrant.prove()?;
        entrants.push(entrant);
    }
    bench.rounds(&mut scenario, entrants, LoadPace::Closed)?;
    scenario.goals.extend(ratio_of(&scenario, NODE, "CPU per request", NEARSIDE, 1.1, hit::cpu));
    Ok(scenario)
}

/// One request in a hundred is a miss on a bad day's table.
pub(super) fn misses(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let mut scenario = Scenario {
        name: "node-miss".to_owned(),
        title: "A node with 1 % misses, on a table's bad day".to_owned(),
        how: format!(
            "HTTP/1.1, {CALLERS} connections, open loop at {RATE:.0}/s, {KEYS} keys drawn evenly that the node has, and \
             one request in a hundred for a key that nobody has asked for; a read of the table takes 2 ms (its timer is \
             precise to one), one in a hundred 10 to 100 ms, one in a thousand fails; beside it the same load straight \
             on such a table"
        ),
        ..Scenario::default()
    };
    let announcer = Announcer::start(bench.host, 1)?;
    let node = node::start(bench.host, TableDay::Bad, &announcer.announcing)?;
    let mut node = Entrant::new(node, CALLERS, ask(Paths::Each { next: 0, view: VIEW }))?;
    node.warm(LoadPace::Closed, End::Requests(KEYS))?;
    let mut table = Entrant::new(node::start_table(bench.host, TableDay::Bad)?, CALLERS, ask(drawn(0)))?;
    node.ask_for(drawn(bench.settings.seed));
    table.ask_for(drawn(bench.settings.seed));
    let mut alone = Row { subject: ALONE.to_owned(), proof: "no cache-status: ; hit".to_owned(), ..Row::default() };
    let (mut all, pace) = (Latencies::default(), LoadPace::Open { per_second: RATE });
    let bar = bench.progress.scenario(&scenario.name, 2 * bench.settings.rounds);
    for number in 1..=bench.settings.rounds {
        for entrant in [&mut node, &mut table] {
            bar.doing(&format!("round {number}"));
            entrant.warm(pace, End::After(bench.settings.warm_up))?;
            let counted = entrant.measure(pace, End::After(bench.settings.round))?;
            // The table proves nothing, so all of its replies are proved.
            if !counted.unproven.is_empty() {
                all.add(&counted.unproven);
                alone.rounds.push(round(&misses_of(counted), None, None));
            }
            bar.done_one();
        }
    }
    scenario.rows = vec![node.into_row(), alone, table.into_row()];
    finish(&mut scenario, &all);
    Ok(scenario)
}

fn ask(paths: Paths) -> BenchRequest {
    BenchRequest::new(paths, regions::body_bytes(VIEW) as u64)
}

fn drawn(seed: u64) -> Paths {
    Paths::Mixed { keys: KEYS, new: MISSES, next: FIRST_NEW, view: VIEW, rng: Rng::with_seed(seed) }
}

/// Counts of replies that were no hits.
fn misses_of(counted: Counted) -> Counted {
    Counted { answered: counted.unproven.len(), failures: 0, latencies: counted.unproven.clone(), ..counted }
}

fn finish(scenario: &mut Scenario, misses: &Latencies) {
    let [node, table] = [NODE, TABLE].map(|name| {
        let row = scenario.row(name);
        row.map(|row| row.median(|round| round.latency.p99_us) / 1e3).unwrap_or_default()
    });
    let [of_node, of_table] = [NODE, TABLE].map(|name| {
        let rounds = scenario.row(name).map_or(&[][..], |row| &row.rounds);
        let (failed, good) =
            rounds.iter().fold((0, 0), |(failed, good), round| (failed + round.failures, good + round.requests));
        failed as f64 * 1e6 / (failed + good).max(1) as f64
    });
    let text = format!(
        "of a million requests {of_node:.0} failed; straight on the table {of_table:.0}, where {:.0} of its reads fail; \
         p99 {node:.1} ms, and straight on the table {table:.1} ms; {} misses in all rounds, p50 {:.1} ms, p99 {:.1} ms",
        FAILS * 1e6,
        misses.len(),
        misses.at(50.0) / 1e3,
        misses.at(99.0) / 1e3,
    );
    scenario.notes.push(text);
    scenario.goals.push(Goal::at_most("p99 with 1 % misses <= 6 ms", node, 6.0));
    scenario.goals.push(Goal::at_most("p99 of the misses alone <= 6 ms", misses.at(99.0) / 1e3, 6.0));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bench::result::Round;

    #[test]
    fn only_non_hits_count_as_misses() {
        let mut counted = Counted { answered: 10, failures: 2, ..Counted::default() };
        counted.unproven.record(Duration::from_millis(3));
        let misses = misses_of(counted);
        assert_eq!((misses.answered, misses.failures, misses.latencies.len()), (1, 0, 1));
    }

    #[test]
    fn failures_per_million_misses_judged_separately() {
        let rows = [(NODE, 1, 2_500.0), (TABLE, 100, 10_100.0)].map(|(name, failures, p99_us)| {
            let latency = crate::bench::result::LatencyFigures { p99_us, ..Default::default() };
            let round = Round { requests: 100_000 - failures, failures, latency, ..Round::default() };
            Row { subject: name.to_owned(), rounds: vec![round], ..Row::default() }
        });
        let mut scenario = Scenario { rows: rows.to_vec(), ..Scenario::default() };
        let mut misses = Latencies::default();
        (0..100).for_each(|_| misses.record(Duration::from_millis(7)));
        finish(&mut scenario, &misses);
        assert_eq!(scenario.goals.iter().map(|goal| goal.met).collect::<Vec<_>>(), [true, false]);
        assert!(scenario.notes[0].starts_with("of a million requests 10 failed; straight on the table 1000,"));
    }
}
