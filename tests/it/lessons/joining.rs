//! A new node takes over under full load: it is cold, it has received nothing, and all requests go
//! to it at once, because the old one stops. Sidecars with nothing stored are simulated: plain
//! requests, over a connection each; and a real one is among them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::super::stage::until;
use super::readers::Readers;
use super::stage::Lesson;

/// Number of records that everybody asks for.
const SHARED: usize = 100;
/// Number of records that only the real sidecar asks for, once each.
const OWN: usize = 4_000;
const SIDECARS: usize = 48;
const CALLERS: usize = 8;
/// The old one still answers for so long, and tells everybody to go elsewhere.
const LINGER: Duration = Duration::from_secs(5);

/// Asks for everything again and again, and once from beginning to end when the new node is there.
async fn ask_for_all(readers: Arc<Readers>, joined: Arc<AtomicBool>) {
    loop {
        let is_last = joined.load(Ordering::Acquire);
        for key in 0..SHARED {
            readers.read(&format!("shared-{key}"), &[]).await;
            if !is_last && joined.load(Ordering::Acquire) {
                break;
            }
        }
        if is_last {
            return;
        }
    }
}

/// A key of the real sidecar's callers alone.
fn own(key: usize) -> String {
    format!("own-{key}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_node_reads_each_key_once() {
    let keys = (0..SHARED).map(|key| format!("shared-{key}")).chain((0..OWN).map(own));
    let stage = Lesson::begin(&["eu-west-1"], keys).await;
    let old = stage.nodes(|config| config.drain.linger = LINGER).await.remove(0);
    let sidecar = stage.sidecar("").await;
    stage.settle(&[&old.app, &sidecar]).await;
    *stage.regions[0].latency.lock().unwrap() = 5..=15;
    let (joined, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let simulated = stage.readers(stage.regions[0].proxy.address);
    let sidecars: Vec<_> =
        (0..SIDECARS).map(|_| stage.tasks.spawn("sidecar", ask_for_all(simulated.clone(), joined.clone()))).collect();
    let (callers, next) = (stage.readers(sidecar.tcp.unwrap()), Arc::new(AtomicUsize::new(0)));
    let calling: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (callers, next, over) = (callers.clone(), next.clone(), over.clone());
            stage.tasks.spawn("caller", async move {
                while !over.load(Ordering::Acquire) {
                    callers.read(&own(next.fetch_add(1, Ordering::Relaxed) % OWN), &[]).await;
                }
            })
        })
        .collect();
    until("the load", || simulated.answered.load(Ordering::Relaxed) > 2 * SHARED as u64).await;
    let new = stage.node(0, |_| ()).await;
    stage.regions[0].proxy.lead_to(new.address());
    let before = old.reads();
    joined.store(true, Ordering::Release);
    tokio::join!(old.app.stop(), async {
        for sidecar in sidecars {
            sidecar.await.unwrap();
        }
    });
    over.store(true, Ordering::Release);
    for caller in calling {
        caller.await.unwrap();
    }
    let reads = new.table.reads();
    let most = *reads.values().max().unwrap();
    let shared = reads.keys().filter(|key| key.starts_with("shared")).count();
    let again = reads.values().filter(|reads| **reads > 1).count();
    println!(
        "lessons: a new node: {} requests of {SIDECARS} simulated sidecars, {} of a real one's callers; the old node \
         had read {before} times; the new one read {} keys once, and {again} of them once more; 0 failed requests",
        simulated.answered.load(Ordering::Relaxed),
        callers.answered.load(Ordering::Relaxed),
        reads.len(),
    );
    simulated.assert_content();
    callers.assert_content();
    // One answer of the old one at least tells each sidecar to go.
    assert!(shared > SHARED / 2, "nearly everything was asked of it: {shared}");
    // What it was reading when its topic's first message came is looked at again (R5), and on a
    // busy machine once or twice more until enough have come.
    assert!(most <= 4 && again <= SIDECARS + CALLERS, "{again}: {reads:?}");
    stage.end(vec![new.app, sidecar]).await;
}
