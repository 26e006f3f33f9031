//! Tables that take anything from 1 to 200 ms, that turn from quick to slow and back at a moment's
//! notice, and sometimes hang.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nearside::app::App;
use nearside::engine::faulty::FaultRates;

use super::stage::{HEALTHY, Lesson};
use super::table::Latency;

const KEYS: usize = 1_000;
const READERS: usize = 12;
/// Milliseconds that a read takes, in turns.
const WEATHERS: [RangeInclusive<u64>; 2] = [1..=100, 150..=200];
/// Keys until they turn: more than a node remembers, so that it does not expect the slow ones.
const TURNS_EACH: usize = 200;
/// One read in fifty does not come back.
const HANGS: FaultRates = FaultRates { is_slow: 0.02, slowness: Duration::from_secs(600), ..HEALTHY };

fn turn(latencies: &[Latency], turns: usize) {
    for (region, latency) in latencies.iter().enumerate() {
        *latency.lock().unwrap() = WEATHERS[(turns + region) % WEATHERS.len()].clone();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_tables_fail_no_request() {
    let keys = (0..KEYS).map(|key| format!("key-{key}"));
    let stage = Lesson::begin(&["eu-west-1", "us-east-1", "ap-southeast-2"], keys).await;
    let (nodes, sidecar) = (stage.nodes(|_| ()).await, stage.sidecar("").await);
    let apps: Vec<&App> = nodes.iter().map(|node| &node.app).chain([&sidecar]).collect();
    stage.settle(&apps).await;
    stage.regions.iter().for_each(|region| region.read_faults.set(HANGS));
    let latencies: Vec<Latency> = stage.regions.iter().map(|region| region.latency.clone()).collect();
    let (readers, next) = (stage.readers(sidecar.tcp.unwrap()), Arc::new(AtomicUsize::new(0)));
    let reading: Vec<_> = (0..READERS)
        .map(|_| {
            let (readers, next, clock) = (readers.clone(), next.clone(), stage.clock.clone());
            let latencies = latencies.clone();
            stage.tasks.spawn("reader", async move {
                let mut took = Vec::new();
                loop {
                    let key = next.fetch_add(1, Ordering::Relaxed);
                    if key >= KEYS {
                        return took;
                    }
                    if key.is_multiple_of(TURNS_EACH) {
                        turn(&latencies, key / TURNS_EACH);
                    }
                    let asked = clock.now();
                    readers.read(&format!("key-{key}"), &[]).await;
                    took.push(clock.now() - asked);
                }
            })
        })
        .collect();
    let mut took = Vec::new();
    for reader in reading {
        took.extend(reader.await.unwrap().unwrap());
    }
    took.sort_unstable();
    let reads: Vec<BTreeMap<String, u64>> = nodes.iter().map(|node| node.table.reads()).collect();
    let first: Vec<u64> = reads.iter().map(|reads| reads.len() as u64).collect();
    let second: Vec<u64> =
        reads.iter().map(|reads| reads.values().map(|reads| reads.saturating_sub(1)).sum()).collect();
    println!(
        "lessons: latency of 1 to 200 ms, one read in 50 hangs: {} requests, p50 {:?}, p99 {:?}, longest {:?}; reads \
         {first:?}, second reads {second:?}; 0 failed requests",
        took.len(),
        took[took.len() / 2],
        took[took.len() * 99 / 100],
        took[took.len() - 1],
    );
    readers.assert_content();
    assert_eq!(readers.answered.load(Ordering::Relaxed), KEYS as u64);
    for (first, second) in first.iter().zip(&second) {
        assert!(*second > 0 && second * 20 <= *first, "{second} second reads of {first}");
    }
    stage.end(nodes.into_iter().map(|node| node.app).chain([sidecar]).collect()).await;
}
