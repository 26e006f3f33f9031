//! The contract, commits that several share, and what a disk gets wrong.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::stream::StreamExt;
use redb::StorageBackend;
use redb::backends::InMemoryBackend;
use tempfile::TempDir;

use super::super::{
    Condition, Feed, FeedBatch, Item, ItemKey, ItemWrite, Page, Position, ScanSegment, ShardId, Stream, Table,
    Tables, WriteError, contract,
};
use super::layout::{Key, Value};
use super::*;

mod commits;

fn opened(directory: &TempDir) -> Embedded {
    Embedded::open(directory.path(), Clock::System).unwrap()
}

fn item(sort: &str, version: u64) -> Item {
    Item::new(ItemKey::new("t#00", sort), version).with_body(&b"{}"[..])
}

fn put(item: Item) -> ItemWrite {
    ItemWrite::Put(Table::Records, item, Condition::Any)
}

/// A write of one item that must not be there.
fn insert(item: Item) -> Vec<ItemWrite> {
    vec![ItemWrite::Put(Table::Records, item, Condition::Absent)]
}

async fn read(store: &RedbStore, from: Position) -> Result<FeedBatch, EngineError> {
    store.feed(Stream::Changes).open(&ShardId(String::new()), from).next().await.unwrap()
}

async fn versions(store: &RedbStore, from: Position) -> Vec<u64> {
    read(store, from)
        .await
        .unwrap()
        .changes
        .iter()
        .map(|change| change.item.as_ref().map_or(0, |item| item.version))
        .collect()
}

#[tokio::test]
async fn it_keeps_the_contract_of_stores() {
    let directory = TempDir::new().unwrap();
    contract::store(&opened(&directory).place("home")).await;
}

#[tokio::test(start_paused = true)]
async fn it_keeps_the_contract_of_feeds() {
    let directory = TempDir::new().unwrap();
    let clock = Clock::simulated(Wall::from_millis(1_000_000));
    let store = Embedded::open(directory.path(), clock).unwrap().place("home");
    contract::feed(&store, &store.feed(Stream::Changes)).await;
}

#[tokio::test]
async fn queued_writes_commit_together_fail_alone() {
    let directory = TempDir::new().unwrap();
    let store = opened(&directory).place("home");
    let turn = store.writer.turn.clone().lock_owned().await;
    let [new, again] = [1, 2].map(|version| store.write(insert(item("one", version))));
    let next = ItemWrite::Put(Table::Records, item("one", 4), Condition::VersionIs(1));
    let release = async {
        tokio::task::yield_now().await;
        drop(turn);
    };
    let other =
        vec![put(item("other", 5)), ItemWrite::Check(Table::Records, item("one", 0).key, Condition::Below(5))];
    let (first, second, third, other, ()) =
        tokio::join!(new, again, store.write(vec![next]), store.write(other), release);
    assert_eq!((first, second), (Ok(()), Err(WriteError::Conflict(vec![0]))));
    assert_eq!((third, other), (Ok(()), Ok(())), "each sees what those before it wrote");
    let batch = read(&store, Position::Oldest).await.unwrap();
    let seen: Vec<_> = batch.changes.iter().map(|it| (it.item.as_ref().unwrap().version, it.written)).collect();
    let together = seen[0].1;
    assert_eq!(seen, [(1, together), (4, together), (5, together)], "in order");
}

#[tokio::test]
async fn abandoned_queued_write_never_commits() {
    let directory = TempDir::new().unwrap();
    let store = opened(&directory).place("home");
    let turn = store.writer.turn.clone().lock_owned().await;
    let mut given_up = store.write(vec![put(item("one", 1))]);
    assert!(futures_util::poll!(&mut given_up).is_pending());
    drop(given_up);
    drop(turn);
    store.write(vec![put(item("two", 1))]).await.unwrap();
    assert_eq!(store.get(Table::Records, &item("one", 1).key).await, Ok(None));
    assert_eq!(versions(&store, Position::Oldest).await, [1]);
}

#[tokio::test]
async fn reopened_file_keeps_places_apart() {
    let directory = TempDir::new().unwrap();
    let nested = directory.path().join("made/when/missing");
    {
        let embedded = Embedded::open(&nested, Clock::System).unwrap();
        embedded.place("home").write(vec![put(item("one", 1)), put(item("two", 2))]).await.unwrap();
        let error = Embedded::open(&nested, Clock::System).map(drop).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("made/when/missing") && text.contains("another process has it open"), "{text}");
    }
    let embedded = Embedded::open(&nested, Clock::System).unwrap();
    let (home, region) = (embedded.place("home"), embedded.place("eu-west-1"));
    assert_eq!(home.get(Table::Records, &item("two", 2).key).await, Ok(Some(item("two", 2))));
    assert_eq!(region.get(Table::Records, &item("two", 2).key).await, Ok(None));
    home.write(vec![put(item("three", 3))]).await.unwrap();
    assert_eq!(versions(&home, Position::After("1".to_owned())).await, [2, 3], "its feed goes on");
    assert_eq!(versions(&region, Position::Oldest).await, [] as [u64; 0]);
    let unknown = read(&region, Position::After("1".to_owned())).await;
    assert!(matches!(unknown, Err(EngineError::Refused { .. })));
}

#[tokio::test]
async fn trimmed_feed_never_reuses_numbers() {
    let directory = TempDir::new().unwrap();
    let clock = Clock::simulated(Wall::from_millis(1_700_000_000_000));
    let store = Embedded::bounded(directory.path(), clock.clone(), 5).unwrap().place("home");
    for version in 0..8 {
        store.write(vec![put(item("k", version))]).await.unwrap();
        // Of two that were written at one time the first may be gone, and then so is that time.
        clock.suspend(Duration::from_millis(2));
    }
    assert_eq!(versions(&store, Position::Oldest).await, [3, 4, 5, 6, 7], "so many it keeps");
    assert!(matches!(read(&store, after(2)).await, Err(EngineError::Trimmed { .. })));
    store.trim(Stream::Changes, &[after(6), after(5)]).await.unwrap();
    store.trim(Stream::Changes, &[after(1)]).await.unwrap();
    assert_eq!(versions(&store, Position::Oldest).await, [5, 6, 7]);
    assert_eq!(versions(&store, after(6)).await, [6, 7]);
    assert!(matches!(read(&store, after(9)).await, Err(EngineError::Refused { .. })), "never given");
    assert!(store.trim(Stream::Changes, &[after(9)]).await.is_err());
    let written = read(&store, after(7)).await.unwrap().changes[0].written;
    assert!(versions(&store, Position::At(written)).await.ends_with(&[7]));
    assert!(versions(&store, Position::At(written + Duration::from_millis(1))).await.is_empty());
    store.trim(Stream::Changes, &[after(8)]).await.unwrap();
    drop(store);
    let store = opened(&directory).place("home");
    store.write(vec![put(item("k", 8))]).await.unwrap();
    assert_eq!(versions(&store, after(8)).await, [8]);
}

fn after(number: u64) -> Position {
    Position::After(number.to_string())
}

#[tokio::test]
async fn feeds_and_tables_come_in_pages() {
    let directory = TempDir::new().unwrap();
    let store = opened(&directory).place("home");
    for first in [0, 50] {
        let large =
            (first..first + 50).map(|number| put(item(&format!("{number:03}"), number).with_body(vec![7; 40_000])));
        store.write(large.collect()).await.unwrap();
    }
    let first = read(&store, Position::Oldest).await.unwrap();
    assert_eq!(first.changes.len(), 1 + limits::REDB_PAGE_BYTES / 40_020);
    assert!(first.through < Some(first.changes.last().unwrap().written), "the rest was written then too");
    let mut feed = store.feed(Stream::Changes).open(&ShardId(String::new()), Position::Oldest);
    let mut seen = 0;
    while seen < 100 {
        seen += feed.next().await.unwrap().unwrap().changes.len();
    }
    let (mut after, mut seen) = (None, 0);
    loop {
        let page = store.scan(Table::Records, ScanSegment::WHOLE, after, 1_000).await.unwrap();
        assert!(page.items.len() <= first.changes.len(), "by bytes too");
        seen += page.items.len();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, 100);
}

#[tokio::test]
async fn expired_items_go_replaced_items_stay() {
    let directory = TempDir::new().unwrap();
    let embedded = opened(&directory);
    let store = embedded.place("home");
    for item in [due("gone", 10), due("kept", 11), due("longer", 10), due("for ever", 10)] {
        store.write(insert(item)).await.unwrap();
    }
    let conflict = store.write(insert(due("gone", 20))).await;
    assert_eq!(conflict, Err(WriteError::Conflict(vec![0])), "as long as it is there");
    store.write(vec![put(due("longer", 20)), put(item("for ever", 1))]).await.unwrap();
    assert_eq!(embedded.expire(Wall::from_millis(10)).await, Ok(false));
    let page = store.query(Table::Records, "t#00", None, 10).await.unwrap();
    let left: Vec<_> = page.items.iter().map(|item| item.key.sort.as_str()).collect();
    assert_eq!(left, ["for ever", "kept", "longer"]);
    assert_eq!(versions(&store, Position::After("6".to_owned())).await, [0], "its feed tells of the removal");
    embedded.expire(Wall::from_millis(20)).await.unwrap();
    assert_eq!(store.query(Table::Records, "t#00", None, 10).await.unwrap().items.len(), 1);
}

fn due(sort: &str, at: u64) -> Item {
    item(sort, 1).expiring(Wall::from_millis(at))
}

/// A disk that may be full.
#[derive(Debug)]
struct Small(InMemoryBackend, Arc<AtomicBool>);

impl StorageBackend for Small {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> std::io::Result<()> {
        let is_full = self.1.load(Ordering::Relaxed);
        if is_full { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.0.write(offset, data)
    }
}

#[tokio::test(start_paused = true)]
async fn full_disk_is_reported_and_recovers() {
    let directory = TempDir::new().unwrap();
    let clock = Clock::simulated(Wall::from_millis(1_000));
    let store = Embedded::open(directory.path(), clock.clone()).unwrap().place("home");
    store.write(vec![put(item("one", 1))]).await.unwrap();
    let is_full = Arc::new(AtomicBool::new(false));
    let small = redb::Builder::new().create_with_backend(Small(InMemoryBackend::new(), is_full.clone())).unwrap();
    *store.writer.disk.database.write() = Some(small);
    store.write(vec![put(item("two", 2))]).await.unwrap();
    is_full.store(true, Ordering::Relaxed);
    let Err(WriteError::Engine(error)) = store.write(vec![put(item("three", 3))]).await else { panic!("it fails") };
    let text = error.to_string();
    assert!(matches!(error, EngineError::Full { .. }) && text.contains("the disk is full"), "{text}");
    assert!(text.contains(directory.path().to_str().unwrap()), "{text}");
    clock.step_wall(1_000);
    let through = read(&store, Position::Oldest).await.unwrap().through;
    assert!(through < Some(Wall::from_millis(1_500)), "what failed may be there in the end: {through:?}");
    assert_eq!(store.get(Table::Records, &item("one", 1).key).await, Ok(Some(item("one", 1))), "opened again");
    store.write(vec![put(item("four", 4))]).await.unwrap();
    assert_eq!(versions(&store, Position::Oldest).await, [1, 4]);
    assert!(read(&store, Position::Oldest).await.unwrap().through >= Some(Wall::from_millis(1_999)));
}

#[tokio::test]
async fn open_failure_names_path_and_remedy() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("nearside.redb");
    std::fs::write(&file, b"something else altogether").unwrap();
    let error = Embedded::open(directory.path(), Clock::System).map(drop).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, EngineError::Refused { .. }) && text.contains("give another directory"), "{text}");
    let error = Embedded::open(&file, Clock::System).map(drop).unwrap_err();
    assert!(matches!(error, EngineError::Missing { .. }), "{error}");
    assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn a_file_cut_short_says_so() {
    let directory = TempDir::new().unwrap();
    let store = opened(&directory).place("home");
    for number in 0..20 {
        store.write(vec![put(item("one", number + 1).with_body(vec![7; 50_000]))]).await.unwrap();
    }
    drop(store);
    let path = directory.path().join("nearside.redb");
    let whole = std::fs::read(&path).unwrap();
    for left in [1, 100, 320, 4096, whole.len() / 3, whole.len() / 2, whole.len() - 4096, whole.len() - 1] {
        std::fs::write(&path, &whole[..left]).unwrap();
        let opened = Embedded::open(directory.path(), Clock::System).map(|opened| opened.place("home"));
        let text = match opened {
            Err(error) => error.to_string(),
            Ok(store) => match store.get(Table::Records, &item("one", 1).key).await {
                Err(error) => error.to_string(),
                Ok(found) => {
                    assert_eq!(found.map(|item| item.version), Some(20), "{left}");
                    continue;
                }
            },
        };
        assert!(!text.contains("buffer") && text.contains(directory.path().to_str().unwrap()), "{left}: {text}");
        assert!(text.contains("restore nearside.redb"), "{left}: {text}");
    }
}

#[test]
fn emptied_file_is_no_new_catalogue() {
    let directory = TempDir::new().unwrap();
    drop(opened(&directory));
    let file = directory.path().join("nearside.redb");
    assert!(std::fs::metadata(&file).unwrap().len() > 0);
    assert!(!directory.path().join("nearside.redb-new").exists());
    std::fs::write(&file, "").unwrap();
    let error = Embedded::open(directory.path(), Clock::System).map(drop).unwrap_err();
    assert!(matches!(error, EngineError::Refused { .. }) && error.to_string().contains("file is empty"), "{error}");
    std::fs::remove_file(&file).unwrap();
    assert!(Embedded::open(directory.path(), Clock::System).is_ok());
}

#[test]
fn vanished_file_is_no_new_catalogue() {
    let directory = TempDir::new().unwrap();
    let [file, away] = ["nearside.redb", "away"].map(|name| directory.path().join(name));
    let disk = disk::Disk::open(directory.path()).unwrap();
    let failed = disk.with(|_| Err::<(), _>(io::Error::other("the device is gone").into()));
    assert!(matches!(failed, Err(EngineError::Unavailable { .. })));
    std::fs::rename(&file, &away).unwrap();
    let error = disk.with(|_| Ok(())).unwrap_err();
    assert!(matches!(error, EngineError::Refused { .. }) && error.to_string().contains("file is gone"), "{error}");
    assert!(!file.exists());
    std::fs::rename(&away, &file).unwrap();
    assert!(disk.with(|_| Ok(())).is_ok());
}

#[test]
fn dangling_symlink_is_no_new_catalogue() {
    // To a file system that is not mounted; to itself, which cannot even be looked at.
    for target in ["absent/nearside.redb", "nearside.redb"] {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("nearside.redb");
        std::os::unix::fs::symlink(directory.path().join(target), &file).unwrap();
        let error = Embedded::open(directory.path(), Clock::System).map(drop).unwrap_err();
        assert!(matches!(error, EngineError::Refused { .. } | EngineError::Unavailable { .. }), "{error}");
        assert!(std::fs::read_link(&file).is_ok(), "it is not replaced");
    }
}

#[test]
fn only_one_process_creates_file() {
    let directory = TempDir::new().unwrap();
    let beginner = std::fs::File::open(directory.path()).unwrap();
    beginner.try_lock().unwrap();
    let error = Embedded::open(directory.path(), Clock::System).map(drop).unwrap_err();
    assert!(error.to_string().contains("another process has it open"), "{error}");
    drop(beginner);
    assert!(Embedded::open(directory.path(), Clock::System).is_ok());
}

/// Writes over an item's bytes, and over its change in the feed, as a later version might.
fn spoil(store: &RedbStore, sort: &'static str, change: u64) {
    let later = b"\x09 the format of a later version".as_slice();
    let spoiled = store.writer.disk.change(|transaction| {
        let name = layout::table_name("home", Table::Records);
        transaction.open_table(TableDefinition::<Key, Value>::new(&name))?.insert(("t#00", sort), later)?;
        let name = layout::feed_name("home", Stream::Changes);
        let mut feed = transaction.open_table(TableDefinition::<u64, Entry>::new(&name))?;
        feed.insert(change, (1, "t#00", sort, later))?;
        Ok(((), disk::Keep::All))
    });
    spoiled.unwrap();
}

#[tokio::test]
async fn unreadable_item_is_error_not_absence() {
    let directory = TempDir::new().unwrap();
    let store = opened(&directory).place("home");
    store.write(vec![put(item("one", 1)), put(item("two", 2))]).await.unwrap();
    spoil(&store, "one", 0);
    let error = store.get(Table::Records, &item("one", 1).key).await.unwrap_err();
    assert!(matches!(error, EngineError::Refused { .. }), "{error}");
    let ItemKey { partition, sort } = item("one", 1).key;
    let error = store.last(Table::Records, &partition, &sort).await.unwrap_err();
    assert!(matches!(error, EngineError::Refused { .. }), "{error}");
    assert!(store.write(vec![put(item("one", 3))]).await.is_err());
    assert_eq!(store.get(Table::Records, &item("two", 2).key).await, Ok(Some(item("two", 2))));
    assert!(store.writer.disk.database.read().is_some(), "the file is well, and stays open");
}

#[tokio::test]
async fn unreadable_item_blocks_nothing_else() {
    let directory = TempDir::new().unwrap();
    let store = opened(&directory).place("home");
    store.write(vec![put(item("a", 1)), put(item("b", 2)), put(item("c", 3))]).await.unwrap();
    spoil(&store, "b", 1);
    assert_eq!(sorts(store.query(Table::Records, "t#00", None, 10).await.unwrap()), ["a", "c"]);
    let first = store.scan(Table::Records, ScanSegment::WHOLE, None, 1).await.unwrap();
    let rest = store.scan(Table::Records, ScanSegment::WHOLE, first.next.clone(), 1).await.unwrap();
    assert_eq!((sorts(first), sorts(rest)), (vec!["a".to_owned()], vec!["c".to_owned()]));
    assert_eq!(versions(&store, Position::Oldest).await, [1, 3]);
    assert_eq!(store.skipped(), 3);
    let turn = store.writer.turn.clone().lock_owned().await;
    let release = async {
        tokio::task::yield_now().await;
        drop(turn);
    };
    let [first, bad, last] = ["a", "b", "c"].map(|sort| store.write(vec![put(item(sort, 4))]));
    let (first, bad, last, ()) = tokio::join!(first, bad, last, release);
    assert_eq!((first, last), (Ok(()), Ok(())));
    assert!(matches!(bad, Err(WriteError::Engine(EngineError::Refused { .. }))), "it alone: {bad:?}");
}

fn sorts(page: Page) -> Vec<String> {
    page.items.into_iter().map(|item| item.key.sort).collect()
}

#[tokio::test(start_paused = true)]
async fn housekeeping_removes_expired_and_consumed() {
    let directory = TempDir::new().unwrap();
    let clock = Clock::simulated(Wall::from_millis(1_000_000_000));
    let embedded = Embedded::open(directory.path(), clock.clone()).unwrap();
    let (home, region) = (embedded.place("home"), embedded.place("eu-west-1"));
    let requests = item("key", 1).expiring(clock.wall() + Duration::from_secs(1));
    home.write(vec![ItemWrite::Put(Table::Requests, requests, Condition::Any)]).await.unwrap();
    write_versions(&home, 10).await;
    tokio::time::advance(limits::REDB_FEED_KEPT * 2).await;
    embedded.keep_house("home").await.unwrap();
    assert!(home.scan(Table::Requests, ScanSegment::WHOLE, None, 9).await.unwrap().items.is_empty());
    assert_eq!(versions(&home, Position::Oldest).await.len(), 10, "nobody has read it");
    write_checkpoint(&home, Table::Mapping, 8).await;
    write_checkpoint(&region, Table::Region, 5).await;
    embedded.keep_house("home").await.unwrap();
    assert_eq!(versions(&home, Position::Oldest).await.len(), 5, "the slowest has not");
    write_versions(&home, 3).await;
    write_checkpoint(&home, Table::Mapping, 13).await;
    write_checkpoint(&region, Table::Region, 13).await;
    embedded.keep_house("home").await.unwrap();
    assert_eq!(versions(&home, Position::Oldest).await.len(), 4, "who begins now needs what is young");
    let begins = clock.wall().as_millis() - limits::BEGIN_MARGIN.as_millis() as u64;
    assert_eq!(versions(&home, Position::At(Wall::from_millis(begins))).await, [0, 1, 2]);
}

async fn write_versions(store: &RedbStore, count: u64) {
    for version in 0..count {
        store.write(vec![put(item("k", version))]).await.unwrap();
    }
}

/// Writes that a reader of the changes is behind this one.
async fn write_checkpoint(store: &RedbStore, table: Table, number: u64) {
    let place = Item::new(ItemKey::new("checkpoint#changes", "shard-0"), 1);
    let place = place.with_note(format!("{{\"After\":\"{number}\"}}"));
    store.write(vec![ItemWrite::Put(table, place, Condition::Any)]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn abandoned_writes_give_back_their_room() {
    let directory = TempDir::new().unwrap();
    let store = opened(&directory).place("home");
    let turn = store.writer.turn.clone().lock_owned().await;
    let mut waiting: Vec<_> = (0..10).map(|number| store.write(large(number))).collect();
    for write in &mut waiting {
        assert!(futures_util::poll!(write).is_pending());
    }
    let last = waiting.pop().unwrap();
    // Eight are in the queue, and what waits for room behind them leaves too.
    drop(waiting);
    drop(turn);
    assert_eq!(last.await, Ok(()), "nobody else comes to write what is in the queue");
    assert_eq!(store.writer.queue_space.available_permits(), limits::REDB_QUEUE_BYTES);
}

fn large(number: u64) -> Vec<ItemWrite> {
    (0..15).map(|part| put(item(&format!("{number}-{part}"), 1).with_body(vec![7; limits::BODY_BYTES]))).collect()
}

#[tokio::test(start_paused = true)]
async fn write_without_room_is_refused_promptly() {
    let directory = TempDir::new().unwrap();
    let store = opened(&directory).place("home");
    let all = store.writer.queue_space.clone().acquire_many_owned(limits::REDB_QUEUE_BYTES as u32).await.unwrap();
    let refused = store.write(vec![put(item("one", 1))]).await;
    assert!(matches!(refused, Err(WriteError::Engine(EngineError::Throttled { .. }))), "{refused:?}");
    drop(all);
    assert_eq!(store.write(vec![put(item("one", 1))]).await, Ok(()));
}

#[test]
fn failed_commit_reports_certain_outcome() {
    for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge] {
        assert_eq!(
            (error_for_waiters(kind.into(), true), error_for_waiters(kind.into(), false)),
            ("full", "unavailable"),
            "{kind}"
        );
    }
    for kind in [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::PermissionDenied] {
        assert_eq!(
            (error_for_waiters(kind.into(), true), error_for_waiters(kind.into(), false)),
            ("denied", "unavailable"),
            "{kind}"
        );
    }
    for (known_not_written, outcome) in [(true, "not-written"), (false, "unavailable")] {
        assert_eq!(error_for_waiters(io::Error::other("the device is gone"), known_not_written), outcome);
    }
    for kind in [io::ErrorKind::InvalidData, io::ErrorKind::NotADirectory] {
        assert_eq!(error_for_waiters(kind.into(), false), "unavailable", "{kind}");
    }
}

fn error_for_waiters(error: io::Error, known_not_written: bool) -> &'static str {
    writer::error_for_waiters(disk_error(error), known_not_written).into_str()
}

fn disk_error(error: io::Error) -> EngineError {
    let directory = TempDir::new().unwrap();
    opened(&directory).writer.disk.error(error.into())
}

#[tokio::test]
async fn asking_disk_for_room_leaves_nothing() {
    let directory = TempDir::new().unwrap();
    let embedded = opened(&directory);
    assert_eq!(embedded.probe_room().await, Ok(()));
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["nearside.redb"]);
    std::fs::remove_dir_all(directory.path()).unwrap();
    assert!(embedded.probe_room().await.is_err());
}
