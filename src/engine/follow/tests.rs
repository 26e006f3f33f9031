//! Feeds that misbehave, leases that move, and readers that are killed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, BoxStream, StreamExt};
use parking_lot::Mutex;

use super::super::faulty::{FaultRates, Faults, Faulty};
use super::super::lease::LeasePlace;
use super::super::memory::MemoryStore;
use super::super::{Change, Feed, FeedBatch, FeedShard, Stream};
use super::*;
use crate::engine::delegate_tables;
use crate::model::time::Clock;

/// Remembers what it was given.
#[derive(Default)]
struct Taken {
    versions: Mutex<BTreeSet<u64>>,
}

impl Apply for Taken {
    fn apply(&self, changes: Vec<Change>) -> BoxFuture<'_, Result<(), EngineError>> {
        let versions = changes.iter().filter_map(|change| change.item.as_ref()).map(|item| item.version);
        self.versions.lock().extend(versions);
        std::future::ready(Ok(())).boxed()
    }
}

struct Setting {
    clock: Clock,
    store: MemoryStore,
    follower: Follower,
    faults: Faults,
}

fn setting() -> Setting {
    let clock = Clock::simulated(Wall::from_millis(1_000_000_000));
    let store = MemoryStore::new(clock.clone());
    let faults = Faults::default();
    let follower = Follower {
        feed: Arc::new(Faulty::new(store.feed(Stream::Changes), faults.clone())),
        tables: Arc::new(store.clone()),
        table: Table::Mapping,
        name: "changes",
        clock: clock.clone(),
        progress: Arc::default(),
    };
    Setting { clock, store, follower, faults }
}

impl Setting {
    async fn lease(&self, holder: &str) -> Arc<Lease> {
        let place = LeasePlace {
            tables: Arc::new(self.store.clone()),
            table: Table::Mapping,
            job: "views".into(),
            holder: holder.to_owned(),
            clock: self.clock.clone(),
            lines: Arc::default(),
        };
        Arc::new(place.acquire().await)
    }

    async fn put(&self, version: u64) {
        let item = Item::new(ItemKey::new("t#00", format!("{version}")), version);
        self.store.write(vec![ItemWrite::Put(Table::Records, item, Condition::Any)]).await.unwrap();
    }

    /// Follows for a while, then stops as a killed process would.
    async fn follow_for(
        &self,
        lease: &Arc<Lease>,
        apply: &Arc<impl Apply + 'static>,
        span: Duration,
    ) -> Option<FollowEnd> {
        let apply: Arc<dyn Apply> = apply.clone();
        tokio::time::timeout(span, self.follower.follow(lease, &apply)).await.ok()
    }
}

#[tokio::test(start_paused = true)]
async fn killed_reader_resumes_without_loss() {
    for seed in 0..20 {
        fastrand::seed(seed);
        let setting = setting();
        let rates = FaultRates { fails: 0.1, repeats: 0.2, reorders: 0.3, splits: 0.3, ..FaultRates::default() };
        setting.faults.set(rates);
        let (lease, taken) = (setting.lease("a").await, Arc::new(Taken::default()));
        setting.follower.begin(&lease, setting.clock.wall()).await.unwrap();
        let mut version = 0;
        for _ in 0..40 {
            for _ in 0..fastrand::u64(0..20) {
                version += 1;
                setting.put(version).await;
            }
            let killed_after = Duration::from_millis(fastrand::u64(0..3_000));
            assert_eq!(setting.follow_for(&lease, &taken, killed_after).await, None);
        }
        setting.faults.set(FaultRates::default());
        setting.follow_for(&lease, &taken, Duration::from_secs(30)).await;
        assert_eq!(taken.versions.lock().len() as u64, version, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn reader_without_lease_moves_no_position() {
    let setting = setting();
    let (first, taken) = (setting.lease("a").await, Arc::new(Taken::default()));
    setting.follower.begin(&first, setting.clock.wall()).await.unwrap();
    let _second = setting.lease("b").await;
    setting.put(1).await;
    let end = setting.follow_for(&first, &taken, Duration::from_secs(30)).await;
    assert_eq!(end, Some(FollowEnd::LeaseLost));
    assert!(setting.follower.checkpoints().await.unwrap().shards.is_empty());
}

#[tokio::test(start_paused = true)]
async fn trimmed_feed_is_reported_and_restartable() {
    let setting = setting();
    let (lease, taken) = (setting.lease("a").await, Arc::new(Taken::default()));
    setting.follower.begin(&lease, setting.clock.wall()).await.unwrap();
    setting.put(1).await;
    tokio::time::advance(Duration::from_secs(5)).await;
    setting.follow_for(&lease, &taken, Duration::from_secs(5)).await;
    for version in 2..10 {
        setting.put(version).await;
    }
    setting.store.trim(Stream::Changes, 1);
    assert_eq!(setting.follow_for(&lease, &taken, Duration::from_secs(5)).await, Some(FollowEnd::Trimmed));
    setting.follower.forget(&lease).await.unwrap();
    assert_eq!(setting.follower.begun().await, Ok(None));
    assert_eq!(setting.follower.progress.through(), None, "nothing is claimed");
}

#[tokio::test(start_paused = true)]
async fn applied_time_follows_clock_and_feed() {
    let setting = setting();
    let (lease, taken) = (setting.lease("a").await, Arc::new(Taken::default()));
    setting.follower.begin(&lease, setting.clock.wall()).await.unwrap();
    assert_eq!(setting.follower.progress.through(), None);
    setting.follow_for(&lease, &taken, Duration::from_secs(60)).await;
    let through = setting.follower.progress.through().unwrap();
    assert!(setting.clock.wall().since(through) <= limits::FEED_IDLE * 2);
    setting.faults.set(FaultRates { fails: 1.0, ..FaultRates::default() });
    setting.follow_for(&lease, &taken, Duration::from_secs(60)).await;
    assert!(setting.follower.progress.through() <= Some(through + limits::FEED_IDLE));
    assert!(!setting.follower.progress.failing().is_empty());
}

fn shard(id: &str, parents: &[&str]) -> FeedShard {
    let parents = parents.iter().map(|parent| ShardId((*parent).to_owned())).collect();
    FeedShard { id: ShardId(id.to_owned()), parents }
}

#[test]
fn children_are_read_after_parents() {
    let shards = [shard("a", &[]), shard("b", &["a"]), shard("c", &["a", "gone"]), shard("d", &["b", "c"])];
    let mut known = Checkpoints::default();
    assert_eq!(ready_ids(&shards, &known), ["a"]);
    known.shards.insert(ShardId("a".to_owned()), Checkpoint::Ended);
    assert_eq!(ready_ids(&shards, &known), ["b", "c"], "a parent that is gone holds nobody up");
    let progress = FeedProgress::default();
    progress.applied(&ShardId("a".to_owned()), Some(Wall::from_millis(5)));
    progress.ended(&ShardId("a".to_owned()), &shards[1..3]);
    progress.applied(&ShardId("b".to_owned()), Some(Wall::from_millis(9)));
    assert_eq!(progress.through(), Some(Wall::from_millis(5)), "c has not been read");
    progress.applied(&ShardId("c".to_owned()), Some(Wall::from_millis(7)));
    assert_eq!(progress.through(), Some(Wall::from_millis(7)));
}

/// The shards that may be read while none is.
fn ready_ids(shards: &[FeedShard], known: &Checkpoints) -> Vec<String> {
    ready(shards, known, &BTreeSet::new()).iter().map(|shard| shard.id.0.clone()).collect()
}

/// A shard that ended and was forgotten while nobody read: what it held is not in the feed.
#[test]
fn shard_vanished_unread_is_noticed() {
    assert!(with_shard_at(Checkpoint::Oldest).any_lost(&[shard("b", &[])]));
    assert!(!with_shard_at(Checkpoint::Ended).any_lost(&[shard("b", &[])]));
    assert!(!with_shard_at(Checkpoint::After("7".to_owned())).any_lost(&[shard("a", &[])]));
}

/// Checkpoints of the shard `a`.
fn with_shard_at(checkpoint: Checkpoint) -> Checkpoints {
    Checkpoints { shards: BTreeMap::from([(ShardId("a".to_owned()), checkpoint)]), ..Checkpoints::default() }
}

/// A shard that ends when it is read a second time; the one behind it says nothing yet.
struct Resharded;

impl Feed for Resharded {
    fn shards(&self) -> BoxFuture<'_, Result<Vec<FeedShard>, EngineError>> {
        let shards = vec![FeedShard { id: ShardId("old".to_owned()), parents: Vec::new() }];
        std::future::ready(Ok(shards)).boxed()
    }

    fn open(&self, shard: &ShardId, _: Position) -> BoxStream<'static, Result<FeedBatch, EngineError>> {
        let child = FeedShard { id: ShardId("new".to_owned()), parents: vec![ShardId("old".to_owned())] };
        if shard.0 != "old" {
            return stream::pending().boxed();
        }
        let batches = [(5, None), (900, Some(vec![child]))].map(|(through, ended)| {
            let (changes, next, through) = (Vec::new(), Position::Oldest, Some(Wall::from_millis(through)));
            Ok(FeedBatch { changes, next, through, ended })
        });
        stream::iter(batches).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn child_claims_no_more_than_parent() {
    let mut setting = setting();
    setting.follower.feed = Arc::new(Resharded);
    let (lease, taken) = (setting.lease("a").await, Arc::new(Taken::default()));
    setting.follow_for(&lease, &taken, Duration::from_secs(5)).await;
    assert_eq!(setting.follower.progress.through(), Some(Wall::from_millis(5)));
    let known = setting.follower.checkpoints().await.unwrap();
    assert_eq!(known.from(&ShardId("old".to_owned())), Position::Oldest);
    let child = known.from(&ShardId("new".to_owned()));
    assert_eq!(child, Position::At(Wall::from_millis(5)), "which is trimmed some time, as Oldest never is");
}

/// Panics when it is given its first change.
#[derive(Default)]
struct Panics {
    taken: Taken,
    has_panicked: AtomicBool,
}

impl Apply for Panics {
    fn apply(&self, changes: Vec<Change>) -> BoxFuture<'_, Result<(), EngineError>> {
        assert!(self.has_panicked.swap(true, Ordering::Relaxed), "a bug");
        self.taken.apply(changes)
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_reader_ends_term_and_rereads() {
    let setting = setting();
    let (lease, panics) = (setting.lease("a").await, Arc::new(Panics::default()));
    setting.follower.begin(&lease, setting.clock.wall()).await.unwrap();
    setting.put(1).await;
    let span = Duration::from_secs(30);
    assert_eq!(setting.follow_for(&lease, &panics, span).await, Some(FollowEnd::Panicked));
    assert_eq!(setting.follow_for(&lease, &panics, span).await, None);
    assert_eq!(panics.taken.versions.lock().len(), 1);
}

/// Shards that get on all the time; the first can fail.
struct Shards {
    count: usize,
    first_fails: bool,
}

impl Feed for Shards {
    fn shards(&self) -> BoxFuture<'_, Result<Vec<FeedShard>, EngineError>> {
        let shards = (0..self.count).map(|number| shard(&format!("{number:03}"), &[])).collect();
        std::future::ready(Ok(shards)).boxed()
    }

    fn open(&self, shard: &ShardId, _: Position) -> BoxStream<'static, Result<FeedBatch, EngineError>> {
        if self.first_fails && shard.0 == "000" {
            let error = EngineError::Unavailable { what: "a shard".to_owned(), why: "a test".to_owned() };
            return stream::iter([Err(error)]).boxed();
        }
        stream::iter(1..)
            .then(|number| async move {
                tokio::time::sleep(Duration::from_millis(100)).await;
                let (next, through) = (Position::After(number.to_string()), Some(Wall::from_millis(number)));
                Ok(FeedBatch { changes: Vec::new(), next, through, ended: None })
            })
            .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn one_failing_shard_is_reported() {
    let mut setting = setting();
    setting.follower.feed = Arc::new(Shards { count: 3, first_fails: true });
    let (lease, taken) = (setting.lease("a").await, Arc::new(Taken::default()));
    setting.follow_for(&lease, &taken, Duration::from_millis(30_050)).await;
    let failing = setting.follower.progress.failing();
    let parts: Vec<&str> = failing.iter().map(|failing| failing.part.as_str()).collect();
    assert_eq!(parts, ["shard 000"]);
    assert!(setting.clock.now().since(failing[0].since) > Duration::from_secs(29), "since its first failure");
}

/// Counts the transactions that write positions, and their largest.
struct Counting {
    store: MemoryStore,
    writes: AtomicUsize,
    largest: AtomicUsize,
}

impl Tables for Counting {
    delegate_tables!(store: get, query, last, scan);

    fn write(&self, writes: Vec<ItemWrite>) -> BoxFuture<'_, Result<(), WriteError>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.largest.fetch_max(writes.len(), Ordering::Relaxed);
        self.store.write(writes)
    }
}

#[tokio::test(start_paused = true)]
async fn shard_positions_are_written_together() {
    for (shards, each_second) in [(50, 1), (150, 2)] {
        let mut setting = setting();
        let counts = (AtomicUsize::new(0), AtomicUsize::new(0));
        let tables = Arc::new(Counting { store: setting.store.clone(), writes: counts.0, largest: counts.1 });
        setting.follower.tables = tables.clone();
        setting.follower.feed = Arc::new(Shards { count: shards, first_fails: false });
        let (lease, taken) = (setting.lease("a").await, Arc::new(Taken::default()));
        setting.follow_for(&lease, &taken, Duration::from_secs(10)).await;
        let writes = tables.writes.load(Ordering::Relaxed);
        assert!((8 * each_second..=11 * each_second).contains(&writes), "{shards} shards: {writes}");
        assert!(tables.largest.load(Ordering::Relaxed) <= limits::TRANSACTION_ITEMS);
        assert_eq!(setting.follower.checkpoints().await.unwrap().shards.len(), shards);
    }
}
