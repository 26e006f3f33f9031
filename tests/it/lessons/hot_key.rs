//! A hot key at its TTL, with a thousand readers: once at a node, once at a sidecar; with a table
//! that answers and with one that is down. The clock leaps to the TTL in steps, so that each
//! heartbeat in between is heard.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use nearside::app::App;
use nearside::config::Config;

use super::super::stage::until;
use super::readers::{Readers, Seen};
use super::stage::{DOWN, HEALTHY, Lesson, Node};

const READERS: usize = 1_000;
/// Longer than what a sidecar's must be, `freshness.worst_lag`.
const TTL: Duration = Duration::from_secs(65);
/// Of the table, in milliseconds: as long as many readers need to come.
const LATENCY: RangeInclusive<u64> = 200..=300;

fn shared(seen: &[Seen]) -> usize {
    seen.iter().filter(|seen| seen.line.contains("; collapsed")).count()
}

fn short_lived(config: &mut Config) {
    config.service.routes.iter_mut().for_each(|route| route.ttl = TTL);
}

/// Each over a connection that is open already, except the first time.
async fn all_read(stage: &Lesson, readers: &Arc<Readers>) -> Vec<Seen> {
    let reading = (0..READERS).map(|_| {
        let readers = readers.clone();
        stage.tasks.spawn("reader", async move { readers.read("hot", &[]).await })
    });
    join_all(reading).await.into_iter().map(|read| read.unwrap().unwrap()).collect()
}

/// Reads until what is stored needs no recheck.
async fn settled(stage: &Lesson, readers: &Arc<Readers>, app: &App) {
    readers.read("hot", &[]).await;
    until("the rechecks", || !app.sidecar.tasks.running().contains_key("recheck")).await;
    let seen = all_read(stage, readers).await;
    assert!(seen.iter().all(|seen| seen.hit && seen.label.is_none()), "{:?}", seen[0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_key_at_its_ttl_is_one_read_of_a_nodes_table_for_a_thousand_readers() {
    let stage = Lesson::begin(&["eu-west-1"], ["hot".to_owned()].into_iter()).await;
    let node = stage.nodes(short_lived).await.remove(0);
    stage.settle(&[&node.app]).await;
    let readers = stage.readers(node.address());
    settled(&stage, &readers, &node.app).await;
    *stage.regions[0].latency.lock().unwrap() = LATENCY;
    stage.pass(TTL, &[&node.app]).await;
    node.reads();
    let shared = shared(&all_read(&stage, &readers).await);
    let reads = node.reads();
    stage.regions[0].faults.set(DOWN);
    stage.pass(TTL, &[&node.app]).await;
    let stale = all_read(&stage, &readers).await;
    let (failed, kept) = (node.reads(), stale.iter().filter(|seen| is_stale(seen)).count());
    stage.regions[0].faults.set(HEALTHY);
    println!(
        "lessons: a hot key at its TTL, at a node: {READERS} readers, {shared} of whom share a fill, reads of the \
         table {reads}; with the table down {failed}, and {kept} answers from the store, labelled; 0 failed requests"
    );
    readers.assert_content();
    assert!(reads == 1 && shared > 0, "{reads} for {shared} and one");
    assert_eq!(kept, READERS);
    // A failure is remembered for a second at least.
    assert!((1..READERS as u64 / 50).contains(&failed), "{failed}");
    stage.end(vec![node.app]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_key_at_its_ttl_is_one_read_of_each_regions_table_for_a_sidecars_thousand_readers() {
    let names = ["eu-west-1", "us-east-1", "ap-southeast-2"];
    let stage = Lesson::begin(&names, ["hot".to_owned()].into_iter()).await;
    // What the nodes have stored is over with it.
    let nodes = stage.nodes(short_lived).await;
    let sidecar = stage.sidecar("[cache]\nttl = \"65s\"\n").await;
    let apps: Vec<&App> = nodes.iter().map(|node| &node.app).chain([&sidecar]).collect();
    stage.settle(&apps).await;
    let readers = stage.readers(sidecar.tcp.unwrap());
    settled(&stage, &readers, &sidecar).await;
    for region in &stage.regions {
        *region.latency.lock().unwrap() = LATENCY;
    }
    stage.pass(TTL, &apps).await;
    nodes.iter().for_each(|node| drop(node.table.reads()));
    let shared = shared(&all_read(&stage, &readers).await);
    until("the race's end", || !sidecar.sidecar.tasks.running().contains_key("fill")).await;
    let reads: Vec<u64> = nodes.iter().map(Node::reads).collect();
    stage.regions.iter().for_each(|region| region.faults.set(DOWN));
    stage.pass(TTL, &apps).await;
    let stale = all_read(&stage, &readers).await;
    let kept = stale.iter().filter(|seen| seen.version == 1).count();
    let failed: Vec<u64> = nodes.iter().map(Node::reads).collect();
    stage.regions.iter().for_each(|region| region.faults.set(HEALTHY));
    println!(
        "lessons: a hot key at its TTL, at a sidecar: {READERS} readers, {shared} of whom share a fill, reads of the \
         tables {reads:?}; with all tables down {failed:?}, and {kept} answers, labelled {:?}; 0 failed requests",
        readers.labelled(),
    );
    readers.assert_content();
    assert!(reads == [1, 1, 1] && shared > 0, "{reads:?} for {shared} and one");
    assert_eq!(kept, READERS);
    assert!(failed.iter().all(|failed| *failed < READERS as u64 / 50), "{failed:?}");
    stage.end(nodes.into_iter().map(|node| node.app).chain([sidecar]).collect()).await;
}

fn is_stale(seen: &Seen) -> bool {
    seen.label.as_deref() == Some("stale-if-error")
}
