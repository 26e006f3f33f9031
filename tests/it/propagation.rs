//! Time from the publication of a change until the sidecar's callers see it: the real SNS and SQS
//! protocols, three regions without ingest lag, a reader that asks every millisecond.

use std::time::Duration;

use futures_util::future::join_all;
use nearside::model::time::Clock;

use super::announced::{Announced, TIMEOUT, Wish, changed, emptied};
use super::emulator::{Emulator, REGIONS};

const CHANGES: u64 = 200;
const RECORDS: u64 = 10;
/// Promised time of propagation, at 50 and at 99 of a hundred.
const PROMISED: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(500));

/// Publishes one change after the other and follows each until a caller sees it; returns how long
/// each took.
///
/// The regions take turns to announce first. The other two announce a change once it was seen: so
/// what is measured is one topic's way, and not which of three the emulator happens to serve first.
async fn follow(announced: &Announced, queues: &[(aws_sdk_sqs::Client, String)]) -> Vec<Duration> {
    let keys: Vec<String> = (0..RECORDS).map(|record| format!("tenant-{record}")).collect();
    for key in &keys {
        announced.put(key, 1);
        assert_eq!(announced.read(key).await.version, 1);
    }
    let clock = Clock::System;
    let mut took = Vec::new();
    for change in 0..CHANGES {
        let (key, version) = (&keys[(change % RECORDS) as usize], change / RECORDS + 2);
        let before = announced.read(key).await;
        assert!(before.is_hit() && before.version == version - 1, "{before:?}: only an announcement can change it");
        let message = changed(key, version);
        announced.put(key, version);
        let published = clock.now();
        let seen = async {
            let mut every = tokio::time::interval(Duration::from_millis(1));
            every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
            loop {
                every.tick().await;
                let seen = announced.read(key).await;
                assert_eq!(seen.status, 200);
                if seen.version == version {
                    return clock.now() - published;
                }
            }
        };
        let seen = tokio::time::timeout(TIMEOUT, seen);
        let first = (change % 3) as usize;
        let (seen, ()) = tokio::join!(seen, announced.publish(first, &message));
        took.push(seen.expect("a change is seen in time"));
        tokio::join!(announced.publish((first + 1) % 3, &message), announced.publish((first + 2) % 3, &message));
        // Each announcement is applied.
        announced.until_counted("applied", 3 * (change + 1)).await;
        // A change is measured by itself, not behind what the emulator still does about those
        // before it.
        join_all(queues.iter().map(|(sqs, url)| emptied(sqs, url))).await;
    }
    took.sort_unstable();
    took
}

/// One measurement at a time: the other transport's load is none of this one's.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

async fn is_seen_in_time(transport: &'static str, name: &'static str) {
    let _alone = ALONE.lock().await;
    let announced = Announced::subscribed(Wish::over(transport, name)).await;
    let mut queues = Vec::new();
    if transport == "sqs" {
        for (region, name) in REGIONS.into_iter().enumerate() {
            queues.push((Emulator::shared().sqs(name), announced.queue_url(region).await));
        }
    }
    let took = follow(&announced, &queues).await;
    let [p50, p99, worst] = [50, 99, 100].map(|share| took[took.len() * share / 100 - 1]);
    println!("publish -> visible over {transport}, {CHANGES} changes: p50 {p50:?}, p99 {p99:?}, worst {worst:?}");
    announced.stop().await;
    assert!(p50 <= PROMISED.0 && p99 <= PROMISED.1, "p50 {p50:?}, p99 {p99:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqs_change_arrives_within_500_ms() {
    is_seen_in_time("sqs", "propagates-sqs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_change_arrives_within_500_ms() {
    is_seen_in_time("http", "propagates-http").await;
}
