//! A hundred hot keys in one request, beside single hits of the same size.

use super::hit::{self, CONNECTIONS};
use super::ratio_of;
use crate::lab::bench::announcer::Announcer;
use crate::lab::bench::load::BenchRequest;
use crate::lab::bench::pace::LoadPace;
use crate::lab::bench::paths::{self, Paths};
use crate::lab::bench::regions::{self, Delay};
use crate::lab::bench::result::Scenario;
use crate::lab::bench::run::{Bench, BenchError, Entrant};
use crate::lab::bench::sidecar::{self, Extra, NEARSIDE};
use crate::lab::bench::subject::Subject;

const KEYS: usize = 100;
/// Records are JSON, which goes into an answer as it is.
const VIEW: &str = "1k.json";
/// Bytes that are no JSON travel as base64, as Protobuf does.
const BASE64_VIEW: &str = "1k";
const BATCH: &str = "nearside, 100 keys";
const BASE64: &str = "nearside, 100 keys, base64";

/// What a batch costs, where all of it is stored and fresh.
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
    let announcer = Announcer::start(bench.ground, 1)?;
    let regions = bench.ground.regions(1, Delay::None)?;
    let extra = Extra { live: Some(announcer.announcing.clone()), ..Extra::default() };
    let start = || {
        let wish = bench.ground.wish(NEARSIDE, &regions)?;
        sidecar::start(&bench.ground.program, &wish, &extra).map(|started| started.subject).map_err(BenchError::from)
    };
    let one = BenchRequest::new(Paths::Fixed(paths::path(1, VIEW)), regions::body_bytes(VIEW) as u64);
    let many = |name: &str| Ok::<_, BenchError>(Subject { name: name.to_owned(), ..start()? });
    let mut entrants = Vec::new();
    for (subject, ask) in [(start()?, one), (many(BATCH)?, batch(VIEW)), (many(BASE64)?, batch(BASE64_VIEW))] {
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
    let key = |number| paths::path(number, view).split('/').nth(3).unwrap_or_default().to_owned();
    let keys: Vec<_> = (1..=KEYS as u64).map(key).collect();
    let body = serde_json::json!({ "keys": keys }).to_string();
    let headers = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let path = Paths::Fixed(format!("/v1/batch/{view}"));
    BenchRequest { headers, body, body_bytes: None, ..BenchRequest::new(path, 0) }
}
