//! Allocations of a hit, from the caller's first byte to the answer's last, hyper and the runtime
//! included; of an unreadable message; of a body's index, whatever it remembers; and of a store
//! with all that is derived in it.
//!
//! One thread does all of it, and counts its own allocations; the caller uses two buffers again and
//! again. The figure is the least of several rounds: whatever else the process does now and then (a
//! tick) only adds.

use std::sync::Arc;

use nearside::app::{self, Overrides};
use nearside::payload::mask::Mask;
use nearside::payload::projection::{Index, project};
use nearside::protocol::announcement::decode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[path = "../benches/live_sidecar/mod.rs"]
mod live_sidecar;
use live_sidecar::{BODY_BYTES, Ready, config, go_live};
#[path = "../benches/churned/mod.rs"]
mod churned;
use churned::Churned;

/// Allocations of a hundred hits: what comes once in a while; a hit makes none.
const PER_HUNDRED_HITS: u64 = 2;

/// Both listeners wherever there is room, and nothing to wait for in the end.
const LISTEN: &str = r#"
[listen]
tcp = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[drain]
linger = "0s"
"#;
const REQUEST: &str = "GET /v1/contexts/tenant-4711/full HTTP/1.1\r\nhost: localhost:8700\r\naccept: application/json\r\n\
                       accept-encoding: gzip, deflate, br\r\nuser-agent: python-requests/2.32\r\n\
                       authorization: Bearer 0123456789abcdef0123456789abcdef\r\n\r\n";

/// Asks once; `answer` holds what came.
async fn ask(stream: &mut TcpStream, answer: &mut [u8]) -> usize {
    stream.write_all(REQUEST.as_bytes()).await.expect("the sidecar listens");
    let mut length = 0;
    loop {
        let read = stream.read(&mut answer[length..]).await.expect("the sidecar answers");
        assert!(read > 0, "the connection ended");
        length += read;
        let head = answer[..length].windows(4).position(|bytes| bytes == b"\r\n\r\n");
        if head.is_some_and(|head| length >= head + 4 + BODY_BYTES) {
            return length;
        }
    }
}

#[test]
fn hundred_hits_stay_within_allocation_limit() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut answer = vec![0; 4096];
    let (app, mut stream) = runtime.block_on(async {
        let instead = Overrides { origin: Some(Arc::new(Ready::new())), ..Overrides::default() };
        let app = app::start_with(config(1, LISTEN), instead).await.unwrap();
        go_live(&app.sidecar);
        let mut stream = TcpStream::connect(app.tcp.unwrap()).await.unwrap();
        ask(&mut stream, &mut answer).await;
        // One region is all regions: they agree as soon as the fill's task has run.
        while app.sidecar.fill.shared.fills.under_way() > 0 {
            tokio::task::yield_now().await;
        }
        let length = ask(&mut stream, &mut answer).await;
        let text = String::from_utf8_lossy(&answer[..length]);
        assert!(text.contains("cache-status: nearside; hit; ttl=") && !text.contains("detail="), "{text}");
        (app, stream)
    });
    let rounds = (0..10).map(|_| {
        let hits = async {
            for _ in 0..100 {
                ask(&mut stream, &mut answer).await;
            }
        };
        allocation_counter::measure(|| runtime.block_on(hits)).count_total
    });
    let least = rounds.min();
    assert!(least.is_some_and(|least| least <= PER_HUNDRED_HITS), "{least:?} allocations in a hundred hits");
    drop(stream);
    runtime.block_on(app.stop());
}

#[test]
fn mistyped_field_costs_little_extra_memory() {
    let text = format!(r#"{{"key":"a","version":[{}0]}}"#, r#"{"":0},"#.repeat(1 << 15));
    let used = allocation_counter::measure(|| assert!(decode(&text).is_err()));
    println!("{} bytes at most for a message of {}", used.bytes_max, text.len());
    assert!(used.bytes_max < 4 * text.len() as u64, "{} of {}", used.bytes_max, text.len());
}

#[test]
fn index_memory_stays_within_its_weight() {
    for members in [200, 1000] {
        let body = format!(
            "{{{}}}",
            (0..members)
                .map(|at| {
                    format!(r#""f{at}":{{"text":"{}","list":[{}0]}}"#, "x".repeat(at % 90), "7,".repeat(at % 400))
                })
                .collect::<Vec<_>>()
                .join(",")
        );
        let masks: Vec<_> = (0..members).map(|at| format!("f{at},f{}.text,f{}", at / 2, at / 3)).collect();
        let masks: Vec<_> = masks.iter().map(|text| Mask::literal(text).unwrap()).collect();
        // The thread's own part of what readers share is made once.
        project_all(&body, &Index::of(body.as_bytes()).unwrap(), &masks[..100]);
        let mut made = None;
        let used = allocation_counter::measure(|| {
            let index = Index::of(body.as_bytes()).unwrap();
            project_all(&body, &index, &masks[..100]);
            made = Some(index);
        });
        let (weight, beside) = (made.unwrap().weight(), size_of::<Index>());
        let taken = used.bytes_current as usize + beside;
        println!("{taken} bytes of {weight}, of a body of {}", body.len());
        assert!(taken <= weight && taken > weight / 3, "{taken} of {weight}");
    }
}

fn project_all(body: &str, index: &Index, masks: &[Mask]) {
    masks.iter().for_each(|mask| assert!(project(body.as_bytes(), Some(index), mask).is_ok()));
}

#[test]
fn store_memory_matches_reckoned_weight() {
    const RECORDS: usize = 2000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let churned = runtime.block_on(Churned::of(RECORDS, 1 << 30));
    let store = &churned.sidecar.fill.shared.store;
    let mut taken = 0;
    let mut step = |name: &str, work: &mut dyn FnMut()| {
        taken += allocation_counter::measure(work).bytes_current;
        let counted = churned.recount();
        let reckoned = store.bytes();
        println!("{name}: {counted:?}, {reckoned} bytes reckoned, {taken} taken");
        let share = taken as f64 / reckoned as f64;
        assert!((0.93..1.07).contains(&share), "{name}: {taken} bytes taken, {reckoned} reckoned");
        counted
    };
    let read = step("read", &mut || runtime.block_on(churned.read(0..RECORDS)));
    assert_eq!((read.entries, read.derived), (RECORDS as u64, 0));
    let derived = step("derived", &mut || runtime.block_on(churned.derive(0..RECORDS)));
    assert_eq!(derived.derived, RECORDS as u64 / 2);
    assert!(derived.derived_weight > read.weight / 3, "a share that counts");
    let same = step("same", &mut || runtime.block_on(churned.replace((0..RECORDS).step_by(3), false)));
    assert_eq!(
        (same.derived, same.derived_weight),
        (derived.derived, derived.derived_weight),
        "the same bytes keep what was made of them"
    );
    let other = step("other", &mut || runtime.block_on(churned.replace((0..RECORDS).step_by(5), true)));
    assert_eq!(other.derived, (RECORDS / 2 - RECORDS / 10) as u64, "other bytes do not");
    step("again", &mut || runtime.block_on(churned.derive(0..RECORDS)));
    let half = store.bytes() / 2;
    let evicted = step("evicted", &mut || runtime.block_on(store.resize(half)));
    assert!(evicted.entries < RECORDS as u64 * 6 / 10, "{evicted:?}");
    step("full", &mut || {
        runtime.block_on(async {
            churned.read(0..RECORDS).await;
            churned.derive(0..RECORDS).await;
        });
    });
    assert!(store.bytes() > half * 9 / 10, "it is full again");
}
