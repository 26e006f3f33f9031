//! What a feed left out, and what is only on its way.

use futures_util::future::{BoxFuture, FutureExt};

use super::*;
use crate::engine::memory::MemoryStore;
use crate::engine::{Condition, Item, ItemWrite, Topic};
use crate::model::time::Wall;

/// Takes everything, and remembers what the region's table had then.
#[derive(Clone)]
struct Witness {
    own: MemoryStore,
    shown: Arc<std::sync::Mutex<Vec<Vec<u64>>>>,
}

impl Topic for Witness {
    fn publish(&self, messages: Vec<String>) -> BoxFuture<'_, Result<Vec<usize>, EngineError>> {
        for _ in messages {
            let versions = self.own.dump(Table::Contexts).into_iter().map(|item| item.version);
            self.shown.lock().unwrap().push(versions.collect());
        }
        std::future::ready(Ok(Vec::new())).boxed()
    }
}

struct Setting {
    clock: Clock,
    home: MemoryStore,
    own: MemoryStore,
    witness: Witness,
    views: BTreeSet<String>,
    counts: SweepCounts,
}

impl Setting {
    fn new() -> Self {
        let clock = Clock::simulated(Wall::from_millis(1_000_000));
        let (home, own) = (MemoryStore::new(clock.clone()), MemoryStore::new(clock.clone()));
        let witness = Witness { own: own.clone(), shown: Arc::default() };
        let views = BTreeSet::from(["limits".to_owned()]);
        Self { clock, home, own, witness, views, counts: SweepCounts::default() }
    }

    fn sweep(&self) -> CopySweep<'_> {
        CopySweep {
            home: &self.home,
            own: &self.own,
            publisher: Arc::new(RegionPublisher::new("eu", Arc::new(self.witness.clone()), self.clock.clone())),
            views: Some(&self.views),
            clock: &self.clock,
            every: Duration::from_millis(1),
            counts: &self.counts,
        }
    }
}

async fn put(store: &MemoryStore, table: Table, key: &str, version: u64) {
    let item = Item::new(ItemKey::new(bucket::partition("limits", key), key), version).with_body("{}");
    store.write(vec![ItemWrite::Put(table, item, Condition::Any)]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_the_feed_skipped_is_copied_then_announced_and_what_is_newer_stays() {
    let setting = Setting::new();
    let Setting { home, own, witness, counts, .. } = &setting;
    let sweep = setting.sweep();
    for (key, at_home, in_region) in
        [("older", 5, Some(4)), ("missing", 6, None), ("same", 7, Some(7)), ("newer", 8, Some(9))]
    {
        put(home, Table::Views, key, at_home).await;
        if let Some(version) = in_region {
            put(own, Table::Contexts, key, version).await;
        }
    }
    sweep.round().await.unwrap();
    let mut versions: Vec<u64> = own.dump(Table::Contexts).iter().map(|item| item.version).collect();
    versions.sort_unstable();
    assert_eq!(versions, [5, 6, 7, 9]);
    let shown = witness.shown.lock().unwrap().clone();
    assert_eq!(shown.len(), 2);
    assert!(shown[1].contains(&5) && shown[1].contains(&6), "put before it is announced");
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
    assert_eq!((count(&counts.buckets), count(&counts.differing), count(&counts.mended)), (256, 3, 2));
    sweep.round().await.unwrap();
    assert_eq!(count(&counts.mended), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_on_its_way_is_left_to_the_feed() {
    let setting = Setting::new();
    let Setting { home, own, witness, counts, .. } = &setting;
    let sweep = setting.sweep();
    put(home, Table::Views, "late", 5).await;
    let arrives = async {
        tokio::time::sleep(limits::SWEEP_WAIT / 2).await;
        put(own, Table::Contexts, "late", 5).await;
    };
    let (swept, ()) = futures_util::future::join(sweep.round(), arrives).await;
    swept.unwrap();
    assert_eq!(counts.differing.load(Ordering::Relaxed), 0);
    assert!(witness.shown.lock().unwrap().is_empty());
}
