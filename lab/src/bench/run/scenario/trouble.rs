//! The scenarios in which something goes wrong: a region dies, or a thousand readers want one cold
//! key. The load does not wait for the trouble, which comes while requests are in flight.

use std::time::Duration;

use fastrand::Rng;

use super::hit;
use super::ratios::ratio;
use crate::bench::entrant::Entrant;
use crate::bench::error::BenchError;
use crate::bench::host::BenchRegions;
use crate::bench::load::BenchRequest;
use crate::bench::pace::{End, LoadPace};
use crate::bench::paths::{self, Paths, Zipf};
use crate::bench::regions::{self, Delay};
use crate::bench::result::{Goal, Scenario};
use crate::bench::session::Bench;
use crate::bench::sidecar::{self, Extra, NEARSIDE};
use crate::bench::subject::Subject;

const REGIONS: usize = 3;
/// Requests in a whole run with a dying region, unless rounds are short.
const REQUESTS: u64 = 1_000_000;
const KEYS: usize = 10_000;
const READERS: usize = 1000;
const QUIET: &str = "nearside, quiet";

/// One of three regions dies in the middle of an open loop; quiet runs and such runs take turns.
pub(super) fn dying(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let regions = bench.host.regions(REGIONS, Delay::None)?;
    let mut quiet = filled(bench, &regions, QUIET)?;
    let fastest = quiet.warm(LoadPace::Closed, End::After(bench.settings.round))?;
    let per_second = (fastest.answered as f64 / fastest.took.as_secs_f64() / 2.0).max(1.0);
    let asked = per_second * bench.settings.round.as_secs_f64() * bench.settings.rounds as f64;
    let whole = bench.settings.round >= Duration::from_secs(1);
    let requests = if whole { REQUESTS } else { (asked as u64).clamp(1, REQUESTS) };
    let mut scenario = Scenario {
        name: "dying".to_owned(),
        title: "A region dies in the middle".to_owned(),
        how: format!(
            "{requests} requests, open loop at {per_second:.0}/s (half of what the closed loop reached), 10,000 keys \
             drawn by Zipf's law, three regions; every second run loses one after half of its time"
        ),
        ..Scenario::default()
    };
    let bar = bench.progress.scenario(&scenario.name, bench.settings.rounds);
    let pace = LoadPace::Open { per_second };
    let half_ms = requests as f64 / per_second * 500.0;
    let mut dying = filled(bench, &regions, NEARSIDE)?;
    let mut first_failure = None;
    for round in 1..=bench.settings.rounds {
        bar.doing(&format!("round {round}, quiet"));
        quiet.measure(pace, End::Requests(requests))?;
        bar.doing(&format!("round {round}, one region dies"));
        regions.order(0, &format!("die/{half_ms:.0}"))?;
        let counted = dying.measure(pace, End::Requests(requests))?;
        regions.order(0, "live")?;
        first_failure = first_failure.or(counted.first_failure);
        bar.done_one();
    }
    scenario.rows.extend([quiet.into_row(), dying.into_row()]);
    scenario.notes.extend(first_failure.map(|why| format!("the first failure: {why}")));
    if whole {
        scenario.goals.push(Goal::at_least("requests in one run >= 1,000,000", requests as f64, REQUESTS as f64));
    } else {
        scenario.notes.push("rounds below a second: fewer requests than the million that is promised".to_owned());
    }
    let failures: u64 = scenario.rows.iter().flat_map(|row| &row.rounds).map(|round| round.failures).sum();
    scenario.goals.push(Goal::at_most("no failures", failures as f64, 0.0));
    let goal = ratio(&scenario, "p99.9", QUIET, 2.0, |row| row.median(|round| round.latency.p999_us));
    scenario.goals.extend(goal);
    Ok(scenario)
}

fn filled(bench: &Bench<'_>, regions: &BenchRegions, name: &str) -> Result<Entrant, BenchError> {
    let wish = bench.host.wish(NEARSIDE, regions)?;
    let started = sidecar::start(bench.host.product()?, &wish, &Extra::default())?;
    let subject = Subject { name: name.to_owned(), ..started.subject };
    let ask = BenchRequest::new(Paths::Each { next: 0, view: "1k" }, regions::body_bytes("1k") as u64);
    let mut entrant = Entrant::new(subject, hit::CONNECTIONS, ask)?;
    entrant.warm(LoadPace::Closed, End::Requests(KEYS as u64))?;
    let (zipf, rng) = (Zipf::new(KEYS), Rng::with_seed(bench.settings.seed));
    entrant.ask_for(Paths::Drawn { zipf, view: "1k", rng });
    Ok(entrant)
}

/// A thousand readers ask for one cold key at once.
pub(super) fn stampede(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let mut scenario = Scenario {
        name: "stampede".to_owned(),
        title: "A thousand readers of one cold key".to_owned(),
        how: "1,000 connections ask for the same key, which nobody has asked for before; three regions that answer \
              after 20, 40 and 60 ms; a new key each round"
            .to_owned(),
        ..Scenario::default()
    };
    let regions = bench.host.regions(REGIONS, Delay::Fixed(Duration::from_millis(20)))?;
    let wish = bench.host.wish(NEARSIDE, &regions)?;
    let subject = sidecar::start(bench.host.product()?, &wish, &Extra::default())?.subject;
    let ask = BenchRequest::new(Paths::Fixed(paths::path(0, "1k")), regions::body_bytes("1k") as u64);
    let mut entrant = Entrant::new(subject, READERS, ask)?;
    let bar = bench.progress.scenario(&scenario.name, bench.settings.rounds);
    let before = regions.asked()?;
    for round in 1..=bench.settings.rounds {
        bar.doing(&format!("round {round}"));
        entrant.ask_for(Paths::Fixed(paths::path(round as u64, "1k")));
        entrant.measure(LoadPace::Closed, End::Requests(READERS as u64))?;
        bar.done_one();
    }
    let attempts =
        regions.asked()?.iter().zip(before).map(|(after, before)| after - before).max().unwrap_or_default();
    let failures = entrant.warm(LoadPace::Closed, End::Requests(1))?.failures;
    let row = entrant.into_row();
    let failures = failures + row.rounds.iter().map(|round| round.failures).sum::<u64>();
    let per_key = attempts as f64 / bench.settings.rounds as f64;
    scenario.goals.push(Goal::at_most("one request to each region per key", per_key, 1.0));
    scenario.goals.push(Goal::at_most("no failures", failures as f64, 0.0));
    scenario.rows.push(row);
    Ok(scenario)
}
