//! Cost of access at a region's node: a token that is seen for the first time, by either algorithm, one
//! that the process remembers, and one that the connection remembers.
//!
//! A sidecar verifies in the same way, and keeps digests of the claims (`identity = "verified"`).
//!
//! Through the gate, as a request of a view goes, without a socket. A first sight beside others takes
//! a turn on another thread; `its work` is what that thread does. Compare figures of one machine and one run
//! only.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use http::{HeaderMap, HeaderValue, Method, header};
use nearside::access::credentials::Credentials;
use nearside::access::gate::{Gate, GateParts, Ruling, Turn};
use nearside::access::grants::Grants;
use nearside::access::issuers::Issuers;
use nearside::access::known::Known;
use nearside::access::verifier::{Recalled, Verifier};
use nearside::config::services::{AccessConfig, AccessMode, IssuerConfig, KeysSource};
use nearside::model::time::Clock;
use nearside::tasks::Tasks;
use nearside_lab::issuer::Issuer;
use serde_json::json;

const ISS: &str = "https://issuer.example";
const REGIONS: &str = "https://regions.example";
const PATH: &str = "/v1/contexts/tenant-4711/limits";

/// A node's gate, and the issuer that it knows.
struct World {
    clock: Clock,
    issuer: Issuer,
    config: AccessConfig,
    gate: Arc<Gate>,
    /// Number of tokens that were made.
    made: u64,
    _directory: tempfile::TempDir,
}

impl World {
    fn new(issuer: Issuer) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let keys = directory.path().join("keys.json");
        std::fs::write(&keys, issuer.jwks()).expect("it can be written");
        let keys = KeysSource::File(keys);
        let config = AccessConfig {
            mode: AccessMode::Enforce,
            region_audience: REGIONS.to_owned(),
            issuers: vec![IssuerConfig { iss: ISS.to_owned(), keys, ca_file: None, subject: "sub".to_owned() }],
            ..AccessConfig::default()
        };
        let clock = Clock::System;
        let (issuers, names) = (issuers(&config, &clock), vec!["limits".to_owned()]);
        let parts = GateParts { issuers, deny: None, names, clock: clock.clone(), tasks: Tasks::new() };
        let gate = Arc::new(Gate::new(&config, parts));
        let who = json!([{"iss": ISS, "sub": "jira:*"}]);
        let document = json!({"format": 1, "consumers": {"jira": {"who": who, "views": ["limits"]}}});
        gate.take(Grants::read(document.to_string().as_bytes(), 1).expect("a document of grants"));
        Self { clock, issuer, config, gate, made: 0, _directory: directory }
    }

    /// A token that nobody has seen.
    fn token(&mut self) -> String {
        self.made += 1;
        let now = self.clock.wall().as_millis() / 1_000;
        self.issuer.token(&format!("jira:{}", self.made), REGIONS, now)
    }

    fn lines(&mut self) -> HeaderMap {
        let line = HeaderValue::try_from(format!("Bearer {}", self.token())).expect("it fits a header");
        HeaderMap::from_iter([(header::AUTHORIZATION, line)])
    }
}

fn issuers(config: &AccessConfig, clock: &Clock) -> Issuers {
    Issuers::open(config, REGIONS, clock).expect("its keys are in a file")
}

/// Decides about a request, on a connection that remembers `known`.
fn ask(gate: &Arc<Gate>, known: &mut Option<Arc<Known>>, lines: &HeaderMap) -> Ruling<()> {
    gate.admit_to_view(known, &Method::GET, PATH, Credentials::of(lines, None), Turn::First)
}

fn is_decided(ruling: &Ruling<()>) -> bool {
    matches!(ruling, Ruling::Decided(Ok(())))
}

fn tokens(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for issuer in [Issuer::new(ISS, "one"), Issuer::rsa(ISS, "one")] {
        let algorithm = issuer.algorithm();
        let mut world = World::new(issuer);
        let gate = world.gate.clone();
        let known_to_issuers = issuers(&world.config, &world.clock);
        let now = world.clock.wall();
        criterion.bench_function(&format!("a token of {algorithm}, seen first: its work"), |bencher| {
            let token = world.token();
            bencher.iter(|| assert!(known_to_issuers.verify(black_box(token.as_bytes()), now).is_ok()));
        });
        criterion.bench_function(&format!("a token of {algorithm}, seen first: until it is decided"), |bencher| {
            bencher.iter_batched(
                || world.lines(),
                |lines| assert_eq!(runtime.block_on(ask(&gate, &mut None, &lines).settled()), Ok(())),
                BatchSize::LargeInput,
            );
        });
        let lines = world.lines();
        assert_eq!(runtime.block_on(ask(&gate, &mut None, &lines).settled()), Ok(()));
        criterion.bench_function(&format!("a token of {algorithm}, remembered by the process"), |bencher| {
            bencher.iter(|| assert!(is_decided(&ask(&gate, &mut None, black_box(&lines)))));
        });
        let mut known = None;
        assert!(is_decided(&ask(&gate, &mut known, &lines)));
        criterion.bench_function(&format!("a token of {algorithm}, remembered by the connection"), |bencher| {
            bencher.iter(|| assert!(is_decided(&ask(&gate, &mut known, black_box(&lines)))));
        });
    }
}

/// The caller by its claims, at a sidecar.
async fn claimed(verifier: &Verifier, known: &mut Option<Arc<Known>>, lines: &HeaderMap) -> Arc<Known> {
    let known = match verifier.recall(known, Credentials::of(lines, None)).expect("a good token") {
        Recalled::Known(known) => known,
        Recalled::Token(token) => verifier.prove(token).await.expect("a good token"),
    };
    assert!(known.claims().is_some());
    known
}

fn claims(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut world = World::new(Issuer::new(ISS, "one"));
    let verifier = Verifier::of_sidecar(issuers(&world.config, &world.clock), world.clock.clone());
    criterion.bench_function("claims of a token, seen first by a sidecar", |bencher| {
        bencher.iter_batched(
            || world.lines(),
            |lines| runtime.block_on(claimed(&verifier, &mut None, &lines)),
            BatchSize::LargeInput,
        );
    });
    let (lines, mut known) = (world.lines(), None);
    criterion.bench_function("claims of a token, remembered by a sidecar's process", |bencher| {
        bencher.iter(|| runtime.block_on(claimed(&verifier, &mut None, black_box(&lines))));
    });
    criterion.bench_function("claims of a token, remembered by a sidecar's connection", |bencher| {
        bencher.iter(|| runtime.block_on(claimed(&verifier, &mut known, black_box(&lines))));
    });
}

criterion_group!(benches, tokens, claims);
criterion_main!(benches);
