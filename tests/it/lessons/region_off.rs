//! A whole region goes off, node and ingester, in the middle of everything; the others change on.
//! Then it is back, with the table that it had. Compressed: the clock leaps over the ten seconds
//! after which another ingester may have the lease.

use std::sync::atomic::Ordering;
use std::time::Duration;

use nearside::app::App;

use super::super::stage::in_time;
use super::load::{self, Load, NO_CACHE};
use super::readers::Readers;
use super::stage::Lesson;

/// Some requests in each part of the lesson.
const REQUESTS: u64 = 80;
const LEASE: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Reads at a region's own address until it shows at least this version.
async fn until_shown(readers: &Readers, key: &str, version: u64) {
    in_time("the region to catch up", async {
        while readers.read(key, &[]).await.version < version {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    })
    .await;
}

async fn until_answered(load: &Load, requests: u64) {
    super::super::stage::until("the load", || load.answered() >= requests).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn region_outage_and_return_revert_nothing() {
    let mut stage = Lesson::begin(&["eu-west-1", "us-east-1", "ap-southeast-2"], load::keys()).await;
    let (mut nodes, sidecar) = (stage.nodes(|_| ()).await, stage.sidecar("").await);
    let apps: Vec<&App> = nodes.iter().map(|node| &node.app).chain([&sidecar]).collect();
    stage.settle(&apps).await;
    let load = Load::begin(&stage, stage.readers(sidecar.tcp.unwrap()));
    until_answered(&load, REQUESTS).await;
    let before = load.answered();
    stage.regions[0].proxy.shut();
    stage.ingesting[0].kill();
    nodes.remove(0).app.stop().await;
    until_answered(&load, before + REQUESTS).await;
    let (off, missed) = (load.answered(), stage.written.newest(&load::hot(0)));
    let back = stage.node(0, |_| ()).await;
    stage.regions[0].proxy.lead_to(back.address());
    stage.ingesting[0] = stage.ingest(0);
    until_answered(&load, off + REQUESTS).await;
    let apps: Vec<&App> = nodes.iter().map(|node| &node.app).chain([&back.app, &sidecar]).collect();
    stage.pass(LEASE, &apps).await;
    until_shown(&stage.readers(back.address()), &load::hot(0), missed).await;
    let caught_up = load.answered();
    until_answered(&load, caught_up + REQUESTS).await;
    let readers = load.end().await;
    // It is as good as before: alone, it answers for all.
    stage.regions[1..].iter().for_each(|region| region.proxy.shut());
    let newest = stage.written.newest(&load::hot(1));
    until_shown(&stage.readers(back.address()), &load::hot(1), newest).await;
    let alone = readers.read(&load::hot(1), &NO_CACHE).await;
    println!(
        "lessons: a region off and back: {before} requests before, {} while it was off, {} while it caught up with {} \
         changes, {} hits, labelled {:?}; 0 failed requests",
        off - before,
        caught_up - off,
        stage.ingesting[0].ingester.counts.put.get(),
        readers.hits.load(Ordering::Relaxed),
        readers.labelled(),
    );
    readers.assert_content();
    assert_eq!((alone.status, alone.version), (200, newest), "{alone:?}");
    stage.end(nodes.into_iter().map(|node| node.app).chain([back.app, sidecar]).collect()).await;
}
