//! Owns the scenarios in which every request is a miss: what the race costs, and what it saves.
//!
//! Before it: [`super::super::run`]. After it: rows of nearside beside direct calls and beside what was worked out.
//! Invariant: all rows of a round ask for the same keys, so the exact minimum over the regions is that of the very
//! requests that were measured.

use std::time::Duration;

use crate::bench::ground::Regions;
use crate::bench::histogram::Latencies;
use crate::bench::load::{Ask, Counted};
use crate::bench::pace::{End, Pace};
use crate::bench::paths::{self, Paths};
use crate::bench::regions::Delay;
use crate::bench::result::{Goal, Row, Scenario};
use crate::bench::run::{Bench, Entrant, RunError, round};
use crate::bench::sidecar::{self, Extra, NEARSIDE};
use crate::bench::subject::{Address, Proof, Subject};

const REGIONS: usize = 3;
const DIRECT: &str = "the fastest region, directly";
const ONE: &str = "one region, directly";
const MINIMUM: &str = "exact minimum of three";
const FAILOVER: &str = "sequential failover";
/// After how long the sequential client asks the next region.
const FAILOVER_WAIT: Duration = Duration::from_millis(100);
/// The first round's first key: what warmed up is below.
const FIRST_KEY: u64 = 1_000_000;

/// Regions that answer after 5, 10 and 15 ms; what the sidecar adds to the first.
pub fn fastest(bench: &mut Bench<'_>) -> Result<Scenario, RunError> {
    let delay = Delay::Fixed(Duration::from_millis(5));
    let mut scenario = Scenario {
        name: "miss".to_owned(),
        title: "A miss, beside a direct call to the fastest region".to_owned(),
        how:
            "three regions that answer after 5, 10 and 15 ms; plain HTTP/1.1, one connection, closed loop, every key \
              once"
                .to_owned(),
        ..Scenario::default()
    };
    let regions = bench.ground.regions(REGIONS, delay)?;
    let mut entrants = [sidecar(bench, &regions)?, direct(DIRECT, &regions)?];
    let requests = (bench.settings.round.as_secs_f64() * 150.0).ceil() as u64;
    rounds(bench, &mut scenario, &mut entrants, requests, |_, _| ())?;
    scenario.rows.extend(entrants.map(Entrant::into_row));
    let p50 = |name| scenario.row(name).map(|row| row.median(|round| round.latency.p50_us));
    let added = p50(NEARSIDE).zip(p50(DIRECT)).map(|(own, direct)| own - direct);
    scenario.goals.extend(added.map(|added| Goal::at_most("p50 adds <= 150 us to the fastest region", added, 150.0)));
    Ok(scenario)
}

/// Regions whose latencies have heavy tails, drawn from the seed.
pub fn tail(bench: &mut Bench<'_>) -> Result<Scenario, RunError> {
    let delay = Delay::Tail(bench.settings.seed);
    let mut scenario = Scenario {
        name: "miss-tail".to_owned(),
        title: "A miss, with regions whose latencies have heavy tails".to_owned(),
        how:
            "three regions, latencies Pareto (least 2 ms, shape 1.5) by seed, region and key; one connection, closed \
              loop, every key once; the exact minimum and a client that asks the next region after 100 ms are worked \
              out from the same draws, without any cost of the wire"
                .to_owned(),
        ..Scenario::default()
    };
    let regions = bench.ground.regions(REGIONS, delay)?;
    let mut entrants = [sidecar(bench, &regions)?, direct(ONE, &regions)?];
    let requests = (bench.settings.round.as_secs_f64() * 150.0).ceil() as u64;
    let mut computed = [MINIMUM, FAILOVER].map(|name| Row {
        subject: name.to_owned(),
        proof: "worked out".to_owned(),
        ..Row::default()
    });
    rounds(bench, &mut scenario, &mut entrants, requests, |first, requests| {
        for (row, works_out) in computed.iter_mut().zip([minimum as fn(Delay, &str) -> Duration, failover]) {
            let keys = first..first + requests;
            let latencies = keys.map(|key| works_out(delay, &paths::path(key, "1k")));
            row.rounds.push(worked_out(latencies));
        }
    })?;
    scenario.rows.extend(entrants.map(Entrant::into_row));
    scenario.rows.extend(computed);
    scenario
        .goals
        .extend(super::ratio(&scenario, "p99", MINIMUM, 1.1, |row| row.median(|round| round.latency.p99_us)));
    Ok(scenario)
}

fn sidecar(bench: &Bench<'_>, regions: &Regions) -> Result<Entrant, RunError> {
    let wish = bench.ground.wish(NEARSIDE, regions)?;
    let mut subject = sidecar::start(&bench.ground.program, &wish, &Extra::default())?.subject;
    subject.proof = Proof::Header { name: "cache-status".to_owned(), contains: "fwd=uri-miss".to_owned() };
    Entrant::new(subject, 1, ask())
}

fn direct(name: &str, regions: &Regions) -> Result<Entrant, RunError> {
    let subject = Subject {
        name: name.to_owned(),
        version: String::new(),
        settings: "no sidecar".to_owned(),
        proof: Proof::Always,
        address: Address::Tcp(regions.addresses[0]),
        process: None,
    };
    Entrant::new(subject, 1, ask())
}

fn ask() -> Ask {
    Ask::new(Paths::Each { next: 0, view: "1k" }, 1 << 10)
}

/// Every entrant asks for the same keys in a round; `then` gets the first key and how many.
fn rounds(
    bench: &Bench<'_>,
    scenario: &mut Scenario,
    entrants: &mut [Entrant],
    requests: u64,
    mut then: impl FnMut(u64, u64),
) -> Result<(), RunError> {
    let bar = bench.progress.scenario(&scenario.name, bench.settings.rounds * entrants.len());
    for number in 0..bench.settings.rounds as u64 {
        let first = FIRST_KEY + number * requests;
        for entrant in entrants.iter_mut() {
            bar.doing(&format!("round {}", number + 1));
            entrant.ask_for(Paths::Each { next: first, view: "1k" });
            entrant.measure(Pace::Closed, End::Requests(requests))?;
            bar.done_one();
        }
        then(first, requests);
    }
    Ok(())
}

fn minimum(delay: Delay, path: &str) -> Duration {
    (0..REGIONS).map(|region| delay.of(region, path)).min().unwrap_or_default()
}

/// Asks the first region; the next when it has not answered in time; the last is waited for.
fn failover(delay: Delay, path: &str) -> Duration {
    let mut waited = Duration::ZERO;
    for region in 0..REGIONS {
        let takes = delay.of(region, path);
        if takes <= FAILOVER_WAIT || region == REGIONS - 1 {
            return waited + takes;
        }
        waited += FAILOVER_WAIT;
    }
    waited
}

fn worked_out(each: impl Iterator<Item = Duration>) -> crate::bench::result::Round {
    let mut latencies = Latencies::default();
    let mut took = Duration::ZERO;
    for latency in each {
        latencies.record(latency);
        took += latency;
    }
    let counted = Counted { took, answered: latencies.len(), latencies, ..Counted::default() };
    round(&counted, None, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_worked_out_is_never_faster_than_the_minimum() {
        let delay = Delay::Tail(3);
        for key in 0..2000 {
            let path = paths::path(key, "1k");
            let least = minimum(delay, &path);
            assert!(failover(delay, &path) >= least && delay.of(0, &path) >= least);
        }
        let slow = (0..100_000).map(|key| paths::path(key, "1k")).find(|path| delay.of(0, path) > FAILOVER_WAIT);
        let path = slow.unwrap();
        assert!(failover(delay, &path) > FAILOVER_WAIT);
    }
}
