//! Memory of an entry beyond its contents, and the cost of a hit among a thousand of them and among
//! a million.
//!
//! A sidecar without sockets is filled through its real fill path, with regions that answer at
//! once. A reply comes as hyper brings it: lines and body are slices of a read buffer of 8 KiB that
//! several replies of one connection share.
//!
//! Counted as held, and taken off what is measured:
//! * key: the bytes of the key under which the entry is stored: the path and query, 16 bytes for
//!   whose reply it is, the codings and `Accept` of the request, the route, and four bytes per part
//!   for its length;
//! * headers: of each stored line its name, its value and the four bytes around them in HTTP/1.1;
//! * body: its bytes.
//!
//! What is left is the entry's own: places in tables, links, times, versions, the record's state,
//! the request to ask again with, and what the allocator adds. By allocator count it is what was
//! asked for and not given back, by RSS what the process grew by. Every entry is hit once before
//! that, since the first hit makes its bytes shared.
//!
//! Weighed is what the store counts of it against its capacity; it should be what it takes by RSS.
//! The last lines say where the bytes are, by count: each part is made by itself; the store's own
//! and the index from records to keys are what remains.
//!
//! `NEARSIDE_ENTRIES=N` takes one size alone, `NEARSIDE_HITS=M` does so many hits after it and no
//! timing, to count instructions.

use std::alloc::System;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cap::Cap;
use futures_util::future::{BoxFuture, FutureExt};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use nearside::cache::entry::Entry;
use nearside::cache::key::{HashKey, Key, KeyBuffer, Representation};
use nearside::http::admission::Admitted;
use nearside::http::exchange::{Failure, Origin, Outgoing, Reply};
use nearside::model::ids::{RecordId, RegionId, TypeId, Version};
use nearside::model::time::Clock;
use nearside::protocol::limits::FLOOR_SLOTS;
use nearside::protocol::{Freshness, RecordCapacity};
use nearside::request::answer::respond;
use nearside::request::settings::Settings;

mod live_sidecar;
use live_sidecar::{BODY_BYTES as BODY, config, speak};

#[global_allocator]
static COUNTED: Cap<System> = Cap::new(System, usize::MAX);

const READ_BUFFER: usize = 8192;
/// Hits that are timed, and how often.
const HITS: (usize, usize) = (200_000, 7);

/// A region that answers at once, over one connection.
struct Ready {
    clock: Clock,
    buffer: Mutex<BytesMut>,
}

impl Ready {
    /// The next so many bytes of what the connection brings.
    fn read(&self, text: &[u8]) -> Bytes {
        let mut buffer = self.buffer.lock().expect("nobody panics under it");
        if buffer.capacity() < text.len() {
            *buffer = BytesMut::with_capacity(READ_BUFFER);
        }
        buffer.extend_from_slice(text);
        buffer.split().freeze()
    }
}

fn lines(number: u64) -> [(HeaderName, String); 6] {
    [
        (header::CONTENT_TYPE, "application/json".to_owned()),
        (header::ETAG, format!("\"{number:016x}\"")),
        (header::CACHE_CONTROL, "max-age=60".to_owned()),
        (header::DATE, "Fri, 15 Jan 2027 08:00:00 GMT".to_owned()),
        (HeaderName::from_static("x-record-version"), (number + 1).to_string()),
        (header::CONTENT_LENGTH, BODY.to_string()),
    ]
}

impl Origin for Ready {
    fn ask(&self, region: RegionId, asked: Arc<Outgoing>, _: Duration) -> BoxFuture<'static, Result<Reply, Failure>> {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let number = asked
            .path_and_query
            .bytes()
            .filter(u8::is_ascii_digit)
            .skip(1)
            .fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
        let reply = Reply {
            region,
            status: StatusCode::OK,
            headers: lines(number)
                .map(|(name, value)| {
                    let value =
                        HeaderValue::from_maybe_shared(self.read(value.as_bytes())).expect("a header's value");
                    // A name that is not a standard one is made anew for each reply.
                    (HeaderName::from_bytes(name.as_str().as_bytes()).expect("a header's name"), value)
                })
                .into_iter()
                .collect(),
            body: self.read(&[b'x'; BODY]),
            versions: vec![Version(number + 1)],
            sent: now,
            sent_wall: wall,
            received: now,
            grants: None,
        };
        async move { Ok(reply) }.boxed()
    }
}

fn target(number: usize) -> String {
    format!("/v1/contexts/tenant-{number}/full")
}

fn admitted(number: usize) -> Admitted {
    let lines = [
        (header::HOST, "127.0.0.1:8700"),
        (header::ACCEPT, "application/json"),
        (header::ACCEPT_ENCODING, "gzip, deflate, br"),
        (header::USER_AGENT, "python-requests/2.32"),
    ];
    let headers: HeaderMap = lines.map(|(name, value)| (name, HeaderValue::from_static(value))).into_iter().collect();
    let path_and_query = target(number);
    Admitted { method: Method::GET, path_len: path_and_query.len(), path_and_query, headers, body: Bytes::new() }
}

/// A sidecar with room for all of it.
fn sidecar() -> Arc<Settings> {
    let origin = Ready { clock: Clock::System, buffer: Mutex::default() };
    live_sidecar::over(config(1, "[cache]\nmax_bytes = \"8GiB\"\n"), Arc::new(origin))
}

/// Resident memory that is the process's own, bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("RssAnon")).expect("it says");
    let kib = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    kib.expect("a number") * 1024
}

/// Bytes of one entry's contents: key, header lines, body.
fn held(sidecar: &Settings, number: usize) -> u64 {
    let admitted = admitted(number);
    let matched = sidecar.fill.router.find(&admitted.path_and_query).expect("it is routed");
    let identity = sidecar.fill.shared.keyed_hashes.owner(&matched.route.identity, &admitted.headers).0;
    let mut buffer = KeyBuffer::new(sidecar.fill.shared.hash_key);
    let key = buffer.routed(Representation {
        route: matched.id,
        path_and_query: &admitted.path_and_query,
        headers: &admitted.headers,
        forward: &[],
        is_form_known: false,
        is_uncoded: false,
        identity,
    });
    let lines: usize = lines(number as u64).iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    (key.to_key().len() + lines + BODY) as u64
}

struct Measured {
    entries: usize,
    held: f64,
    by_count: f64,
    by_rss: f64,
    weighed: f64,
    hit: f64,
}

async fn measure(entries: usize, hits: Option<usize>) -> Measured {
    let sidecar = sidecar();
    // Tables of the process, and whatever else the first fill makes.
    nearside::request::serve::serve(&sidecar, admitted(entries)).await;
    let (allocated, grown) = (COUNTED.allocated(), resident());
    for number in 0..entries {
        if number % 1000 == 0 {
            speak(&sidecar);
        }
        let response =
            respond(nearside::request::serve::serve(&sidecar, admitted(number)).await, &sidecar.fill.shared.names);
        assert_eq!(response.status(), StatusCode::OK);
    }
    while sidecar.fill.shared.fills.under_way() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(sidecar.fill.shared.store.entries(), entries as u64 + 1, "all of them are stored");
    for number in 0..entries {
        if number % 1000 == 0 {
            speak(&sidecar);
        }
        hit(&sidecar, number);
    }
    let total = (0..entries).step_by(997).map(|number| held(&sidecar, number)).sum::<u64>();
    let held = total as f64 / (0..entries).step_by(997).count() as f64;
    let [by_count, by_rss, weighed] = [
        COUNTED.allocated() as f64 - allocated as f64,
        resident() as f64 - grown as f64,
        sidecar.fill.shared.store.bytes() as f64,
    ]
    .map(|bytes| bytes / entries as f64 - held);
    let mut random = fastrand::Rng::with_seed(1);
    if let Some(hits) = hits {
        (0..hits).for_each(|_| hit(&sidecar, random.usize(..entries)));
        return Measured { entries, held, by_count, by_rss, weighed, hit: f64::NAN };
    }
    let mut rounds: Vec<f64> = (0..HITS.1)
        .map(|_| {
            speak(&sidecar);
            let wanted: Vec<usize> = (0..HITS.0).map(|_| random.usize(..entries)).collect();
            let started = sidecar.fill.shared.clock.now();
            wanted.iter().for_each(|number| hit(&sidecar, *number));
            sidecar.fill.shared.clock.now().since(started).as_nanos() as f64 / HITS.0 as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    Measured { entries, held, by_count, by_rss, weighed, hit: rounds[HITS.1 / 2] }
}

/// Bytes of each part of one of `entries`, by count, beyond its contents.
fn parts(entries: usize) -> [(&'static str, f64); 2] {
    let mut buffer = KeyBuffer::new(HashKey::fixed(7));
    let keys: Vec<Key> = (0..entries).map(|number| buffer.primary(&target(number)).to_key()).collect();
    let before = COUNTED.allocated();
    let records = {
        let settings = config(1, "").freshness.protocol();
        let freshness = Freshness::new(&settings, 1, RecordCapacity::new(FLOOR_SLOTS, 0), Clock::System.now());
        let ids = keys.iter().map(|key| RecordId { record_type: TypeId(0), hash: key.as_ref().hash() });
        let pinned: Box<[_]> = ids.map(|id| freshness.pin(id)).collect();
        Box::new((freshness, pinned))
    };
    let taken = COUNTED.allocated() as f64 - before as f64;
    drop(records);
    [
        ("the record", taken / entries as f64 - size_of::<usize>() as f64),
        ("the entry", (size_of::<Entry>() + 2 * size_of::<usize>()) as f64),
    ]
}

/// A request made, served from the store, its response dropped.
fn hit(sidecar: &Arc<Settings>, number: usize) {
    let outcome =
        nearside::request::serve::serve(sidecar, admitted(number)).now_or_never().expect("a hit waits for nothing");
    black_box(respond(outcome, &sidecar.fill.shared.names));
}

#[allow(clippy::print_stdout, reason = "what it is for")]
fn main() {
    let hits = counted("NEARSIDE_HITS");
    let sizes = counted("NEARSIDE_ENTRIES").map_or_else(|| vec![1_000, 100_000, 1_000_000], |size| vec![size]);
    println!(
        "{:>9}  {:>10}  {:>13}  {:>11}  {:>7}  {:>9}",
        "entries", "held each", "beyond: count", "beyond: RSS", "weighed", "hit, ns"
    );
    for size in sizes {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let Measured { entries, held, by_count, by_rss, weighed, hit } = runtime.block_on(measure(size, hits));
        println!("{entries:>9}  {held:>10.0}  {by_count:>13.0}  {by_rss:>11.0}  {weighed:>7.0}  {hit:>9.0}");
        if hits.is_none() {
            let parts = parts(size);
            let rest = by_count - parts.iter().map(|(_, bytes)| bytes).sum::<f64>();
            let parts: Vec<String> = parts.iter().map(|(part, bytes)| format!("{part} {bytes:.0}")).collect();
            println!("{:>9}  of it: {}, the store's places and the index {rest:.0}", "", parts.join(", "));
        }
    }
}

/// Number in an environment variable.
fn counted(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}
