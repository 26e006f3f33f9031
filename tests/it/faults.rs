//! A dead region costs nothing: misses at a steady rate while one, then two of three regions fail
//! in each of the ways that regions do.
//!
//! The callers are an open loop: each request leaves when it is due, whatever became of those
//! before it, and its latency counts from when it was due. Faults run side by side, each with a
//! world and a sidecar of its own, beside a sidecar that has a single healthy region: what a miss
//! costs there and then, on this machine, is the measure.

use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use http::StatusCode;
use nearside::model::time::Clock;
use nearside::tasks::{TaskGroup, Tasks};
use nearside_lab::chaos_server::chaos::{Latency, Mode};
use tokio::sync::mpsc;

use super::stage::Stage;

/// Distinct cold keys per fault: thirty requests lie beyond a p99.
const KEYS: u32 = 3_000;
/// Between two requests: 100 a second, five worlds at once, in a debug build on a slow machine.
const EVERY: Duration = Duration::from_millis(10);
/// Latency of a region.
const LATENCY: Latency = Latency::millis(20, 5);
/// Between two heartbeats: the least that keeps a lease is no load.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Faults side by side, and a healthy region beside them: half a core of the two, so that others
/// may build meanwhile.
const AT_ONCE: usize = 4;
/// A p99 may be so many times a healthy region's.
const ALLOWED: f64 = 2.0;

const FAULTS: [(&str, Mode); 5] = [
    ("dead", Mode::Off),
    ("slow (5 s)", Mode::Slow(Duration::from_secs(5))),
    ("refusing (503)", Mode::Status(StatusCode::SERVICE_UNAVAILABLE)),
    ("dripping (1 B/s)", Mode::Drip),
    ("truncating", Mode::Truncate),
];

/// Results of one fault.
struct Row {
    name: String,
    failures: Vec<String>,
    /// Microseconds, from when a request was due to its last byte.
    took: Histogram<u64>,
    /// Microseconds by which requests left after they were due: the driver's own fault, and part of
    /// `took`.
    late: Histogram<u64>,
    attempts: Vec<u64>,
}

/// Empty histogram of microseconds.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 120_000_000, 3).unwrap()
}

impl Row {
    fn new(name: String) -> Self {
        Self { name, failures: Vec::new(), took: histogram(), late: histogram(), attempts: Vec::new() }
    }

    fn p(&self, quantile: f64) -> f64 {
        self.took.value_at_quantile(quantile) as f64 / 1000.0
    }

    fn print(&self, healthy: &Self) {
        let attempts: Vec<String> = self.attempts.iter().map(u64::to_string).collect();
        println!(
            "{:28} {:8} {:8.1} {:8.1} {:8.1} {:10.2} {:10.1}   {}",
            self.name,
            self.failures.len(),
            self.p(0.5),
            self.p(0.99),
            self.p(0.999),
            self.p(0.99) / healthy.p(0.99),
            self.late.value_at_quantile(0.99) as f64 / 1000.0,
            attempts.join(" / "),
        );
    }
}

/// A sidecar with `regions` regions, the first `failing` of which fail by `mode`.
async fn cell(name: String, regions: usize, failing: usize, mode: Mode) -> Row {
    let stage = Stage::builder()
        .world(|world| world.regions(regions).latency(LATENCY).records(KEYS as usize).heartbeat(HEARTBEAT))
        .start()
        .await;
    stage.live().await;
    for region in 0..failing {
        stage.set(region, mode).await;
    }
    let mut row = Row::new(name);
    let stage = open_loop(stage, &mut row).await;
    row.attempts = stage.world.regions.iter().map(|region| region.traffic.total()).collect();
    stage.stop().await;
    row
}

/// Asks for every key once, each when it is due.
async fn open_loop(stage: Stage, row: &mut Row) -> Stage {
    let stage = Arc::new(stage);
    let (tasks, clock) = (Tasks::new(), Clock::System);
    let (done, mut answers) = mpsc::unbounded_channel();
    let start = clock.now() + EVERY;
    for key in 0..KEYS {
        let due = start + EVERY * key;
        // After a wait that was too long, all that has become due leaves at once.
        let wait = due - clock.now();
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        row.late.saturating_record(micros(clock.now() - due));
        let (stage, clock, done) = (stage.clone(), clock.clone(), done.clone());
        tasks.spawn("caller", async move {
            let name = format!("tenant-{}", key + 1);
            let answer = stage.try_get(&format!("/v1/contexts/{name}")).await;
            let took = clock.now() - due;
            let failure = match answer {
                Err(error) => Some(format!("{name}: {error:?}")),
                Ok(answer) if answer.status != 200 => Some(format!("{name}: {} {:?}", answer.status, answer.body)),
                Ok(answer) if answer.json()["key"] != name => Some(format!("{name}: another's body")),
                Ok(answer) if answer.parameter("fwd").is_none() => Some(format!("{name}: not a miss")),
                Ok(_) => None,
            };
            let _test_ended = done.send((took, failure));
        });
    }
    drop(done);
    while let Some((took, failure)) = answers.recv().await {
        row.took.saturating_record(micros(took));
        row.failures.extend(failure);
    }
    tasks.drain(Duration::from_secs(1)).await;
    Arc::into_inner(stage).expect("every caller has ended")
}

fn micros(span: Duration) -> u64 {
    span.as_micros().max(1) as u64
}

/// Runs them side by side.
async fn side_by_side(cells: Vec<(String, usize, usize, Mode)>) -> Vec<Row> {
    let mut running = TaskGroup::new();
    for (place, (name, regions, failing, mode)) in cells.into_iter().enumerate() {
        let tasks = Tasks::new();
        let cell = tasks.spawn("cell", cell(name, regions, failing, mode));
        running.start(async move { (place, cell.await.unwrap().expect("nobody stops it")) });
    }
    let mut rows = Vec::new();
    while let Some(row) = running.next().await {
        rows.push(row);
    }
    rows.sort_by_key(|(place, _)| *place);
    rows.into_iter().map(|(_, row)| row).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_failing_regions_cost_no_request() {
    println!("{KEYS} cold keys at {}/s per row, open loop, regions at {LATENCY:?}; ms", 1000 / EVERY.as_millis());
    println!(
        "{:28} {:>8} {:>8} {:>8} {:>8} {:>10} {:>10}   attempts per region",
        "", "failures", "p50", "p99", "p99.9", "x healthy", "late p99"
    );
    let faults = [1, 2]
        .into_iter()
        .flat_map(|failing| FAULTS.map(|(name, mode)| (format!("{failing} of 3 {name}"), 3, failing, mode)));
    let cells: Vec<_> =
        std::iter::once(("three healthy regions".to_owned(), 3, 0, Mode::Healthy)).chain(faults).collect();
    let mut wrong = Vec::new();
    for cells in cells.chunks(AT_ONCE) {
        let mut cells = cells.to_vec();
        cells.push(("a healthy region, alone".to_owned(), 1, 0, Mode::Healthy));
        let rows = side_by_side(cells).await;
        let healthy = rows.last().expect("it was just pushed");
        for row in &rows {
            row.print(healthy);
            if !row.failures.is_empty() || row.p(0.99) > ALLOWED * healthy.p(0.99) {
                wrong.push(format!("{}: {:?}", row.name, row.failures.first()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
