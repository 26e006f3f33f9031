//! A region's table fails for a second, again and again: first one region's, then each region's
//! in its turn. Compressed: one second in each three or six, not in each minute.

use std::sync::atomic::Ordering;
use std::time::Duration;

use nearside::app::App;

use super::load::{self, Load};
use super::stage::{DOWN, HEALTHY, Lesson, Node};

const FAILS_FOR: Duration = Duration::from_secs(1);

/// Reads all the time while the tables of `failing` are down for a second, one after the other.
async fn replay(lesson: &str, failing: &[usize], rounds: usize, rest: Duration) {
    let stage = Lesson::begin(&["eu-west-1", "us-east-1", "ap-southeast-2"], load::keys()).await;
    let (nodes, sidecar) = (stage.nodes(|_| ()).await, stage.sidecar("").await);
    let apps: Vec<&App> = nodes.iter().map(|node| &node.app).chain([&sidecar]).collect();
    stage.settle(&apps).await;
    let load = Load::begin(&stage, stage.readers(sidecar.tcp.unwrap()));
    for _ in 0..rounds {
        for region in failing {
            stage.regions[*region].faults.set(DOWN);
            tokio::time::sleep(FAILS_FOR).await;
            stage.regions[*region].faults.set(HEALTHY);
            tokio::time::sleep(rest).await;
        }
    }
    let readers = load.end().await;
    let failed: Vec<u64> = nodes.iter().map(|node| node.table.failed()).collect();
    println!(
        "lessons: {lesson}: {} requests, {} hits, labelled {:?}; reads of the tables {:?}, failed {failed:?}; 0 failed \
         requests",
        readers.answered.load(Ordering::Relaxed),
        readers.hits.load(Ordering::Relaxed),
        readers.labelled(),
        nodes.iter().map(Node::reads).collect::<Vec<_>>(),
    );
    readers.assert_content();
    for (region, failed) in failed.iter().enumerate() {
        assert_eq!(*failed > 0, failing.contains(&region), "{region}: {failed}");
    }
    stage.end(nodes.into_iter().map(|node| node.app).chain([sidecar]).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flapping_region_table_fails_no_request() {
    replay("one table fails for 1 s in each 3 s", &[0], 3, 2 * FAILS_FOR).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_failing_in_turn_fail_nothing() {
    replay("each of three tables fails for 1 s in each 6 s", &[0, 1, 2], 2, FAILS_FOR).await;
}
