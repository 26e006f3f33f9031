//! Live subscriptions: how much memory they take, and what arriving announcements add to the cost
//! of hits. There are rows for an idle sidecar, and for one process that serves hits with and
//! without announcements in turn. Announcements that were sent but not applied must not look like a
//! saving, so the goal is missed if fewer than [`APPLIED_SHARE`] of them were applied.

use std::net::SocketAddr;
use std::time::Duration;

use nearside::model::time::Clock;

use super::hit::{self, CONNECTIONS};
use super::start::once;
use crate::bench::announcer::Announcer;
use crate::bench::entrant::{Entrant, round};
use crate::bench::error::BenchError;
use crate::bench::fetch;
use crate::bench::host::BenchRegions;
use crate::bench::load::{BenchRequest, Counted};
use crate::bench::pace::{End, LoadPace};
use crate::bench::paths::{self, Paths};
use crate::bench::regions::{self, Delay};
use crate::bench::result::{Goal, Row, Scenario, median};
use crate::bench::session::Bench;
use crate::bench::sidecar::{self, Extra};
use crate::bench::subject::SubjectError;

/// The number of regions, each with a topic and a subscription.
const REGIONS: usize = 3;
/// Announcements a second, summed over all regions.
const RATE: u32 = 500;
/// The share of the announcements that must have been applied for their cost to count.
const APPLIED_SHARE: f64 = 0.95;
const VIEW: &str = "1k";
const IDLE: &str = "nearside, idle";
const QUIET: &str = "nearside, quiet";
const ANNOUNCED: &str = "nearside, 500/s";

/// Measures idle memory, and hits without and with announcements.
pub(super) fn live(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let mut scenario = Scenario {
        name: "live".to_owned(),
        title: "Live subscriptions, and hits while announcements arrive".to_owned(),
        how: format!(
            "three regions, each with a topic subscribed to over SQS; idle: a new process each round, latency is from \
             exec to all regions live, memory is what it has then; then hits of 1 KiB, {CONNECTIONS} connections, \
             closed loop, one process, in turn with nothing announced and with {RATE} announcements a second of other \
             records, each signed and verified"
        ),
        ..Scenario::default()
    };
    let announcer = Announcer::start(bench.host, REGIONS)?;
    let regions = bench.host.regions(REGIONS, Delay::None)?;
    let extra = Extra { live: Some(announcer.announcing.clone()), ..Extra::default() };
    let idle = idle(bench, &regions, &extra)?;
    let idle_mib = idle.median(|round| round.rss_bytes.unwrap_or(0) as f64) / f64::from(1 << 20);
    scenario.goals.push(Goal::at_most("idle, three live SQS subscriptions <= 24 MiB", idle_mib, 24.0));
    hits(bench, &announcer, &regions, &extra, &mut scenario)?;
    // Last, because the other rows are compared with the first one, which must be that of the quiet
    // hits.
    scenario.rows.push(idle);
    Ok(scenario)
}

/// Starts new processes and waits until they are live, without any requests.
fn idle(bench: &Bench<'_>, regions: &BenchRegions, extra: &Extra) -> Result<Row, BenchError> {
    let mut row = Row { subject: IDLE.to_owned(), proof: "/readyz: all live".to_owned(), ..Row::default() };
    let bar = bench.progress.scenario("live", bench.settings.rounds);
    for number in 1..=bench.settings.rounds {
        bar.doing(&format!("{IDLE}, start {number}"));
        let wish = bench.host.wish(IDLE, regions)?;
        let began = Clock::System.now();
        let subject = sidecar::start(bench.host.product()?, &wish, extra)?.subject;
        let took = Clock::System.now() - began;
        let (cpu, memory) = subject.process.as_ref().map(|process| (process.cpu(), process.memory())).unzip();
        row.rounds.push(round(&once(took), cpu, memory));
        (row.version, row.settings) = (subject.version, subject.settings);
        bar.done_one();
    }
    Ok(row)
}

/// Hits of one process, without and with announcements in turn.
fn hits(
    bench: &Bench<'_>,
    announcer: &Announcer,
    regions: &BenchRegions,
    extra: &Extra,
    scenario: &mut Scenario,
) -> Result<(), BenchError> {
    let wish = bench.host.wish("nearside", regions)?;
    let started = sidecar::start(bench.host.product()?, &wish, extra)?;
    let ask = BenchRequest::new(Paths::Fixed(paths::path(1, VIEW)), regions::body_bytes(VIEW) as u64);
    let mut entrant = Entrant::new(started.subject, CONNECTIONS, ask)?;
    entrant.prove()?;
    let (mut quiet, mut reported) = (Vec::new(), Vec::new());
    let mut came = Came::default();
    let bar = bench.progress.scenario("live", 2 * bench.settings.rounds);
    let warm_up = End::After(bench.settings.warm_up);
    for number in 1..=bench.settings.rounds {
        bar.doing(&format!("{QUIET}, round {number}"));
        announcer.rate(0)?;
        entrant.warm(LoadPace::Closed, warm_up)?;
        entrant.measure(LoadPace::Closed, End::After(bench.settings.round))?;
        quiet.push(entrant.take_row(QUIET.to_owned()));
        bar.done_one();
        bar.doing(&format!("{ANNOUNCED}, round {number}"));
        announcer.sign(signed_ahead(bench.settings.warm_up + bench.settings.round))?;
        announcer.rate(RATE)?;
        // Announcements in flight at the beginning of a round are balanced by those in flight at
        // its end.
        entrant.warm(LoadPace::Closed, warm_up)?;
        let before = seen(announcer, started.admin)?;
        let counted = entrant.measure(LoadPace::Closed, End::After(bench.settings.round))?;
        came.add(&before, &seen(announcer, started.admin)?, &counted);
        reported.push(entrant.take_row(ANNOUNCED.to_owned()));
        bar.done_one();
    }
    announcer.rate(0)?;
    let (quiet, mut reported) = (joined(quiet), joined(reported));
    reported.proof += &format!("; {} of {} announcements applied", came.applied, came.published);
    scenario.goals.extend(goals(&costs(&quiet), &costs(&reported), &came));
    scenario.notes.push(cost(&quiet, &reported, &came));
    scenario.rows.extend([quiet, reported]);
    Ok(())
}

/// CPU time per hit of each round.
fn costs(row: &Row) -> Vec<f64> {
    row.rounds.iter().map(|round| round.cpu_us.unwrap_or(0.0)).collect()
}

/// Number of announcements to sign before a round of this length, so that the announcer only has to
/// send during it; a second more covers what comes before and after.
fn signed_ahead(span: Duration) -> u64 {
    ((span + Duration::from_secs(1)).as_secs_f64() * f64::from(RATE)).ceil() as u64
}

/// The cost of announcements, in words. Sending and queueing them takes some of the harness's core,
/// which slows a closed loop, so that fewer hits share the cost. Therefore it is also given for as
/// many hits as were answered in the quiet rounds.
fn cost(quiet: &Row, reported: &Row, came: &Came) -> String {
    let (quiet_us, more_us) = (hit::cpu(quiet), hit::cpu(reported) - hit::cpu(quiet));
    let more_a_second_us = more_us * reported.rate();
    let applied = came.applied as f64 / came.took_s.max(1e-9);
    format!(
        "{applied:.0} announcements a second were verified and applied, {} were refused; beside the hits each took \
         {:.0} us of CPU, all of them {:.1} % of a core; {:.2} x quiet at as many hits a second",
        came.forged,
        more_a_second_us / applied.max(1e-9),
        more_a_second_us / 1e4,
        1.0 + more_a_second_us / (quiet_us * quiet.rate()).max(1e-9),
    )
}

/// Outcomes of announcements: counters at one moment, or how much they grew.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Came {
    took_s: f64,
    published: u64,
    applied: u64,
    forged: u64,
}

fn seen(announcer: &Announcer, admin: SocketAddr) -> Result<Came, BenchError> {
    let published = announcer.published()?;
    let metrics = fetch::page(admin, "/metrics")
        .map_err(|error| SubjectError::Unable { program: "nearside".into(), why: error.to_string() })?;
    let [applied, forged] = [r#"outcome="applied""#, r#"outcome="forged""#]
        .map(|outcome| fetch::total(&metrics, "nearside_announcements_total", outcome));
    Ok(Came { took_s: 0.0, published, applied, forged })
}

impl Came {
    /// Adds what happened in one round.
    fn add(&mut self, before: &Self, after: &Self, counted: &Counted) {
        self.took_s += counted.took.as_secs_f64();
        self.published += after.published.saturating_sub(before.published);
        self.applied += after.applied.saturating_sub(before.applied);
        self.forged += after.forged.saturating_sub(before.forged);
    }

    /// The share that was applied, of what was published or what should have been, whichever is
    /// more.
    fn share(&self) -> f64 {
        let wanted = (self.took_s * f64::from(RATE)).max(self.published as f64);
        if wanted > 0.0 { self.applied as f64 / wanted } else { 0.0 }
    }
}

/// The goals, from the CPU per hit of quiet rounds and of rounds with announcements.
fn goals(quiet: &[f64], reported: &[f64], came: &Came) -> [Goal; 2] {
    // Compared in pairs, so that whatever else the machine does hits both alike.
    let ratio = median(quiet.iter().zip(reported).map(|(quiet, reported)| reported / quiet.max(1e-9)));
    let share = came.share();
    let mut dearer = Goal::at_most("CPU per hit at 500 verified/s <= 1.03 x quiet", ratio, 1.03);
    dearer.met &= share >= APPLIED_SHARE;
    [dearer, Goal::at_least("of 500/s published, applied meanwhile >= 0.95", share, APPLIED_SHARE)]
}

/// The rounds of all rows in one; a proof that differs is added to the first.
fn joined(rows: Vec<Row>) -> Row {
    let mut rows = rows.into_iter();
    let Some(mut whole) = rows.next() else { return Row::default() };
    for row in rows {
        whole.rounds.extend(row.rounds);
        if !whole.proof.contains(&row.proof) {
            whole.proof += &format!("; {}", row.proof);
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::result::Round;

    const ALL_CAME: Came = Came { took_s: 2.0, published: 1000, applied: 1000, forged: 0 };

    #[test]
    fn unapplied_announcements_fail_goals() {
        for (came, met) in [
            (Came { applied: 1000, published: 1000, ..ALL_CAME }, [true, true]),
            (Came { applied: 949, published: 1000, ..ALL_CAME }, [false, false]),
            // Publishing less than was wanted saves nothing either.
            (Came { applied: 900, published: 900, ..ALL_CAME }, [false, false]),
            (Came::default(), [false, false]),
        ] {
            let goals = goals(&[10.0, 20.0, 10.0], &[10.2, 20.4, 30.0], &came);
            assert_eq!(goals.map(|goal| goal.met), met, "{came:?}");
        }
    }

    #[test]
    fn rounds_are_compared_in_pairs() {
        let [dearer, _] = goals(&[10.0, 20.0, 30.0], &[10.5, 21.0, 30.0], &ALL_CAME);
        assert!((dearer.seen - 1.05).abs() < 1e-9 && !dearer.met, "{dearer:?}");
    }

    #[test]
    fn cost_is_compared_at_equal_hits() {
        let [quiet, reported] = [(100_000, 5.0), (50_000, 6.0)].map(|(requests, cpu_us)| {
            let round = Round { took_s: 1.0, requests, cpu_us: Some(cpu_us), ..Round::default() };
            Row { rounds: vec![round], ..Row::default() }
        });
        let reported = cost(&quiet, &reported, &ALL_CAME);
        assert!(
            reported.starts_with("500 announcements a second were verified and applied, 0 were refused"),
            "{reported}"
        );
        assert!(
            reported.ends_with(
                "each took 100 us of CPU, all of them 5.0 % of a core; 1.10 x quiet at as many hits a second"
            ),
            "{reported}"
        );
    }

    #[test]
    fn row_lists_differing_round_proofs() {
        let rows = ["all", "all", "99 %"].map(|proof| Row {
            proof: proof.to_owned(),
            rounds: vec![Default::default()],
            ..Row::default()
        });
        let whole = joined(rows.to_vec());
        assert_eq!((whole.proof.as_str(), whole.rounds.len()), ("all; 99 %", 3));
    }
}
