//! The scenarios in which every request is a hit, with rows for nearside, the peers and the floor.
//! All of them send the same headers and body, and every reply is checked for its length and its
//! proof.

use fastrand::Rng;

use super::ratios::ratio;
use crate::bench::announcer::Announcer;
use crate::bench::client::Speaks;
use crate::bench::entrant::Entrant;
use crate::bench::error::BenchError;
use crate::bench::host::{BenchRegions, FLOOR};
use crate::bench::load::BenchRequest;
use crate::bench::pace::{End, LoadPace};
use crate::bench::paths::{self, Paths, Zipf};
use crate::bench::peers::{PEERS, haproxy, nginx};
use crate::bench::regions::{self, Delay};
use crate::bench::result::{Row, Scenario};
use crate::bench::session::Bench;
use crate::bench::sidecar::{self, Extra, NEARSIDE};
use crate::bench::subject::{Subject, Wish};

/// Connections of the closed loops that fill a core.
pub(super) const CONNECTIONS: usize = 16;
/// Requests a second in `hit-1k-rate`: what the slowest of the peers still answers on one core of
/// an older machine.
const RATE: f64 = 25_000.0;
const HOT_KEYS: usize = 10_000;
/// The last segment of paths with bodies of 1 KiB.
const SMALL: &str = "1k";
/// The name of nearside over TCP, measured beside nearside over its Unix socket.
const OVER_TCP: &str = "nearside, TCP";

/// Parameters by which the hit scenarios differ.
#[derive(Clone, Copy, Default)]
struct Shape {
    name: &'static str,
    title: &'static str,
    view: &'static str,
    connections: usize,
    unix: bool,
    /// Requests in flight on one HTTP/2 connection; 0 means HTTP/1.1.
    streams: usize,
    /// Keys drawn by Zipf's law; 0 means one key.
    keys: usize,
    /// A constant rate; a closed loop if `None`.
    per_second: Option<f64>,
    /// True if nearside has a live subscription, so that its hits are fresh and not provisional.
    live: bool,
}

/// 1 KiB, 16 connections.
pub(super) fn one_kib(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let (name, title, connections) = ("hit-1k", "A hit of 1 KiB", CONNECTIONS);
    let shape = Shape { name, title, view: SMALL, connections, live: true, ..Shape::default() };
    let mut scenario = measure(bench, shape)?;
    for (other, limit) in [(FLOOR, 1.15), (haproxy::NAME, 1.0), (nginx::NAME, 0.55)] {
        scenario.goals.extend(ratio(&scenario, "CPU per request", other, limit, cpu));
    }
    Ok(scenario)
}

/// 1 KiB, 16 connections, at the same constant rate for everybody. In a closed loop, a faster
/// server finds more requests each time it looks. At one rate, no server can spread its work over
/// more requests than another.
pub(super) fn at_one_rate(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let shape = Shape {
        name: "hit-1k-rate",
        title: "A hit of 1 KiB, at one rate for all",
        view: SMALL,
        connections: CONNECTIONS,
        per_second: Some(RATE),
        live: true,
        ..Shape::default()
    };
    let mut scenario = measure(bench, shape)?;
    for (other, limit) in [(FLOOR, 1.15), (haproxy::NAME, 1.0), (nginx::NAME, 0.55)] {
        scenario.goals.extend(ratio(&scenario, "CPU per request", other, limit, cpu));
    }
    Ok(scenario)
}

/// 1 KiB, one connection.
pub(super) fn one_connection(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let title = "A hit of 1 KiB on one connection";
    let shape = Shape { name: "hit-1k-one", title, view: SMALL, connections: 1, live: true, ..Shape::default() };
    let mut scenario = measure(bench, shape)?;
    scenario.goals.extend(ratio(&scenario, "p50", FLOOR, 1.15, p50));
    scenario.goals.extend(ratio(&scenario, "p99", FLOOR, 1.3, |row| row.median(|round| round.latency.p99_us)));
    Ok(scenario)
}

/// 100 KiB, 16 connections.
pub(super) fn large(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let title = "A hit of 100 KiB";
    let shape = Shape { name: "hit-100k", title, view: "100k", connections: CONNECTIONS, ..Shape::default() };
    let mut scenario = measure(bench, shape)?;
    scenario.goals.extend(ratio(&scenario, "CPU per request", nginx::NAME, 1.2, cpu));
    Ok(scenario)
}

/// 1 KiB over a Unix socket, one connection.
pub(super) fn unix(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let title = "A hit of 1 KiB over a Unix socket, one connection";
    let shape = Shape { name: "hit-unix", title, view: SMALL, connections: 1, unix: true, ..Shape::default() };
    let mut scenario = measure(bench, shape)?;
    scenario.goals.extend(ratio(&scenario, "p50", OVER_TCP, 1.0, p50));
    scenario.goals.extend(ratio(&scenario, "p50", FLOOR, 1.15, p50));
    Ok(scenario)
}

/// 1 KiB over HTTP/2 in plain text: one connection with as many requests in flight as `hit-1k` has
/// connections. The bare responder parses nothing and so cannot speak it.
pub(super) fn h2c(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let title = "A hit of 1 KiB over HTTP/2 in plain text";
    let shape = Shape { name: "hit-h2c", title, view: SMALL, streams: CONNECTIONS, live: true, ..Shape::default() };
    measure(bench, shape)
}

/// 10,000 keys, drawn by Zipf's law.
pub(super) fn hot(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let title = "A hit of 1 KiB on one of 10,000 hot keys";
    let connections = CONNECTIONS;
    let shape = Shape { name: "hot-10k", title, view: SMALL, connections, keys: HOT_KEYS, ..Shape::default() };
    measure(bench, shape)
}

fn measure(bench: &mut Bench<'_>, shape: Shape) -> Result<Scenario, BenchError> {
    let regions = bench.host.regions(1, Delay::None)?;
    let body_bytes = regions::body_bytes(shape.view);
    let mut entrants = Vec::new();
    let announcer = shape.live.then(|| Announcer::start(bench.host, 1)).transpose()?;
    let extra = Extra { live: announcer.as_ref().map(|one| one.announcing.clone()), ..Extra::default() };
    entrants.push(entrant(nearside(bench, &regions, &extra, shape)?, shape, bench.settings.seed)?);
    if shape.unix {
        let over_tcp = nearside(bench, &regions, &extra, Shape { unix: false, ..shape })?;
        let subject = Subject { name: OVER_TCP.to_owned(), ..over_tcp };
        entrants.push(entrant(subject, shape, bench.settings.seed)?);
    }
    if shape.streams == 0 {
        entrants.push(entrant(bench.host.floor(body_bytes, shape.unix)?, shape, bench.settings.seed)?);
    }
    peers(bench, &regions, shape, &mut entrants)?;
    let keys = if shape.keys > 0 { format!(", {} keys drawn by Zipf's law", shape.keys) } else { String::new() };
    let mut scenario = Scenario {
        name: shape.name.to_owned(),
        title: shape.title.to_owned(),
        how: how(shape) + &keys,
        ..Scenario::default()
    };
    let pace = shape.per_second.map_or(LoadPace::Closed, |per_second| LoadPace::Open { per_second });
    bench.rounds(&mut scenario, entrants, pace)?;
    Ok(scenario)
}

/// Adds all peers that can be started; the report names the others.
fn peers(
    bench: &mut Bench<'_>,
    regions: &BenchRegions,
    shape: Shape,
    into: &mut Vec<Entrant>,
) -> Result<(), BenchError> {
    for candidate in PEERS.iter().filter(|candidate| !shape.unix || candidate.unix) {
        // This setup is for large replies; small ones cost it more.
        if candidate.name == nginx::SENDFILE_NAME && shape.view == SMALL {
            continue;
        }
        let wish = bench.host.wish(candidate.name, regions)?;
        let wish = Wish { unix: shape.unix, h2c: shape.streams > 0, ..wish };
        let started = (candidate.start)(&wish).map_err(BenchError::from);
        match started.and_then(|subject| entrant(subject, shape, bench.settings.seed)) {
            Ok(entrant) => into.push(entrant),
            Err(why) => bench.miss(candidate.name, &why),
        }
    }
    Ok(())
}

fn nearside(bench: &Bench<'_>, regions: &BenchRegions, extra: &Extra, shape: Shape) -> Result<Subject, BenchError> {
    let wish = Wish { unix: shape.unix, h2c: shape.streams > 0, ..bench.host.wish(NEARSIDE, regions)? };
    Ok(sidecar::start(bench.host.product()?, &wish, extra)?.subject)
}

/// A subject that already holds everything that it will be asked for.
fn entrant(subject: Subject, shape: Shape, seed: u64) -> Result<Entrant, BenchError> {
    let body_bytes = regions::body_bytes(shape.view) as u64;
    let ask = BenchRequest::new(Paths::Fixed(paths::path(1, shape.view)), body_bytes);
    let speaks = match shape.streams {
        0 => Speaks::Http1 { connections: shape.connections },
        streams => Speaks::H2c { streams },
    };
    let mut entrant = Entrant::over(subject, &speaks, ask)?;
    // A subject that does not show its hits now is not doing what was asked of it.
    entrant.prove()?;
    if shape.keys > 0 {
        entrant.ask_for(Paths::Each { next: 0, view: shape.view });
        entrant.warm(LoadPace::Closed, End::Requests(shape.keys as u64))?;
        let (zipf, rng) = (Zipf::new(shape.keys), Rng::with_seed(seed));
        entrant.ask_for(Paths::Drawn { zipf, view: shape.view, rng });
    }
    Ok(entrant)
}

fn how(shape: Shape) -> String {
    let connections = match shape.connections {
        0 => {
            return format!(
                "HTTP/2 with prior knowledge, one connection, {} requests under way at once",
                shape.streams
            );
        }
        1 => "one connection".to_owned(),
        connections => format!("{connections} connections"),
    };
    let pace = match shape.per_second {
        None => "closed loop: each sends the next request when the last is answered".to_owned(),
        Some(rate) => format!("open loop: {rate:.0} requests a second, whatever is answered"),
    };
    format!("HTTP/1.1, {connections} kept alive, {pace}")
}

/// The median CPU time per request, in microseconds.
pub(super) fn cpu(row: &Row) -> f64 {
    row.median(|round| round.cpu_us.unwrap_or(0.0))
}

fn p50(row: &Row) -> f64 {
    row.median(|round| round.latency.p50_us)
}
