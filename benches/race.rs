//! Cost of a race besides its regions: the bookkeeping over three replies, and a whole miss whose
//! regions answer at once.
//!
//! The miss goes from an admitted request to a response and on until its race is over (entry
//! stored, best one kept, task gone); no socket. Compare figures of one machine and one run only.

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use criterion::{Criterion, criterion_group};
use http::{HeaderValue, Method, StatusCode, header};
use nearside::http::admission::Admitted;
use nearside::model::ids::{RegionId, Version};
use nearside::model::time::Moment;
use nearside::protocol::record::Snapshot;
use nearside::protocol::vote::{self, Ballot, Presence};
use nearside::request::answer::respond;
use nearside::request::settings::Settings;

mod live_sidecar;
use live_sidecar::{config, speak};

fn admitted(number: u64) -> Admitted {
    let lines = [
        (header::HOST, "127.0.0.1:8700"),
        (header::ACCEPT, "application/json"),
        (header::ACCEPT_ENCODING, "gzip, deflate, br"),
        (header::USER_AGENT, "python-requests/2.32"),
    ];
    let headers = lines.map(|(name, value)| (name, HeaderValue::from_static(value))).into_iter().collect();
    let path_and_query = format!("/v1/contexts/tenant-{number}/full");
    Admitted { method: Method::GET, path_len: path_and_query.len(), path_and_query, headers, body: Bytes::new() }
}

/// One miss to its end.
async fn miss(sidecar: &Arc<Settings>, number: u64) {
    let response =
        respond(nearside::request::serve::serve(sidecar, admitted(number)).await, &sidecar.fill.shared.names);
    assert_eq!(response.status(), StatusCode::OK);
    while sidecar.fill.shared.tasks.running().contains_key("fill") {
        tokio::task::yield_now().await;
    }
}

fn misses(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let sidecar = live_sidecar::sidecar(config(3, ""));
    let mut number = 0;
    criterion.bench_function("miss: admitted request to the end of its race", |bencher| {
        speak(&sidecar);
        bencher.iter(|| {
            number += 1;
            runtime.block_on(miss(&sidecar, number));
        });
    });
}

const SENT: Moment = Moment::from_nanos(1_000_000_000_000);

/// Three regions' replies: two agree, one lags.
fn three(versions: &[[Version; 1]; 3]) -> [Ballot<'_>; 3] {
    [0, 1, 2].map(|place| Ballot {
        region: RegionId(place as u8),
        said: Presence::Present,
        versions: &versions[place],
        sent: SENT,
        generated: None,
    })
}

const STATED: [[Version; 1]; 3] = [[Version(6)], [Version(5)], [Version(6)]];

fn records() -> [Snapshot; 1] {
    [Snapshot { floor: Version(6), ..Snapshot::default() }]
}

/// All that a race of three asks of its ballots, once.
fn tally() {
    let (ballots, records) = (three(black_box(&STATED)), black_box(records()));
    black_box(ballots.each_ref().map(|ballot| vote::rank(ballot, &records)));
    black_box(vote::best(&ballots, &records));
    black_box(vote::count(&ballots, &records, 3, |_| None));
}

fn bookkeeping(criterion: &mut Criterion) {
    let (ballots, records) = (three(&STATED), records());
    criterion.bench_function("race: three ballots ranked", |bencher| {
        bencher.iter(|| black_box(&ballots).each_ref().map(|ballot| vote::rank(ballot, black_box(&records))));
    });
    criterion.bench_function("race: the best of three ballots", |bencher| {
        bencher.iter(|| vote::best(black_box(&ballots), black_box(&records)));
    });
    criterion.bench_function("race: three ballots counted", |bencher| {
        bencher.iter(|| vote::count(black_box(&ballots), black_box(&records), 3, |_| None));
    });
}

criterion_group!(benches, misses, bookkeeping);

fn main() {
    // So many and nothing else, to count their instructions (`benches/instructions.sh`).
    if let Some(count) = counted("NEARSIDE_MISSES") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let sidecar = live_sidecar::sidecar(config(3, ""));
        (0..count).for_each(|number| runtime.block_on(miss(&sidecar, number)));
    } else if let Some(count) = counted("NEARSIDE_TALLIES") {
        (0..count).for_each(|_| tally());
    } else {
        benches();
        Criterion::default().configure_from_args().final_summary();
    }
}

/// Number in an environment variable.
fn counted(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
