//! Ingesters that are killed, and a topic that remembers what the table held at each message.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex as StdMutex;

use super::*;
use crate::access::record::{CONFIRMED, DOCUMENT};
use crate::engine::committing::Committing;
use crate::engine::faulty::{FaultRates, Faults, Faulty};
use crate::engine::limits::FEED_BATCH;
use crate::engine::memory::MemoryStore;
use crate::engine::{Condition, ItemKey, ItemWrite, Stream, bucket};
use crate::protocol::announcement::decode;
use crate::protocol::announcement::message::AnnouncementKind;
use crate::tasks::FailingTask;
use crate::tasks::Tasks;
use crate::telemetry::limits::RATIONED_LINES;
use crate::telemetry::scripted::CountedLines;
use std::sync::atomic::Ordering;

/// Messages of a topic, and the content of the region's table at each.
#[derive(Clone)]
struct Witness {
    own: MemoryStore,
    said: Arc<StdMutex<Vec<Heard>>>,
}

struct Heard {
    announcement: crate::protocol::announcement::message::Announcement,
    /// The version in the region's table at that time.
    shown: u64,
}

impl Topic for Witness {
    fn publish(&self, messages: Vec<String>) -> BoxFuture<'_, Result<Vec<usize>, EngineError>> {
        for message in messages {
            let announcement = decode(&message).unwrap();
            let key = key(&announcement.key);
            let shown = self.own.get(Table::Contexts, &key).now_or_never().unwrap().unwrap();
            let shown = shown.map_or(0, |item| item.version);
            self.said.lock().push(Heard { announcement, shown });
        }
        std::future::ready(Ok(Vec::new())).boxed()
    }
}

/// Panics at its first announcement.
struct Panics(Witness, AtomicBool);

impl Topic for Panics {
    fn publish(&self, messages: Vec<String>) -> BoxFuture<'_, Result<Vec<usize>, EngineError>> {
        assert!(
            messages.iter().all(|message| decode(message).unwrap().key.is_empty())
                || self.1.swap(true, Ordering::Relaxed),
            "a bug"
        );
        self.0.publish(messages)
    }
}

struct World {
    clock: Clock,
    home: MemoryStore,
    own: MemoryStore,
    faults: Faults,
    witness: Witness,
    /// Time at which each version was written, by key.
    written: HashMap<String, Vec<(Wall, u64)>>,
}

fn key(key: &str) -> ItemKey {
    ItemKey::new(bucket::partition("limits", key), if key.is_empty() { "-" } else { key })
}

fn world() -> World {
    let clock = Clock::simulated(Wall::from_millis(1_000_000_000));
    let (home, own) = (MemoryStore::new(clock.clone()), MemoryStore::new(clock.clone()));
    let witness = Witness { own: own.clone(), said: Arc::default() };
    World { clock, home, own, faults: Faults::default(), witness, written: HashMap::new() }
}

impl World {
    async fn put(&mut self, name: &str, version: u64) {
        let item = Item::new(key(name), version).with_body(format!("{{\"v\":{version}}}"));
        self.home.write(vec![ItemWrite::Put(Table::Views, item, Condition::Any)]).await.unwrap();
        self.written.entry(name.to_owned()).or_default().push((self.clock.wall(), version));
    }

    fn ingester(&self) -> Arc<Ingester> {
        Ingester::new(self.parts())
    }

    fn parts(&self) -> IngestParts {
        IngestParts {
            region: "eu-west-1".to_owned(),
            home: Arc::new(Faulty::new(self.home.clone(), self.faults.clone())),
            own: Arc::new(Faulty::new(self.own.clone(), self.faults.clone())),
            feed: Arc::new(Faulty::new(self.home.feed(Stream::Views), self.faults.clone())),
            topic: Arc::new(Faulty::new(self.witness.clone(), self.faults.clone())),
            views: None,
            clock: self.clock.clone(),
        }
    }

    /// Runs an ingester for a while; then it is killed.
    async fn ingest_for(&self, span: Duration) {
        let running = self.ingester().run(format!("{:x}", fastrand::u64(..)), CancellationToken::new());
        let _ = tokio::time::timeout(span, running).await;
    }

    /// G4, as far as the table shows it.
    fn check(&self, seed: u64) {
        for heard in self.witness.said.lock().iter() {
            if let AnnouncementKind::Changed { version: Some(version) } = heard.announcement.kind {
                assert!(heard.shown >= version, "seed {seed}: announced {version} before it is shown");
            }
        }
    }

    fn versions(&self, tables: &MemoryStore, table: Table) -> Vec<(ItemKey, u64)> {
        tables.dump(table).into_iter().map(|item| (item.key, item.version)).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn repeatedly_killed_ingester_loses_no_change() {
    for seed in 0..30 {
        fastrand::seed(seed);
        let mut world = world();
        let mut version = 0;
        for _ in 0..15 {
            world.faults.set(FaultRates {
                fails: 0.05,
                throttles: 0.05,
                loses_answers: 0.1,
                repeats: 0.2,
                reorders: 0.3,
                splits: 0.2,
                refuses: 0.1,
                ..FaultRates::default()
            });
            for _ in 0..fastrand::u64(0..15) {
                version += 1;
                world.put(&format!("k{}", fastrand::u8(0..8)), version).await;
                tokio::time::advance(Duration::from_millis(fastrand::u64(0..50))).await;
            }
            world.ingest_for(Duration::from_millis(fastrand::u64(0..25_000))).await;
        }
        world.faults.set(FaultRates::default());
        world.ingest_for(Duration::from_secs(60)).await;
        world.check(seed);
        let (home, own) = (world.versions(&world.home, Table::Views), world.versions(&world.own, Table::Contexts));
        assert_eq!(home, own, "seed {seed}");
        let said = world.witness.said.lock();
        for (key, version) in home {
            let is_reported = said.iter().any(|heard| {
                heard.announcement.key == key.sort
                    && heard.announcement.kind == AnnouncementKind::Changed { version: Some(version) }
                    || heard.announcement.kind == AnnouncementKind::Reload
            });
            assert!(is_reported, "seed {seed}: {version} was never announced");
        }
    }
}

/// One window of lines: of the lease, the feed, the sweep and the publisher, in however many terms.
#[tokio::test(start_paused = true)]
async fn failing_store_fills_no_region_log() {
    for (seed, fails) in [(1, 1.0), (2, 0.9), (3, 0.6), (4, 0.3)] {
        fastrand::seed(seed);
        let (mut world, lines) = (world(), CountedLines::start());
        world.put("acme", 1).await;
        let fail = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            world.faults.set(FaultRates { fails, ..FaultRates::default() });
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = world.ingest_for(RATIONED_LINES.1 - Duration::from_secs(1)) => {}
            () = fail => {}
        }
        let (count, said) = lines.most();
        assert!((1..=RATIONED_LINES.0 as usize).contains(&count), "{fails}: {count} of {said:?}");
    }
}

/// A publisher ends with each term, and another one begins in the next.
#[tokio::test(start_paused = true)]
async fn publisher_log_lines_share_one_ration() {
    let (world, lines) = (world(), CountedLines::start());
    world.faults.set(FaultRates { fails: 1.0, ..FaultRates::default() });
    let ingester = world.ingester();
    let mut publisher = ingester.publisher();
    for _ in 0..20 {
        let said = publisher.announce(vec![Said::reload("limits")]);
        assert!(tokio::time::timeout(Duration::from_secs(2), said).await.is_err(), "the topic takes nothing");
        publisher.sign_off(None).await;
        publisher = Arc::new(publisher.successor());
    }
    for said in ["announcements could not be published", "the publisher could not sign off"] {
        assert_eq!(lines.with(said), RATIONED_LINES.0 as usize, "{said}");
    }
}

/// G5, with everything well, with faults, and with the ingester cut off from its topic.
#[tokio::test(start_paused = true)]
async fn heartbeat_claims_only_announced_changes() {
    let mut claims = 0;
    for seed in 0..30 {
        fastrand::seed(seed);
        let mut world = world();
        // The beginning: everything so far is in the scan.
        world.ingest_for(Duration::from_secs(30)).await;
        let began = world.clock.wall();
        let (ingester, stopping) = (world.ingester(), CancellationToken::new());
        let running = ingester.run("b".to_owned(), stopping.clone());
        let mut running = std::pin::pin!(running);
        let mut version = 0;
        for round in 0..200 {
            if round % 20 == 0 {
                let rate = if fastrand::bool() { 0.3 } else { 0.0 };
                let rates = FaultRates { fails: rate, refuses: rate, is_slow: rate, ..FaultRates::default() };
                world.faults.set(FaultRates { slowness: Duration::from_millis(700), splits: 0.3, ..rates });
            }
            version += 1;
            world.put(&format!("k{}", fastrand::u8(0..8)), version).await;
            let _ = tokio::time::timeout(Duration::from_millis(fastrand::u64(0..500)), running.as_mut()).await;
        }
        let said = world.witness.said.lock();
        for (place, heard) in said.iter().enumerate() {
            let AnnouncementKind::Heartbeat { ingested_through: Some(through), .. } = heard.announcement.kind else {
                continue;
            };
            claims += usize::from(through > began);
            for (key, versions) in &world.written {
                let due =
                    versions.iter().filter(|(at, _)| *at > began && *at <= through).map(|(_, version)| *version);
                let Some(due) = due.max() else { continue };
                assert!(
                    said[..place].iter().any(|heard| {
                    heard.announcement.key == *key
                        && matches!(heard.announcement.kind, AnnouncementKind::Changed { version: Some(reported) } if reported >= due)
                }),
                    "seed {seed}: claims {due} of {key} before it is announced"
                );
            }
        }
    }
    assert!(claims > 100, "time is claimed at all: {claims}");
}

#[tokio::test(start_paused = true)]
async fn trimmed_feed_causes_scan_and_reload() {
    let mut world = world();
    world.put("a", 1).await;
    world.ingest_for(Duration::from_secs(30)).await;
    world.put("b", 2).await;
    world.put("c", 3).await;
    world.home.trim(Stream::Views, 0);
    let before = world.witness.said.lock().len();
    world.ingest_for(Duration::from_secs(60)).await;
    let (home, own) = (world.versions(&world.home, Table::Views), world.versions(&world.own, Table::Contexts));
    assert_eq!(home, own);
    let said = world.witness.said.lock();
    assert!(said[before..].iter().any(|heard| heard.announcement.kind == AnnouncementKind::Reload));
}

/// The crash between put and announce: the one that comes after finds its put refused.
#[tokio::test(start_paused = true)]
async fn next_process_announces_unannounced_put() {
    let mut world = world();
    world.ingest_for(Duration::from_secs(30)).await;
    world.put("a", 7).await;
    let item = world.home.dump(Table::Views).remove(0);
    world.own.write(vec![ItemWrite::Put(Table::Contexts, item, Condition::Any)]).await.unwrap();
    world.ingest_for(Duration::from_secs(30)).await;
    let said = world.witness.said.lock();
    assert!(said.iter().any(|heard| heard.announcement.kind == AnnouncementKind::Changed { version: Some(7) }));
}

#[tokio::test(start_paused = true)]
async fn canary_measures_latency_without_being_stored() {
    let world = world();
    world.ingest_for(Duration::from_secs(30)).await;
    let ingester = world.ingester();
    let running = ingester.clone().run("b".to_owned(), CancellationToken::new());
    let mut running = std::pin::pin!(running);
    let _ = tokio::time::timeout(Duration::from_secs(20), running.as_mut()).await;
    let item = Item::new(ItemKey::new("_canary#00", "canary"), world.clock.wall().as_millis()).with_body("{}");
    world.home.write(vec![ItemWrite::Put(Table::Views, item, Condition::Any)]).await.unwrap();
    tokio::time::timeout(Duration::from_secs(3), running.as_mut()).await.unwrap_err();
    assert!(ingester.canary_age().is_some_and(|age| age < Duration::from_secs(4)));
    assert!(world.own.dump(Table::Contexts).is_empty());
    assert!(world.witness.said.lock().iter().all(|heard| heard.announcement.record_type != CANARY));
}

fn of_grants(of: &str) -> ItemKey {
    ItemKey::new(bucket::partition(GRANTS, of), of)
}

/// A region of one view, to which the feed does not bring the document but its confirmation.
#[tokio::test(start_paused = true)]
async fn confirmed_grants_are_fetched_and_announced() {
    let world = world();
    world.ingest_for(Duration::from_secs(30)).await;
    let document = Item::new(of_grants(DOCUMENT), 7).with_body("{}");
    world.home.tamper(Table::Views, &document.key, Some(document.clone()));
    let ingester = Ingester::new(IngestParts { views: Some(BTreeSet::from(["limits".to_owned()])), ..world.parts() });
    let confirmed = Item::new(of_grants(CONFIRMED), world.clock.wall().as_millis()).with_note("7");
    let change = Change { key: confirmed.key.clone(), item: Some(confirmed.clone()), written: world.clock.wall() };
    ingester.apply(vec![change.clone()]).await.unwrap();
    assert_eq!(world.own.dump(Table::Contexts).len(), 2);
    ingester.apply(vec![change]).await.unwrap();
    let said = world.witness.said.lock();
    let of_grants: Vec<_> = said.iter().filter(|heard| heard.announcement.record_type == GRANTS).collect();
    assert_eq!(of_grants.len(), 1, "neither twice, nor the confirmation");
    assert_eq!(of_grants[0].announcement.kind, AnnouncementKind::Changed { version: Some(7) });
}

/// A scan announces a version, so that sidecars forget nothing, as a reload would have them do.
#[tokio::test(start_paused = true)]
async fn scanned_grants_are_announced_not_reloaded() {
    let world = world();
    let document = Item::new(of_grants(DOCUMENT), 7).with_body("{}");
    world.home.write(vec![ItemWrite::Put(Table::Views, document, Condition::Any)]).await.unwrap();
    world.ingest_for(Duration::from_secs(30)).await;
    let said = world.witness.said.lock();
    let kinds: Vec<_> = said
        .iter()
        .filter(|heard| heard.announcement.record_type == GRANTS)
        .map(|heard| heard.announcement.kind)
        .collect();
    assert!(!kinds.is_empty());
    assert!(kinds.iter().all(|kind| *kind == AnnouncementKind::Changed { version: Some(7) }), "{kinds:?}");
}

#[tokio::test(start_paused = true)]
async fn panicked_term_restarts_and_announces_change() {
    let mut world = world();
    world.ingest_for(Duration::from_secs(30)).await;
    let topic = Arc::new(Panics(world.witness.clone(), AtomicBool::new(false)));
    let ingester = Ingester::new(IngestParts { topic, ..world.parts() });
    world.put("a", 7).await;
    let tasks = Tasks::new();
    let stopping = tasks.stopping();
    tasks.spawn_service("ingest", move || ingester.clone().run("b".to_owned(), stopping.clone()));
    // The one before was killed, so its lease has to run out; that of this one is given back.
    tokio::time::sleep(crate::engine::limits::LEASE + BEGIN_PAUSE + Duration::from_secs(6)).await;
    assert_eq!(tasks.failing(), [FailingTask { name: "ingest", panics: 1 }]);
    let said = world.witness.said.lock();
    assert!(said.iter().any(|heard| heard.announcement.kind == AnnouncementKind::Changed { version: Some(7) }));
}

/// From a table that others write too.
#[tokio::test(start_paused = true)]
async fn unstorable_item_blocks_no_ingest() {
    let mut world = world();
    let large = Item::new(key("large"), 1).with_body(vec![b' '; crate::engine::limits::BODY_BYTES + 1]);
    world.home.tamper(Table::Views, &large.key, Some(large.clone()));
    world.put("small", 2).await;
    let ingester = world.ingester();
    let running = ingester.clone().run("b".to_owned(), CancellationToken::new());
    let _ = tokio::time::timeout(Duration::from_secs(20), running).await;
    assert_eq!(ingester.state(), IngestState::Following);
    assert_eq!((world.versions(&world.own, Table::Contexts).len(), ingester.skipped()), (1, 1));
    let other = Item::new(key("other"), 3).with_body("{}");
    let written = world.clock.wall();
    let changes = [large, other].map(|item| Change { key: item.key.clone(), item: Some(item), written });
    let applied = ingester.apply(changes.into());
    tokio::time::timeout(Duration::from_secs(5), applied).await.unwrap().unwrap();
    assert_eq!((world.versions(&world.own, Table::Contexts).len(), ingester.skipped()), (2, 2));
}

/// The changes of one batch of an embedded feed: four writers made a hundred commits of them.
#[tokio::test(start_paused = true)]
async fn five_hundred_changes_take_few_commits() {
    let mut world = world();
    for number in 0..FEED_BATCH {
        world.put(&format!("k{number}"), 5).await;
    }
    let own = Arc::new(Committing::new(world.own.clone()));
    let ingester = Ingester::new(IngestParts { own: own.clone(), ..world.parts() });
    let items = world.home.dump(Table::Views);
    assert_eq!(ingester.put_all(items).await.len(), FEED_BATCH);
    assert!(own.commits() <= 2, "{}", own.commits());
}
