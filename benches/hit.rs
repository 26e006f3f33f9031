//! Cost of a hit, and of its two largest parts: the key of a representation, and the judgement that
//! it is still fresh.
//!
//! The whole hit goes from a request's bytes to its answer's, as a connection of HTTP/1.1 has it,
//! or from an admitted request to a response, as hyper is given it; no socket. Built with regions
//! that answer at once, so that the one miss that fills the store needs no network. Compare figures
//! of one machine and one run only.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, criterion_group};
use futures_util::future::FutureExt;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use http_body_util::BodyExt;
use nearside::cache::key::{KeyBuffer, Representation};
use nearside::http::admission::{Admitted, Head};
use nearside::http::body::Body;
use nearside::model::ids::RouteId;
use nearside::protocol::standing::Use;
use nearside::request::answer::{respond, show};
use nearside::request::caller::Caller;
use nearside::request::fast_path::plain::{Parsed, Plain};
use nearside::request::fast_path::write;
use nearside::request::found::Found;
use nearside::request::lookup::lookup;
use nearside::request::settings::Settings;
use nearside::shape::shown::Shown;

mod live_sidecar;
use live_sidecar::{config, config_of, speak};

const TARGET: &str = "/v1/contexts/tenant-4711/full";

fn headers() -> HeaderMap {
    let lines = [
        (header::HOST, "127.0.0.1:8700"),
        (header::ACCEPT, "application/json"),
        (header::ACCEPT_ENCODING, "gzip, deflate, br"),
        (header::USER_AGENT, "python-requests/2.32"),
        (header::AUTHORIZATION, "Bearer 0123456789abcdef0123456789abcdef"),
    ];
    lines.map(|(name, value)| (name, HeaderValue::from_static(value))).into_iter().collect()
}

fn admitted(headers: &HeaderMap) -> Admitted {
    let (method, path_and_query, headers) = (Method::GET, TARGET.to_owned(), headers.clone());
    Admitted { method, path_and_query, path_len: TARGET.len(), headers, body: Bytes::new() }
}

/// Looks up an entry that is stored and fresh.
fn found(sidecar: &Arc<Settings>, head: Head<'_>, caller: &mut Caller) -> Shown {
    match lookup(sidecar, caller, head, false) {
        Found::Answer(shown, None) => shown,
        _ => unreachable!("it is stored and fresh"),
    }
}

/// A hit as HTTP/2 has it: decided without waiting, answered in the memory of the request's
/// headers.
fn stored(sidecar: &Arc<Settings>, request: Admitted) -> Response<Body> {
    let head = request.head();
    let shown = found(sidecar, head, &mut Caller::of(head.headers));
    show(shown, request.headers, &sidecar.fill.shared.names)
}

/// The bytes of the same request for a target.
fn bytes(target: &str) -> Vec<u8> {
    let mut bytes = format!("GET {target} HTTP/1.1\r\n").into_bytes();
    for (name, value) in &headers() {
        bytes.extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// A connection of HTTP/1.1 between two reads: from a request's bytes to its answer's.
#[derive(Default)]
struct Connection {
    plain: Plain,
    caller: Option<Caller>,
    out: Vec<u8>,
}

impl Connection {
    fn hit(&mut self, sidecar: &Arc<Settings>, bytes: &[u8]) {
        let Parsed::Plain(head, _) = self.plain.read(bytes, |_| true) else { unreachable!("it is plain") };
        let caller = self.caller.get_or_insert_with(|| Caller::of(head.headers));
        let shown = found(sidecar, head, caller);
        self.out.clear();
        black_box(write::put(&shown, None, &sidecar.fill.shared.names, &mut self.out));
    }
}

async fn get(sidecar: &Arc<Settings>, headers: &HeaderMap) -> Response<Body> {
    respond(nearside::request::serve::serve(sidecar, admitted(headers)).await, &sidecar.fill.shared.names)
}

fn hit(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (sidecar, headers) = (live_sidecar::sidecar(config(1, "")), headers());
    runtime.block_on(async {
        let miss = get(&sidecar, &headers).await;
        assert_eq!(miss.status(), StatusCode::OK);
        // One region is all regions: they agree as soon as the race is over.
        sidecar.fill.shared.tasks.drain(Duration::from_secs(5)).await;
        let line = get(&sidecar, &headers).await.headers()["cache-status"].clone();
        assert!(line.to_str().is_ok_and(|line| line.starts_with("nearside; hit; ttl=")), "{line:?}");
    });
    criterion.bench_function("hit: from a connection's bytes to the answer's", |bencher| {
        speak(&sidecar);
        let (mut connection, bytes) = (Connection::default(), bytes(TARGET));
        bencher.iter(|| connection.hit(&sidecar, black_box(&bytes)));
    });
    criterion.bench_function("hit: the same under a permit", |bencher| {
        let sidecar = live_sidecar::over(config(1, ""), Arc::new(live_sidecar::Ready::granting()));
        runtime.block_on(async {
            get(&sidecar, &headers).await;
            sidecar.fill.shared.tasks.drain(Duration::from_secs(5)).await;
        });
        speak(&sidecar);
        let (mut connection, bytes) = (Connection::default(), bytes(TARGET));
        bencher.iter(|| connection.hit(&sidecar, black_box(&bytes)));
    });
    criterion.bench_function("hit: admitted request to response", |bencher| {
        speak(&sidecar);
        bencher.iter(|| black_box(stored(&sidecar, admitted(&headers))));
    });
    criterion.bench_function("hit: the same by the way that may also ask a region", |bencher| {
        speak(&sidecar);
        bencher.iter(|| black_box(get(&sidecar, &headers).now_or_never().expect("a hit waits for nothing")));
    });
    let names = &sidecar.fill.shared.names;
    criterion.bench_function("hit: decided and answered, the request not made anew", |bencher| {
        speak(&sidecar);
        let request = admitted(&headers);
        let mut kept = headers.clone();
        bencher.iter(|| {
            let (head, mut caller) = (request.head(), Caller::of(&request.headers));
            let shown = found(&sidecar, head, &mut caller);
            kept = show(shown, std::mem::take(&mut kept), names).into_parts().0.headers;
        });
    });
    criterion.bench_function("hit: the request alone, made and dropped", |bencher| {
        bencher.iter(|| black_box(admitted(&headers)));
    });
}

fn parts(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (sidecar, headers) = (live_sidecar::sidecar(config(1, "")), headers());
    runtime.block_on(async {
        nearside::request::serve::serve(&sidecar, admitted(&headers)).await;
        sidecar.fill.shared.tasks.drain(Duration::from_secs(5)).await;
    });
    let mut buffer = KeyBuffer::new(sidecar.fill.shared.hash_key);
    let matched = sidecar.fill.router.find(TARGET).expect("the target is routed");
    let identity = sidecar.fill.shared.keyed_hashes.owner(&matched.route.identity, &headers).0;
    let representation = Representation {
        route: RouteId(0),
        path_and_query: TARGET,
        headers: &headers,
        forward: &[],
        is_form_known: false,
        is_uncoded: false,
        identity,
    };
    criterion.bench_function("identity of the caller", |bencher| {
        bencher.iter(|| sidecar.fill.shared.keyed_hashes.owner(&matched.route.identity, black_box(&headers)));
    });
    criterion.bench_function("key of a routed representation", |bencher| {
        bencher.iter(|| black_box(buffer.routed(black_box(representation)).hash()));
    });
    let entry = sidecar.fill.shared.store.get(buffer.routed(representation)).expect("it was filled");
    let soft_ttl = sidecar.fill.config.cache.soft_ttl;
    criterion.bench_function("judgement: is it fresh now", |bencher| {
        speak(&sidecar);
        bencher.iter(|| {
            let region_views = sidecar.fill.shared.freshness.region_views();
            let found = black_box(&entry).assess(&region_views, sidecar.fill.shared.clock.now());
            assert_eq!(found.map(|found| found.good_for(soft_ttl)), Some(Use::Fresh));
        });
    });
}

/// So many hits and nothing else, to count their instructions
/// (`benches/instructions.sh`).
fn hits(count: usize, from_bytes: bool, regions: live_sidecar::Ready) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (sidecar, headers) = (live_sidecar::over(config(1, ""), Arc::new(regions)), headers());
    runtime.block_on(async {
        get(&sidecar, &headers).await;
        sidecar.fill.shared.tasks.drain(Duration::from_secs(5)).await;
    });
    speak(&sidecar);
    let (mut connection, bytes) = (Connection::default(), bytes(TARGET));
    for _ in 0..count {
        if from_bytes {
            connection.hit(&sidecar, black_box(&bytes));
        } else {
            black_box(stored(&sidecar, admitted(&headers)));
        }
    }
}

/// As [`hits`], for the two largest parts of one.
fn keys_or_judgements(count: usize, keys: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (sidecar, headers) = (live_sidecar::sidecar(config(1, "")), headers());
    runtime.block_on(async {
        nearside::request::serve::serve(&sidecar, admitted(&headers)).await;
        sidecar.fill.shared.tasks.drain(Duration::from_secs(5)).await;
    });
    speak(&sidecar);
    let mut buffer = KeyBuffer::new(sidecar.fill.shared.hash_key);
    let matched = sidecar.fill.router.find(TARGET).expect("the target is routed");
    let identity = sidecar.fill.shared.keyed_hashes.owner(&matched.route.identity, &headers).0;
    let representation = Representation {
        route: RouteId(0),
        path_and_query: TARGET,
        headers: &headers,
        forward: &[],
        is_form_known: false,
        is_uncoded: false,
        identity,
    };
    let entry = sidecar.fill.shared.store.get(buffer.routed(representation)).expect("it was filled");
    for _ in 0..count {
        if keys {
            black_box(buffer.routed(black_box(representation)).hash());
        } else {
            let (region_views, now) = (sidecar.fill.shared.freshness.region_views(), sidecar.fill.shared.clock.now());
            let found = black_box(&entry).assess(&region_views, now);
            black_box(found.map(|found| found.good_for(sidecar.fill.config.cache.soft_ttl)));
        }
    }
}

/// So many hits of two fields of a record of 1 MiB, which somebody has asked for before.
fn fields(count: usize) {
    const TARGET: &str = "/v1/contexts/tenant-4711/full?fields=m0100,m8000.v";
    let members = (0..8192).map(|place| format!(r#""m{place:04}":{{"v":"{}"}}"#, "x".repeat(110)));
    let body = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
    let settings = config_of(1, "fields = \"fields\"", "");
    let sidecar = live_sidecar::over(settings, Arc::new(live_sidecar::Ready::with(body.into_bytes())));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        // The second one cuts them out of what is stored.
        for _ in 0..2 {
            let request = Admitted { path_and_query: TARGET.to_owned(), ..admitted(&headers()) };
            nearside::request::serve::serve(&sidecar, request).await;
            sidecar.fill.shared.tasks.drain(Duration::from_secs(5)).await;
        }
    });
    speak(&sidecar);
    let (mut connection, bytes) = (Connection::default(), bytes(TARGET));
    (0..count).for_each(|_| connection.hit(&sidecar, black_box(&bytes)));
}

/// So many keys in batches of a hundred, all of them stored.
fn keys_of_batches(count: usize) {
    const KEYS: usize = 100;
    let settings = config_of(1, "batch = \"/v1/batch/{view}\"", "");
    let body = format!(r#"{{"padding":"{}"}}"#, "x".repeat(live_sidecar::BODY_BYTES - 14));
    let sidecar = live_sidecar::over(settings, Arc::new(live_sidecar::Ready::with(body.into_bytes())));
    let keys: Vec<_> = (0..KEYS).map(|key| format!(r#""tenant-{key}""#)).collect();
    let body = Bytes::from(format!(r#"{{"keys":[{}]}}"#, keys.join(",")));
    let mut headers = headers();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        batch(&sidecar, &headers, &body).await;
        sidecar.fill.shared.tasks.drain(Duration::from_secs(5)).await;
        speak(&sidecar);
        for _ in 0..count / KEYS {
            black_box(batch(&sidecar, &headers, &body).await);
        }
    });
}

criterion_group!(benches, hit, parts);

async fn batch(sidecar: &Arc<Settings>, headers: &HeaderMap, body: &Bytes) -> Bytes {
    let (method, path_and_query, headers) = (Method::POST, "/v1/batch/full".to_owned(), headers.clone());
    let path_len = path_and_query.len();
    let admitted = Admitted { method, path_and_query, path_len, headers, body: body.clone() };
    let answer = respond(nearside::request::serve::serve(sidecar, admitted).await, &sidecar.fill.shared.names);
    answer.into_body().collect().await.expect("nothing breaks off").to_bytes()
}

fn main() {
    if let Some(count) = counted("NEARSIDE_HITS") {
        hits(count, true, live_sidecar::Ready::new());
    } else if let Some(count) = counted("NEARSIDE_ADMITTED_HITS") {
        hits(count, false, live_sidecar::Ready::new());
    } else if let Some(count) = counted("NEARSIDE_PERMITTED_HITS") {
        hits(count, true, live_sidecar::Ready::granting());
    } else if let Some(count) = counted("NEARSIDE_KEYS") {
        keys_or_judgements(count, true);
    } else if let Some(count) = counted("NEARSIDE_JUDGEMENTS") {
        keys_or_judgements(count, false);
    } else if let Some(count) = counted("NEARSIDE_FIELDS") {
        fields(count);
    } else if let Some(count) = counted("NEARSIDE_BATCHED_KEYS") {
        keys_of_batches(count);
    } else {
        benches();
        Criterion::default().configure_from_args().final_summary();
    }
}

/// Number in an environment variable.
fn counted(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}
