//! A hundred hot keys in one request, beside single hits of the same size.

use super::hit::{self, CONNECTIONS};
use super::ratios::ratio_of;
use crate::bench::announcer::Announcer;
use crate::bench::entrant::Entrant;
use crate::bench::error::BenchError;
use crate::bench::load::BenchRequest;
use crate::bench::pace::LoadPace;
use crate::bench::paths::{self, Paths};
use crate::bench::regions::{self, Delay};
use crate::bench::result::Scenario;
use crate::bench::session::Bench;
use crate::bench::sidecar::{self, Extra, NEARSIDE};
use crate::bench::subject::Subject;

const KEYS: usize = 100;
/// Records are JSON, which goes into an answer as it is.
const VIEW: &str = "1k.json";
/// Bytes that are no JSON travel as base64, as Protobuf does.
const BASE64_VIEW: &str = "1k";
const BATCH: &str = "nearside, 100 keys";
const BASE64: &str = "nearside, 100 keys, base64";

/// Measures a batch, where all of it is stored and fresh.
pub(super) fn hot(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let mut scenario = Scenario {
        name: "batch".to_owned(),
        title: "A hundred hits of 1 KiB in one request".to_owned(),
        how: format!(
            "HTTP/1.1, {CONNECTIONS} connections kept alive, closed loop; one key, a batch of {KEYS} keys of JSON, and \
             one of bytes that are no JSON"
        ),
        ..Scenario::default()
    };
    let announcer = Announcer::start(bench.host, 1)?;
    let regions = bench.host.regions(1, Delay::None)?;
    let extra = Extra { live: Some(announcer.announcing.clone()), ..Extra::default() };
    let one = BenchRequest::new(Paths::Fixed(paths::path(1, VIEW)), regions::body_bytes(VIEW) as u64);
    let mut entrants = Vec::new();
    for (name, ask) in [(NEARSIDE, one), (BATCH, batch(VIEW)), (BASE64, batch(BASE64_VIEW))] {
        let wish = bench.host.wish(NEARSIDE, &regions)?;
        let started = sidecar::start(bench.host.product()?, &wish, &extra)?;
        let subject = Subject { name: name.to_owned(), ..started.subject };
        let mut entrant = Entrant::new(subject, CONNECTIONS, ask)?;
        entrant.prove()?;
        entrants.push(entrant);
    }
    bench.rounds(&mut scenario, entrants, LoadPace::Closed)?;
    // A quarter of what a hundred single hits cost.
    scenario.goals.extend(ratio_of(&scenario, BATCH, "CPU per request", NEARSIDE, 0.25 * KEYS as f64, hit::cpu));
    Ok(scenario)
}

fn batch(view: &str) -> BenchRequest {
    let keys: Vec<_> = (1..=KEYS as u64)
        .map(|number| paths::path(number, view).split('/').nth(3).unwrap_or_default().to_owned())
        .collect();
    let body = serde_json::json!({ "keys": keys }).to_string();
    let headers = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let path = Paths::Fixed(format!("/v1/batch/{view}"));
    BenchRequest { headers, body, body_bytes: None, ..BenchRequest::new(path, 0) }
}
