//! Owns the scenarios in which every request is a hit.
//!
//! Before it: [`super::super::run`]. After it: rows of nearside, the peers and the floor. Invariant: all send the same
//! headers and body, and every reply is checked for its length and its proof.

use crate::bench::ground::FLOOR;
use crate::bench::load::Ask;
use crate::bench::pace::Pace;
use crate::bench::paths::{self, Paths};
use crate::bench::regions::{self, Delay};
use crate::bench::result::{Goal, Row, Scenario};
use crate::bench::run::{Bench, Entrant, RunError};
use crate::bench::sidecar::{self, Extra, NEARSIDE};
use crate::bench::subject::Proof;

/// Connections of the closed loops that fill a core.
const CONNECTIONS: usize = 16;

/// What tells the hit scenarios apart.
struct Shape {
    name: &'static str,
    title: &'static str,
    view: &'static str,
    connections: usize,
}

/// 1 KiB, 16 connections.
pub fn one_kib(bench: &mut Bench<'_>) -> Result<Scenario, RunError> {
    let shape = Shape { name: "hit-1k", title: "A hit of 1 KiB", view: "1k", connections: CONNECTIONS };
    let mut scenario = measure(bench, &shape)?;
    scenario.goals.extend(ratio(&scenario, "CPU per request", FLOOR, 1.15, cpu));
    scenario.goals.extend(ratio(&scenario, "CPU per request", "haproxy", 1.0, cpu));
    scenario.goals.extend(ratio(&scenario, "CPU per request", "nginx", 0.55, cpu));
    Ok(scenario)
}

/// 1 KiB, one connection.
pub fn one_connection(bench: &mut Bench<'_>) -> Result<Scenario, RunError> {
    let shape = Shape { name: "hit-1k-one", title: "A hit of 1 KiB on one connection", view: "1k", connections: 1 };
    let mut scenario = measure(bench, &shape)?;
    scenario.goals.extend(ratio(&scenario, "p50", FLOOR, 1.15, |row| row.median(|round| round.latency.p50_us)));
    scenario.goals.extend(ratio(&scenario, "p99", FLOOR, 1.3, |row| row.median(|round| round.latency.p99_us)));
    Ok(scenario)
}

fn measure(bench: &mut Bench<'_>, shape: &Shape) -> Result<Scenario, RunError> {
    let regions = bench.ground.regions(1, Delay::None)?;
    let path = paths::path(1, shape.view);
    let body_bytes = regions::body_bytes(&path);
    let ask = Ask {
        paths: Paths::Fixed(path),
        headers: String::new(),
        host: "127.0.0.1".to_owned(),
        body_bytes: Some(body_bytes as u64),
        proof: Proof::Always,
    };
    let wish = bench.ground.wish(NEARSIDE, &regions)?;
    let nearside = sidecar::start(&bench.ground.program, &wish, &Extra::default())?;
    let floor = bench.ground.floor(body_bytes, false)?;
    let mut entrants = Vec::new();
    for subject in [nearside.subject, floor] {
        entrants.push(Entrant::new(subject, shape.connections, ask.clone())?);
    }
    let mut scenario = Scenario {
        name: shape.name.to_owned(),
        title: shape.title.to_owned(),
        how: how(shape.connections),
        ..Scenario::default()
    };
    bench.rounds(&mut scenario, entrants, Pace::Closed)?;
    Ok(scenario)
}

fn how(connections: usize) -> String {
    let connections =
        if connections == 1 { "one connection".to_owned() } else { format!("{connections} connections") };
    format!("HTTP/1.1, {connections} kept alive, closed loop: each sends the next request when the last is answered")
}

/// CPU time per request, microseconds, in the median.
fn cpu(row: &Row) -> f64 {
    row.median(|round| round.cpu_us.unwrap_or(0.0))
}

/// How nearside compares with `other`, if both were measured.
pub fn ratio(scenario: &Scenario, what: &str, other: &str, limit: f64, figure: fn(&Row) -> f64) -> Option<Goal> {
    let (own, others) = (figure(scenario.row(NEARSIDE)?), figure(scenario.row(other)?));
    let text = format!("{what} <= {limit} x {}", if other == FLOOR { "the bare responder" } else { other });
    (others > 0.0).then(|| Goal::at_most(text, own / others, limit))
}
