//! A cold start: the time from exec to `/readyz`, which is the row's latency, and the memory of a
//! process that has served nothing yet. Every round starts a new process.

use std::time::Duration;

use nearside::model::time::Clock;

use crate::bench::entrant::round;
use crate::bench::error::BenchError;
use crate::bench::histogram::Latencies;
use crate::bench::load::Counted;
use crate::bench::regions::Delay;
use crate::bench::result::{Goal, Row, Scenario};
use crate::bench::session::Bench;
use crate::bench::sidecar::{self, Extra, NEARSIDE};
use crate::bench::subject::Wish;

/// Measures exec to ready, and the memory of an idle process.
pub(super) fn start(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let mut scenario = Scenario {
        name: "start".to_owned(),
        title: "Cold start and idle footprint".to_owned(),
        how:
            "a new process each round; latency is from exec to the first 200 of /readyz, memory is what it has then; \
              three regions, no subscriptions"
                .to_owned(),
        ..Scenario::default()
    };
    let regions = bench.host.regions(3, Delay::None)?;
    let mut row = Row { subject: NEARSIDE.to_owned(), proof: "200 of /readyz".to_owned(), ..Row::default() };
    let bar = bench.progress.scenario(&scenario.name, bench.settings.rounds);
    for number in 1..=bench.settings.rounds {
        bar.doing(&format!("start {number}"));
        // Started directly: what makes others end with the harness would count as part of the start.
        let wish = Wish { keeper: None, ..bench.host.wish(NEARSIDE, &regions)? };
        let began = Clock::System.now();
        let subject = sidecar::start(bench.host.product()?, &wish, &Extra::default())?.subject;
        let took = Clock::System.now() - began;
        let (cpu, memory) = subject.process.as_ref().map(|process| (process.cpu(), process.memory())).unzip();
        row.rounds.push(round(&once(took), cpu, memory));
        (row.version, row.settings) = (subject.version, subject.settings);
        bar.done_one();
    }
    let ready_ms = row.median(|round| round.latency.p50_us) / 1e3;
    let idle_mib = row.median(|round| round.rss_bytes.unwrap_or(0) as f64) / f64::from(1 << 20);
    scenario.goals.push(Goal::at_most("exec to /readyz <= 50 ms", ready_ms, 50.0));
    scenario.goals.push(Goal::at_most("idle, without subscriptions <= 12 MiB", idle_mib, 12.0));
    scenario.rows.push(row);
    Ok(scenario)
}

/// One start as a round of one request.
pub(super) fn once(took: Duration) -> Counted {
    let mut latencies = Latencies::default();
    latencies.record(took);
    Counted { took, answered: 1, latencies, ..Counted::default() }
}
