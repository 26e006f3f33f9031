//! What a race costs besides its regions: the bookkeeping over three replies, and a whole miss whose regions answer at once.
//!
//! The miss goes from an admitted request to a response and on until its race is over (entry stored, best one kept, task
//! gone); no socket. Compare figures of one machine and one run only.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, criterion_group};
use futures_util::future::{BoxFuture, FutureExt};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use nearside::cache::key::Seed;
use nearside::clock::{Clock, Moment};
use nearside::config::read;
use nearside::freshness::event::{Event, Says};
use nearside::freshness::record::Snapshot;
use nearside::freshness::vote::{self, Ballot, Said};
use nearside::freshness::words::{RegionId, Version};
use nearside::limits;
use nearside::origin::reply::{Failure, Origin, Outgoing, Reply};
use nearside::request::Admitted;
use nearside::response::respond;
use nearside::serve::{self, Parts, Sidecar};
use nearside::tasks::Tasks;

const CONFIG: &str = r#"
service.name = "contexts"
[[service.region]]
name = "a"
url = "http://127.0.0.1:1"
[[service.region]]
name = "b"
url = "http://127.0.0.1:2"
[[service.region]]
name = "c"
url = "http://127.0.0.1:3"
[[service.route]]
path = "/v1/contexts/{key}/{view}"
records = ["context:{key}"]
[announcements]
transport = "off"
"#;

/// A region that answers at once with 1 KiB and the usual headers.
struct Ready {
    clock: Clock,
    headers: HeaderMap,
    body: Bytes,
}

impl Ready {
    fn new(clock: Clock) -> Self {
        let lines = [
            (header::CONTENT_TYPE, "application/json"),
            (header::ETAG, "\"5\""),
            (header::CACHE_CONTROL, "max-age=60"),
            (header::DATE, "Fri, 15 Jan 2027 08:00:00 GMT"),
        ];
        let headers = lines.map(|(name, value)| (name, HeaderValue::from_static(value))).into_iter().collect();
        Self { clock, headers, body: Bytes::from(vec![b'x'; 1024]) }
    }
}

impl Origin for Ready {
    fn ask(&self, region: RegionId, _: Arc<Outgoing>, _: Duration) -> BoxFuture<'static, Result<Reply, Failure>> {
        let (now, sent_wall) = (self.clock.now(), self.clock.wall());
        let (headers, body) = (self.headers.clone(), self.body.clone());
        let versions = vec![Version(5)];
        let reply =
            Reply { region, status: StatusCode::OK, headers, body, versions, sent: now, sent_wall, received: now };
        async move { Ok(reply) }.boxed()
    }
}

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

fn sidecar() -> Arc<Sidecar> {
    let clock = Clock::System;
    let config = read::from_toml(CONFIG).expect("the settings above are valid");
    let origin = Arc::new(Ready::new(clock.clone()));
    let floor_slots = limits::FLOOR_SLOTS;
    let parts = Parts { clock, origin, tasks: Tasks::new(), seed: Seed::fixed(7), floor_slots };
    let sidecar = Sidecar::new(config, parts).expect("there are no credentials to read");
    for region in (0..3).map(RegionId) {
        for event in [Event::Subscribing(region), Event::Subscribed(region)] {
            sidecar.freshness.step(sidecar.clock.now(), sidecar.clock.wall(), event);
        }
    }
    speak(&sidecar);
    sidecar
}

/// Any message renews the lease: what three regions agree on is CONFIRMED, and asked for once.
fn speak(sidecar: &Sidecar) {
    for region in (0..3).map(RegionId) {
        let published = sidecar.clock.wall();
        let message = Event::Message { region, published, queued: None, numbered: None, says: Says::Unrouted };
        sidecar.freshness.step(sidecar.clock.now(), published, message);
    }
}

/// One miss to its end.
async fn miss(sidecar: &Arc<Sidecar>, number: u64) {
    let response = respond(serve::serve(sidecar, admitted(number)).await, &sidecar.names);
    assert_eq!(response.status(), StatusCode::OK);
    while sidecar.tasks.running().contains_key("fill") {
        tokio::task::yield_now().await;
    }
}

fn misses(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let sidecar = sidecar();
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
        said: Said::Present,
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
    // So many and nothing else, for whoever counts their instructions (`benches/instructions.sh`).
    let count = |name: &str| std::env::var(name).ok().and_then(|count| count.parse::<u64>().ok());
    if let Some(count) = count("NEARSIDE_MISSES") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let sidecar = sidecar();
        (0..count).for_each(|number| runtime.block_on(miss(&sidecar, number)));
    } else if let Some(count) = count("NEARSIDE_TALLIES") {
        (0..count).for_each(|_| tally());
    } else {
        benches();
        Criterion::default().configure_from_args().final_summary();
    }
}
