//! A hot key at its TTL, with a thousand readers: once at a node, once at a sidecar; with a table
//! that answers and with one that is down. The clock leaps to the TTL in steps, so that each
//! heartbeat in between is received.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use nearside::app::App;
use nearside::config::Config;

use super::super::stage::until;
use super::readers::{Readers, Seen};
use super::stage::{DOWN, Lesson, Node};

const READERS: usize = 1_000;
/// Longer than what a sidecar's must be, `freshness.worst_lag`.
const TTL: Duration = Duration::from_secs(65);
/// Rest of it when the readers open their connections, which on a slow machine takes them seconds.
const REST: Duration = Duration::from_secs(30);
/// Latency of the table, in milliseconds: as long as many readers need to come.
const LATENCY: RangeInclusive<u64> = 200..=300;

/// The most reads that are one fill's. Who looks just before a fill ends, and asks just after it, asks
/// anew: where readers come slowly, once more.
fn most(shared: usize) -> u64 {
    if shared == READERS - 1 { 1 } else { 2 }
}

/// Answers to the readers shortly before the TTL is over, and when it is.
struct Herd {
    before: Vec<Seen>,
    after: Vec<Seen>,
}

impl Herd {
    /// Readers who shared another's fill.
    fn shared(&self) -> usize {
        self.before.iter().chain(&self.after).filter(|seen| seen.line.contains("; collapsed")).count()
    }
}

fn short_lived(config: &mut Config) {
    config.service.routes.iter_mut().for_each(|route| route.ttl = TTL);
}

async fn all_read(stage: &Lesson, readers: &Arc<Readers>) -> Vec<Seen> {
    let reading = (0..READERS).map(|_| {
        let readers = readers.clone();
        stage.tasks.spawn("reader", async move { readers.read("hot", &[]).await })
    });
    join_all(reading).await.into_iter().map(|read| read.unwrap().unwrap()).collect()
}

/// All read when the TTL is over, and before, so that their connections are open. None fails.
async fn herd(stage: &Lesson, app: &App, apps: &[&App]) -> Herd {
    let readers = stage.readers(app.tcp.unwrap());
    stage.pass(TTL - REST, apps).await;
    let before = all_read(stage, &readers).await;
    stage.pass(REST, apps).await;
    let after = all_read(stage, &readers).await;
    readers.assert_content();
    until("the fills' end", || !app.sidecar.fill.shared.tasks.running().contains_key("fill")).await;
    Herd { before, after }
}

/// Reads until what is stored needs no recheck.
async fn settled(stage: &Lesson, app: &App) {
    let readers = stage.readers(app.tcp.unwrap());
    readers.read("hot", &[]).await;
    until("the rechecks", || !app.sidecar.fill.shared.tasks.running().contains_key("recheck")).await;
    let seen = readers.read("hot", &[]).await;
    assert!(seen.hit && seen.label.is_none(), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_reads_expired_hot_key_once() {
    let stage = Lesson::begin(&["eu-west-1"], ["hot".to_owned()].into_iter()).await;
    let node = stage.nodes(short_lived).await.remove(0);
    stage.settle(&[&node.app]).await;
    settled(&stage, &node.app).await;
    *stage.regions[0].latency.lock().unwrap() = LATENCY;
    node.reads();
    let shared = herd(&stage, &node.app, &[&node.app]).await.shared();
    let reads = node.reads();
    stage.regions[0].faults.set(DOWN);
    let stale = herd(&stage, &node.app, &[&node.app]).await.after;
    let (failed, kept) = (node.reads(), stale.iter().filter(|seen| is_stale(seen)).count());
    println!(
        "lessons: a hot key at its TTL, at a node: {READERS} readers, {shared} of whom share a fill, reads of the \
         table {reads}; with the table down {failed}, and {kept} answers from the store, labelled; 0 failed requests"
    );
    assert!((1..=most(shared)).contains(&reads) && shared > 0, "{reads} for {shared} and one");
    assert_eq!(kept, READERS);
    // A failure is remembered for a second at least.
    assert!((1..READERS as u64 / 20).contains(&failed), "{failed}");
    stage.end(vec![node.app]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regions_read_expired_hot_key_once() {
    let names = ["eu-west-1", "us-east-1", "ap-southeast-2"];
    let stage = Lesson::begin(&names, ["hot".to_owned()].into_iter()).await;
    // What the nodes have stored is over with it.
    let nodes = stage.nodes(short_lived).await;
    let sidecar = stage.sidecar("[cache]\nttl = \"65s\"\n").await;
    let apps: Vec<&App> = nodes.iter().map(|node| &node.app).chain([&sidecar]).collect();
    stage.settle(&apps).await;
    // Nodes first: what they have is then over before the sidecar's is, and none can answer the herd from
    // its store. A recheck of a node's own would count as a second read.
    for node in &nodes {
        settled(&stage, &node.app).await;
    }
    settled(&stage, &sidecar).await;
    for region in &stage.regions {
        *region.latency.lock().unwrap() = LATENCY;
    }
    nodes.iter().for_each(|node| drop(node.table.reads()));
    let shared = herd(&stage, &sidecar, &apps).await.shared();
    let reads: Vec<u64> = nodes.iter().map(Node::reads).collect();
    stage.regions.iter().for_each(|region| region.faults.set(DOWN));
    let kept = herd(&stage, &sidecar, &apps).await.after;
    let failed: Vec<u64> = nodes.iter().map(Node::reads).collect();
    println!(
        "lessons: a hot key at its TTL, at a sidecar: {READERS} readers, {shared} of whom share a fill, reads of the \
         tables {reads:?}; with all tables down {failed:?}, and {} answers; 0 failed requests",
        kept.len(),
    );
    let once = reads.iter().all(|reads| (1..=most(shared)).contains(reads));
    assert!(once && shared > 0, "{reads:?} for {shared} and one");
    assert!(failed.iter().all(|failed| *failed < READERS as u64 / 20), "{failed:?}");
    stage.end(nodes.into_iter().map(|node| node.app).chain([sidecar]).collect()).await;
}

fn is_stale(seen: &Seen) -> bool {
    seen.label.as_deref() == Some("stale-if-error")
}
