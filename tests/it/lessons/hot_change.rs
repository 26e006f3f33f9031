//! A hot change: 10,000 sidecars hear of it and ask one region's nodes at once. The sidecars are
//! simulated: requests as sidecars send them, of tasks over some two hundred connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nearside::app::App;

use super::super::stage::until;
use super::stage::{Lesson, Node};

const SIDECARS: usize = 10_000;
const CONNECTIONS: usize = 198;
const NODES: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hot_change_costs_nodes_few_reads() {
    let stage = Lesson::begin(&["eu-west-1"], ["hot".to_owned()].into_iter()).await;
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        nodes.push(stage.node(0, |_| ()).await);
    }
    let apps: Vec<&App> = nodes.iter().map(|node| &node.app).collect();
    stage.settle(&apps).await;
    let readers: Vec<_> = nodes.iter().map(|node| stage.readers(node.address())).collect();
    for readers in &readers {
        assert_eq!(readers.read("hot", &[]).await.version, 1);
    }
    for node in &nodes {
        assert_eq!(node.reads(), 1);
    }
    *stage.regions[0].latency.lock().unwrap() = 5..=15;
    let before = stage.ingesting[0].announced();
    let version = stage.write("hot").await;
    until("the announcement", || stage.ingesting[0].announced() > before).await;
    let (floor, asked) = (version.to_string(), Arc::new(AtomicUsize::new(0)));
    let sidecars: Vec<_> = (0..CONNECTIONS)
        .map(|at| {
            let (readers, floor, asked) = (readers[at % NODES].clone(), floor.clone(), asked.clone());
            stage.tasks.spawn("sidecars", async move {
                let (mut below, mut hits) = (0, 0);
                while asked.fetch_add(1, Ordering::Relaxed) < SIDECARS {
                    let lines = [("cache-control", "no-cache"), ("x-record-floor", floor.as_str())];
                    let seen = readers.read("hot", &lines).await;
                    below += usize::from(seen.version < version);
                    hits += usize::from(seen.hit);
                }
                (below, hits)
            })
        })
        .collect();
    let (mut below, mut hits) = (0, 0);
    for sidecar in sidecars {
        let (some_below, some_hits) = sidecar.await.unwrap().unwrap();
        (below, hits) = (below + some_below, hits + some_hits);
    }
    let reads: Vec<u64> = nodes.iter().map(Node::reads).collect();
    println!(
        "lessons: a hot change: {SIDECARS} requests at the new floor over {CONNECTIONS} connections to {NODES} nodes, \
         {hits} answered from the nodes' stores, {below} below the floor, reads of the table {reads:?}"
    );
    readers.iter().for_each(|readers| readers.assert_content());
    assert_eq!(below, 0);
    assert!(reads.iter().all(|reads| (1..=2).contains(reads)), "{reads:?}");
    stage.end(nodes.into_iter().map(|node| node.app).collect()).await;
}
