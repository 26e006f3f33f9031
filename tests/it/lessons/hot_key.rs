//! A hot key at its TTL, with a thousand readers: once at a node, once at a sidecar; with a table
//! that answers and with one that is down. The clock leaps to the TTL in steps, so that each
//! heartbeat in between is heard.

use std::time::Duration;

use futures_util::future::join_all;
use nearside::app::App;

use super::super::stage::until;
use super::readers::{Readers, Seen};
use super::stage::{DOWN, HEALTHY, Lesson, Node};

const READERS: usize = 1_000;
/// Longer than what a sidecar's must be, `freshness.worst_lag`.
const TTL: Duration = Duration::from_secs(65);

async fn all_read(readers: &Readers) -> Vec<Seen> {
    join_all((0..READERS).map(|_| readers.read("hot", &[]))).await
}

/// Reads until what is stored needs no recheck.
async fn settled(readers: &Readers, app: &App) {
    readers.read("hot", &[]).await;
    until("the rechecks", || !app.sidecar.tasks.running().contains_key("recheck")).await;
    let seen = readers.read("hot", &[]).await;
    assert!(seen.hit && seen.label.is_none(), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_key_at_its_ttl_is_one_read_of_a_nodes_table_for_a_thousand_readers() {
    let stage = Lesson::begin(&["eu-west-1"], ["hot".to_owned()].into_iter()).await;
    let node = stage.nodes(Some(TTL)).await.remove(0);
    stage.settle(&[&node.app]).await;
    let readers = stage.readers(node.address());
    settled(&readers, &node.app).await;
    *stage.regions[0].latency.lock().unwrap() = 100..=200;
    stage.pass(TTL, &[&node.app]).await;
    node.reads();
    all_read(&readers).await;
    let reads = node.reads();
    stage.regions[0].faults.set(DOWN);
    stage.pass(TTL, &[&node.app]).await;
    let stale = all_read(&readers).await;
    let (failed, kept) = (node.reads(), stale.iter().filter(|seen| is_stale(seen)).count());
    stage.regions[0].faults.set(HEALTHY);
    println!(
        "lessons: a hot key at its TTL, at a node: {READERS} readers, reads of the table {reads}; with the table down \
         {failed}, and {kept} answers from the store, labelled; 0 failed requests"
    );
    readers.assert_content();
    assert_eq!(reads, 1);
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
    let nodes = stage.nodes(Some(TTL)).await;
    let sidecar = stage.sidecar("[cache]\nttl = \"65s\"\n").await;
    let apps: Vec<&App> = nodes.iter().map(|node| &node.app).chain([&sidecar]).collect();
    stage.settle(&apps).await;
    let readers = stage.readers(sidecar.tcp.unwrap());
    settled(&readers, &sidecar).await;
    for region in &stage.regions {
        *region.latency.lock().unwrap() = 100..=200;
    }
    stage.pass(TTL, &apps).await;
    nodes.iter().for_each(|node| drop(node.table.reads()));
    all_read(&readers).await;
    until("the race's end", || !sidecar.sidecar.tasks.running().contains_key("fill")).await;
    let reads: Vec<u64> = nodes.iter().map(Node::reads).collect();
    stage.regions.iter().for_each(|region| region.faults.set(DOWN));
    stage.pass(TTL, &apps).await;
    let stale = all_read(&readers).await;
    let kept = stale.iter().filter(|seen| seen.version == 1).count();
    let failed: Vec<u64> = nodes.iter().map(Node::reads).collect();
    stage.regions.iter().for_each(|region| region.faults.set(HEALTHY));
    println!(
        "lessons: a hot key at its TTL, at a sidecar: {READERS} readers, reads of the tables {reads:?}; with all \
         tables down {failed:?}, and {kept} answers, {:?}; 0 failed requests",
        readers.labelled(),
    );
    readers.assert_content();
    assert_eq!(reads, [1, 1, 1]);
    assert_eq!(kept, READERS);
    assert!(failed.iter().all(|failed| *failed < READERS as u64 / 50), "{failed:?}");
    stage.end(nodes.into_iter().map(|node| node.app).chain([sidecar]).collect()).await;
}

fn is_stale(seen: &Seen) -> bool {
    seen.label.as_deref() == Some("stale-if-error")
}
