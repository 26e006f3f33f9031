//! The scenarios in which every request is a miss: what the race costs, and what it saves. Nearside
//! is compared with direct calls and with calculated rows. All rows of a round ask for the same
//! keys, so the exact minimum over the regions is the minimum of the very requests that were
//! measured.

use std::time::Duration;

use super::ratios::ratio;
use crate::bench::client::Speaks;
use crate::bench::entrant::{Entrant, round};
use crate::bench::error::BenchError;
use crate::bench::histogram::Latencies;
use crate::bench::host::BenchRegions;
use crate::bench::load::{BenchRequest, Counted};
use crate::bench::pace::{End, LoadPace};
use crate::bench::paths::{self, Paths};
use crate::bench::regions::Delay;
use crate::bench::result::{Goal, Row, Scenario};
use crate::bench::session::Bench;
use crate::bench::sidecar::{self, Extra, NEARSIDE};
use crate::bench::subject::{Address, Proof, Subject};

const REGIONS: usize = 3;
const DIRECT: &str = "the fastest region, directly";
const ONE: &str = "one region, directly";
const MINIMUM: &str = "exact minimum of three";
/// Waits of a client that asks one region after another. With the latencies of `miss-tail`, one
/// reply in 90 takes 40 ms or more. Most people would set that, because a shorter wait doubles the
/// load on the next region. One reply in eleven takes 10 ms or more; that pays for a client that
/// knows the distribution and may ask so much more often.
const FAILOVERS: [(&str, Duration); 2] = [
    ("sequential failover, 40 ms", Duration::from_millis(40)),
    ("sequential failover, 10 ms", Duration::from_millis(10)),
];
/// The first key of the first round; the warm-up used keys below it.
const FIRST_KEY: u64 = 1_000_000;

/// Regions that answer after 5, 10 and 15 ms; measures what the sidecar adds to the first one.
pub(super) fn fastest(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
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
    let regions = bench.host.regions(REGIONS, delay)?;
    let mut entrants = [sidecar(bench, &regions)?, direct(DIRECT, &regions)?];
    let requests = (bench.settings.round.as_secs_f64() * 150.0).ceil() as u64;
    rounds(bench, &mut scenario, &mut entrants, requests, |_, _| ())?;
    scenario.rows.extend(entrants.map(Entrant::into_row));
    let added = p50(&scenario, NEARSIDE).zip(p50(&scenario, DIRECT)).map(|(own, direct)| own - direct);
    scenario.goals.extend(added.map(|added| Goal::at_most("p50 adds <= 150 us to the fastest region", added, 150.0)));
    Ok(scenario)
}

/// Regions whose latencies have heavy tails, drawn from the seed.
pub(super) fn tail(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let delay = Delay::Tail(bench.settings.seed);
    let mut scenario = Scenario {
        name: "miss-tail".to_owned(),
        title: "A miss, with regions whose latencies have heavy tails".to_owned(),
        how:
            "three regions, latencies Pareto (least 2 ms, shape 1.5) by seed, region and key; one connection, closed \
              loop, every key once; beside it clients that ask the first region, and the next when it has not answered \
              within 40 or 10 ms, on the same draws; the exact minimum is worked out from the draws, without any cost \
              of the wire"
                .to_owned(),
        ..Scenario::default()
    };
    let regions = bench.host.regions(REGIONS, delay)?;
    let mut entrants = vec![sidecar(bench, &regions)?, direct(ONE, &regions)?];
    for (name, wait) in FAILOVERS {
        entrants.push(failover(name, wait, &regions)?);
    }
    let requests = (bench.settings.round.as_secs_f64() * 150.0).ceil() as u64;
    let mut least = Row { subject: MINIMUM.to_owned(), proof: "worked out".to_owned(), ..Row::default() };
    rounds(bench, &mut scenario, &mut entrants, requests, |first, requests| {
        let keys = first..first + requests;
        least.rounds.push(worked_out(keys.map(|key| minimum(delay, &paths::path(key, "1k")))));
    })?;
    scenario.rows.extend(entrants.into_iter().map(Entrant::into_row));
    scenario.rows.push(least);
    let others = [(MINIMUM, 1.1), (FAILOVERS[0].0, 1.0), (FAILOVERS[1].0, 1.0)];
    scenario.goals.extend(
        others
            .iter()
            .filter_map(|(other, limit)| {
                ratio(&scenario, "p99", other, *limit, |row| row.median(|round| round.latency.p99_us))
            })
            .collect::<Vec<_>>(),
    );
    Ok(scenario)
}

/// A client that asks the first region, and the next one if it is late.
fn failover(name: &str, wait: Duration, regions: &BenchRegions) -> Result<Entrant, BenchError> {
    let speaks = Speaks::InOrder { regions: regions.addresses.clone(), wait };
    let settings = format!("no sidecar; the next region when one has not answered within {} ms", wait.as_millis());
    Entrant::over(Subject { settings, ..alone(name, regions) }, &speaks, ask())
}

fn sidecar(bench: &Bench<'_>, regions: &BenchRegions) -> Result<Entrant, BenchError> {
    let wish = bench.host.wish(NEARSIDE, regions)?;
    let mut subject = sidecar::start(bench.host.product()?, &wish, &Extra::default())?.subject;
    subject.proof = Proof::Header { name: "cache-status".to_owned(), contains: "fwd=uri-miss".to_owned() };
    Entrant::new(subject, 1, ask())
}

fn direct(name: &str, regions: &BenchRegions) -> Result<Entrant, BenchError> {
    Entrant::new(alone(name, regions), 1, ask())
}

/// A client that asks the regions with nothing in between.
fn alone(name: &str, regions: &BenchRegions) -> Subject {
    Subject {
        name: name.to_owned(),
        version: String::new(),
        settings: "no sidecar".to_owned(),
        proof: Proof::Always,
        address: Address::Tcp(regions.addresses[0]),
        process: None,
    }
}

fn p50(scenario: &Scenario, name: &str) -> Option<f64> {
    scenario.row(name).map(|row| row.median(|round| round.latency.p50_us))
}

fn ask() -> BenchRequest {
    BenchRequest::new(Paths::Each { next: 0, view: "1k" }, 1 << 10)
}

/// Has every entrant ask for the same keys in each round; `then` gets the first key and the number
/// of keys.
fn rounds(
    bench: &Bench<'_>,
    scenario: &mut Scenario,
    entrants: &mut [Entrant],
    requests: u64,
    mut then: impl FnMut(u64, u64),
) -> Result<(), BenchError> {
    let bar = bench.progress.scenario(&scenario.name, bench.settings.rounds * entrants.len());
    for number in 0..bench.settings.rounds as u64 {
        let first = FIRST_KEY + number * requests;
        for entrant in entrants.iter_mut() {
            bar.doing(&format!("round {}", number + 1));
            entrant.ask_for(Paths::Each { next: first, view: "1k" });
            entrant.measure(LoadPace::Closed, End::Requests(requests))?;
            bar.done_one();
        }
        then(first, requests);
    }
    Ok(())
}

fn minimum(delay: Delay, path: &str) -> Duration {
    (0..REGIONS).map(|region| delay.of(region, path)).min().unwrap_or_default()
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
    fn minimum_is_fastest_regions_delay() {
        let delay = Delay::Tail(3);
        for key in 0..2000 {
            let path = paths::path(key, "1k");
            let least = minimum(delay, &path);
            assert!((0..REGIONS).all(|region| delay.of(region, &path) >= least));
            assert!((0..REGIONS).any(|region| delay.of(region, &path) == least));
        }
    }
}
