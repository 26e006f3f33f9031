//! The contract, commits that several share, and what a disk gets wrong.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::stream::StreamExt;
use redb::StorageBackend;
use redb::backends::InMemoryBackend;
use tempfile::TempDir;

use super::super::{Change, Condition, Feed, FeedBatch, ShardId, contract};
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

async fn read(store: &RedbStore, from: Position) -> Result<FeedBatch, EngineError> {
    store.feed(Stream::Changes).open(&ShardId(String::new()), from).next().await.unwrap()
}

async fn versions(store: &RedbStore, from: Position) -> Vec<u64> {
    let version = |change: &Change| change.item.as_ref().map_or(0, |item| item.version);
    read(store, from).await.unwrap().changes.iter().map(version).collect()
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
async fn what_waits_is_one_commit_and_who_loses_hurts_nobody_else() {
    let directory = TempDir::new().unwrap();
    let store = opened(&directory).place("home");
    let turn = store.writer.turn.clone().lock_owned().await;
    let new = |version| store.write(vec![ItemWrite::Put(Table::Records, item("one", version), Condition::Absent)]);
    let next = ItemWrite::Put(Table::Records, item("one", 4), Condition::VersionIs(1));
    let release = async {
        tokio::task::yield_now().await;
        drop(turn);
    };
    let other =
        vec![put(item("other", 5)), ItemWrite::Check(Table::Records, item("one", 0).key, Condition::Below(5))];
    let (first, second, third, other, ()) =
        tokio::join!(new(1), new(2), store.write(vec![next]), store.write(other), release);
    assert_eq!((first, second), (Ok(()), Err(WriteError::Conflict(vec![0]))));
    assert_eq!((third, other), (Ok(()), Ok(())), "each sees what those before it wrote");
    let batch = read(&store, Position::Oldest).await.unwrap();
    let seen: Vec<_> = batch.changes.iter().map(|it| (it.item.as_ref().unwrap().version, it.written)).collect();
    let together = seen[0].1;
    assert_eq!(seen, [(1, together), (4, together), (5, together)], "in order");
}

#[tokio::test]
async fn a_write_that_was_given_up_before_its_turn_never_takes_place() {
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
async fn all_is_there_when_it_is_opened_again_and_places_are_apart() {
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
async fn a_feed_forgets_what_is_trimmed_or_too_much_and_gives_no_number_twice() {
    let directory = TempDir::new().unwrap();
    let clock = Clock::simulated(Wall::from_millis(1_700_000_000_000));
    let store = Embedded::bounded(directory.path(), clock.clone(), 5).unwrap().place("home");
    for version in 0..8 {
        store.write(vec![put(item("k", version))]).await.unwrap();
        // Of two that were written at one time the first may be gone, and then so is that time.
        clock.suspend(Duration::from_millis(2));
    }
    let after = |number: u64| Position::After(number.to_string());
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

#[tokio::test]
async fn a_long_feed_comes_in_batches_and_a_long_table_in_pages() {
    let directory = TempDir::new().unwrap();
    let store = opened(&directory).place("home");
    let large = |number| item(&format!("{number:03}"), number).with_body(vec![7; 40_000]);
    for first in [0, 50] {
        store.write((first..first + 50).map(|number| put(large(number))).collect()).await.unwrap();
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
async fn what_has_expired_goes_some_time_and_what_was_replaced_stays() {
    let directory = TempDir::new().unwrap();
    let embedded = opened(&directory);
    let store = embedded.place("home");
    let due = |sort: &str, at| item(sort, 1).expiring(Wall::from_millis(at));
    let absent = |item| vec![ItemWrite::Put(Table::Records, item, Condition::Absent)];
    for item in [due("gone", 10), due("kept", 11), due("longer", 10), due("for ever", 10)] {
        store.write(absent(item)).await.unwrap();
    }
    let conflict = store.write(absent(due("gone", 20))).await;
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
async fn a_full_disk_says_so_and_it_goes_on_when_there_is_room_again() {
    let directory = TempDir::new().unwrap();
    let clock = Clock::simulated(Wall::from_millis(1_000));
    let store = Embedded::open(directory.path(), clock.clone()).unwrap().place("home");
    store.write(vec![put(item("one", 1))]).await.unwrap();
    let is_full = Arc::new(AtomicBool::new(false));
    let small = redb::Builder::new().create_with_backend(Small(InMemoryBackend::new(), is_full.clone())).unwrap();
    *store.writer.disk.database.write().unwrap() = Some(small);
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
async fn what_cannot_be_opened_says_where_and_what_to_do() {
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
fn an_emptied_file_is_no_new_catalogue() {
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
fn a_file_that_was_there_is_no_new_catalogue() {
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
fn a_name_that_leads_nowhere_is_no_new_catalogue() {
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
fn one_process_at_a_time_begins_a_file() {
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
    let spoil = move |transaction: &redb::WriteTransaction| {
        let name = layout::table_name("home", Table::Records);
        transaction.open_table(TableDefinition::<Key, Value>::new(&name))?.insert(("t#00", sort), later)?;
        let name = layout::feed_name("home", Stream::Changes);
        let mut feed = transaction.open_table(TableDefinition::<u64, Entry>::new(&name))?;
        feed.insert(change, (1, "t#00", sort, later))?;
        Ok(((), disk::Keep::All))
    };
    store.writer.disk.change(spoil).unwrap();
}

#[tokio::test]
async fn an_item_that_cannot_be_read_is_an_error_and_no_absence() {
    let directory = TempDir::new().unwrap();
    let store = opened(&directory).place("home");
    store.write(vec![put(item("one", 1)), put(item("two", 2))]).await.unwrap();
    spoil(&store, "one", 0);
    let error = store.get(Table::Records, &item("one", 1).key).await.unwrap_err();
    assert!(matches!(error, EngineError::Refused { .. }), "{error}");
    assert!(store.write(vec![put(item("one", 3))]).await.is_err());
    assert_eq!(store.get(Table::Records, &item("two", 2).key).await, Ok(Some(item("two", 2))));
    assert!(store.writer.disk.database.read().unwrap().is_some(), "the file is well, and stays open");
}

#[tokio::test]
async fn an_item_that_cannot_be_read_holds_up_no_page_no_feed_and_no_other_write() {
    let directory = TempDir::new().unwrap();
    let store = opened(&directory).place("home");
    store.write(vec![put(item("a", 1)), put(item("b", 2)), put(item("c", 3))]).await.unwrap();
    spoil(&store, "b", 1);
    let sorts = |page: Page| page.items.into_iter().map(|item| item.key.sort).collect::<Vec<_>>();
    assert_eq!(sorts(store.query(Table::Records, "t#00", None, 10).await.unwrap()), ["a", "c"]);
    let first = store.scan(Table::Records, ScanSegment::WHOLE, None, 1).await.unwrap();
    let rest = store.scan(Table::Records, ScanSegment::WHOLE, first.next.clone(), 1).await.unwrap();
    assert_eq!((sorts(first), sorts(rest)), (vec!["a".to_owned()], vec!["c".to_owned()]));
    assert_eq!(versions(&store, Position::Oldest).await, [1, 3]);
    assert_eq!(store.passed_over(), 3);
    let turn = store.writer.turn.clone().lock_owned().await;
    let release = async {
        tokio::task::yield_now().await;
        drop(turn);
    };
    let write = |sort, version| store.write(vec![put(item(sort, version))]);
    let (first, bad, last, ()) = tokio::join!(write("a", 4), write("b", 4), write("c", 4), release);
    assert_eq!((first, last), (Ok(()), Ok(())));
    assert!(matches!(bad, Err(WriteError::Engine(EngineError::Refused { .. }))), "it alone: {bad:?}");
}

#[tokio::test(start_paused = true)]
async fn housekeeping_removes_what_expired_and_what_every_reader_has_and_is_not_young() {
    let directory = TempDir::new().unwrap();
    let clock = Clock::simulated(Wall::from_millis(1_000_000_000));
    let embedded = Embedded::open(directory.path(), clock.clone()).unwrap();
    let (home, region) = (embedded.place("home"), embedded.place("eu-west-1"));
    let requests = item("key", 1).expiring(clock.wall() + Duration::from_secs(1));
    home.write(vec![ItemWrite::Put(Table::Requests, requests, Condition::Any)]).await.unwrap();
    let add = async |count: u64| {
        for version in 0..count {
            home.write(vec![put(item("k", version))]).await.unwrap();
        }
    };
    let reader = async |store: &RedbStore, table, number: u64| {
        let place = Item::new(ItemKey::new("checkpoint#changes", "shard-0"), 1);
        let place = place.with_note(format!("{{\"After\":\"{number}\"}}"));
        store.write(vec![ItemWrite::Put(table, place, Condition::Any)]).await.unwrap();
    };
    add(10).await;
    tokio::time::advance(limits::REDB_FEED_KEPT * 2).await;
    embedded.keep_house("home").await.unwrap();
    assert!(home.scan(Table::Requests, ScanSegment::WHOLE, None, 9).await.unwrap().items.is_empty());
    assert_eq!(versions(&home, Position::Oldest).await.len(), 10, "nobody has read it");
    reader(&home, Table::Mapping, 8).await;
    reader(&region, Table::Region, 5).await;
    embedded.keep_house("home").await.unwrap();
    assert_eq!(versions(&home, Position::Oldest).await.len(), 5, "the slowest has not");
    add(3).await;
    reader(&home, Table::Mapping, 13).await;
    reader(&region, Table::Region, 13).await;
    embedded.keep_house("home").await.unwrap();
    assert_eq!(versions(&home, Position::Oldest).await.len(), 4, "who begins now needs what is young");
    let begins = clock.wall().as_millis() - limits::BEGIN_MARGIN.as_millis() as u64;
    assert_eq!(versions(&home, Position::At(Wall::from_millis(begins))).await, [0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn abandoned_writes_give_back_their_room() {
    let directory = TempDir::new().unwrap();
    let store = opened(&directory).place("home");
    let large = |sort: String| -> Vec<ItemWrite> {
        (0..15).map(|part| put(item(&format!("{sort}{part}"), 1).with_body(vec![7; limits::BODY_BYTES]))).collect()
    };
    let turn = store.writer.turn.clone().lock_owned().await;
    let mut waiting: Vec<_> = (0..10).map(|number| store.write(large(format!("{number}-")))).collect();
    for write in &mut waiting {
        assert!(futures_util::poll!(write).is_pending());
    }
    let last = waiting.pop().unwrap();
    // Eight are in the queue, and what waits for room behind them leaves too.
    drop(waiting);
    drop(turn);
    assert_eq!(last.await, Ok(()), "nobody else comes to write what is in the queue");
    assert_eq!(store.writer.room.available_permits(), limits::REDB_QUEUE_BYTES);
}

#[tokio::test(start_paused = true)]
async fn a_write_without_room_is_refused_in_time() {
    let directory = TempDir::new().unwrap();
    let store = opened(&directory).place("home");
    let all = store.writer.room.clone().acquire_many_owned(limits::REDB_QUEUE_BYTES as u32).await.unwrap();
    let refused = store.write(vec![put(item("one", 1))]).await;
    assert!(matches!(refused, Err(WriteError::Engine(EngineError::Throttled { .. }))), "{refused:?}");
    drop(all);
    assert_eq!(store.write(vec![put(item("one", 1))]).await, Ok(()));
}

#[test]
fn a_failed_commit_says_what_is_certain() {
    let of = |error: io::Error, is_absent| writer::after_failure(disk_error(error), is_absent).word();
    for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge] {
        assert_eq!((of(kind.into(), true), of(kind.into(), false)), ("full", "unavailable"), "{kind}");
    }
    for kind in [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::PermissionDenied] {
        assert_eq!((of(kind.into(), true), of(kind.into(), false)), ("denied", "unavailable"), "{kind}");
    }
    let other = || io::Error::other("the device is gone");
    assert_eq!((of(other(), true), of(other(), false)), ("not-written", "unavailable"));
    for kind in [io::ErrorKind::InvalidData, io::ErrorKind::NotADirectory] {
        assert_eq!(of(kind.into(), false), "unavailable", "{kind}");
    }
}

fn disk_error(error: io::Error) -> EngineError {
    let directory = TempDir::new().unwrap();
    opened(&directory).writer.disk.error(error.into())
}

#[tokio::test]
async fn asking_a_disk_for_room_leaves_nothing() {
    let directory = TempDir::new().unwrap();
    let embedded = opened(&directory);
    assert_eq!(embedded.probe_room().await, Ok(()));
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["nearside.redb"]);
    std::fs::remove_dir_all(directory.path()).unwrap();
    assert!(embedded.probe_room().await.is_err());
}
