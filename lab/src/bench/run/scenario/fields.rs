//! A few fields of a large record, beside plain hits of a record of that size.

use super::hit::{self, CONNECTIONS};
use super::ratios::ratio_of;
use crate::bench::entrant::Entrant;
use crate::bench::error::BenchError;
use crate::bench::load::BenchRequest;
use crate::bench::pace::LoadPace;
use crate::bench::paths::{self, Paths};
use crate::bench::regions::{Delay, MEMBER_BYTES, RECORD, RECORD_MEMBERS, member};
use crate::bench::result::Scenario;
use crate::bench::session::Bench;
use crate::bench::sidecar::{self, Extra, NEARSIDE};
use crate::bench::subject::Subject;

/// Numbers of fields.
const COUNTS: [usize; 3] = [1, 10, 50];
/// Places of the fields: the name, and how many halves of what is not asked for come before.
const PLACES: [(&str, usize); 3] = [("first", 0), ("middle", 1), ("last", 2)];
const LIMIT: f64 = 1.3;

/// Measures fields once somebody has asked for them: the record is stored and fresh.
pub(super) fn hot(bench: &mut Bench<'_>) -> Result<Scenario, BenchError> {
    let mut scenario = Scenario {
        name: "fields".to_owned(),
        title: "Some fields of a record of 1 MiB".to_owned(),
        how: format!(
            "HTTP/1.1, {CONNECTIONS} connections kept alive, closed loop; 1, 10 and 50 of {RECORD_MEMBERS} members, \
             and records that are as long as those answers"
        ),
        ..Scenario::default()
    };
    let regions = bench.host.regions(1, Delay::None)?;
    let extra = Extra { route: "fields = \"fields\"".to_owned(), ..Extra::default() };
    let mut asks = Vec::new();
    for count in COUNTS {
        let bytes = (count * MEMBER_BYTES + 1) as u64;
        let plain = BenchRequest::new(Paths::Fixed(paths::path(1, &format!("{bytes}b"))), bytes);
        asks.push((plain_name(count), plain));
        for (place, halves) in PLACES {
            let skipped = (RECORD_MEMBERS - count) * halves / 2;
            let names: Vec<_> = (skipped..skipped + count).map(member).collect();
            let path = format!("{}?fields={}", paths::path(1, RECORD), names.join(","));
            asks.push((name(count, place), BenchRequest::new(Paths::Fixed(path), bytes)));
        }
    }
    let mut entrants = Vec::new();
    for (name, ask) in asks {
        let wish = bench.host.wish(NEARSIDE, &regions)?;
        let started = sidecar::start(bench.host.product()?, &wish, &extra)?;
        let mut entrant = Entrant::new(Subject { name, ..started.subject }, CONNECTIONS, ask)?;
        entrant.prove()?;
        entrants.push(entrant);
    }
    bench.rounds(&mut scenario, entrants, LoadPace::Closed)?;
    for count in COUNTS {
        for (place, _) in PLACES {
            let (own, plain) = (name(count, place), plain_name(count));
            let goal = ratio_of(&scenario, &own, &format!("{own}: CPU per request"), &plain, LIMIT, hit::cpu);
            scenario.goals.extend(goal);
        }
    }
    Ok(scenario)
}

fn name(count: usize, place: &str) -> String {
    format!("{count} {place}")
}

fn plain_name(count: usize) -> String {
    format!("plain, {} bytes", count * MEMBER_BYTES + 1)
}
