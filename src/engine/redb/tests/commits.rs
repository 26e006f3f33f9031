//! Commits that fail at any step, that several share, and that nobody waits for any more.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::poll;
use parking_lot::{Condvar, Mutex};
use redb::StorageBackend;
use redb::backends::FileBackend;
use tempfile::TempDir;

use super::super::super::{Condition, ItemWrite, Table, Tables, WriteError};
use super::super::*;
use super::{item, opened, put};

/// A file whose calls can be counted, fail and be held up.
#[derive(Debug)]
struct Device {
    file: FileBackend,
    plan: Arc<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    state: Mutex<Planned>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Planned {
    /// Calls that still succeed, and how the others fail.
    fails: Option<(usize, Failure)>,
    syncs: usize,
    /// The sync behind so many waits.
    most_syncs: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Failure {
    kind: ErrorKind,
    /// The call that fails has taken place.
    takes_place: bool,
}

impl Plan {
    fn hold_after(&self, more_syncs: usize) {
        let mut planned = self.state.lock();
        planned.most_syncs = Some(planned.syncs + more_syncs);
    }

    fn release(&self) {
        self.state.lock().most_syncs = None;
        self.changed.notify_all();
    }

    fn syncs(&self) -> usize {
        self.state.lock().syncs
    }

    fn change(&self, change: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut planned = self.state.lock();
        let Some((left, failure)) = planned.fails.as_mut() else { return change() };
        if *left > 0 {
            *left -= 1;
            return change();
        }
        let failure = *failure;
        if failure.takes_place {
            change()?;
        }
        Err(failure.kind.into())
    }
}

/// Whatever a test finds, nothing is held up any longer: else its end would wait for that.
struct Released<'p>(&'p Plan);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl StorageBackend for Device {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.plan.change(|| self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut planned = self.plan.state.lock();
        self.plan
            .changed
            .wait_while(&mut planned, |planned| planned.most_syncs.is_some_and(|most| planned.syncs >= most));
        planned.syncs += 1;
        drop(planned);
        self.plan.change(|| self.file.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.plan.change(|| self.file.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

/// Puts the store's own file on such a device, until it is opened again.
fn on_device(directory: &TempDir, store: &RedbStore) -> Arc<Plan> {
    let mut database = store.writer.disk.database.write();
    *database = None;
    let file = OpenOptions::new().read(true).write(true).open(directory.path().join("nearside.redb")).unwrap();
    let plan = Arc::<Plan>::default();
    let device = Device { file: FileBackend::new(file).unwrap(), plan: plan.clone() };
    *database = Some(redb::Builder::new().create_with_backend(device).unwrap());
    plan
}

fn delete(sort: &str) -> ItemWrite {
    ItemWrite::Delete(Table::Records, item(sort, 1).key, Condition::Any)
}

/// Three transactions in one commit that fails at its step `at`: two put the same item, one puts
/// nothing. Returns what is said of each, and whether the commit took place.
async fn fail_at(at: usize, failure: Failure) -> ([Result<(), WriteError>; 3], bool) {
    let directory = TempDir::new().unwrap();
    let store = opened(&directory).place("home");
    store.write(vec![put(item("removed", 1))]).await.unwrap();
    let plan = on_device(&directory, &store);
    plan.state.lock().fails = Some((at, failure));
    let turn = store.writer.turn.clone().lock_owned().await;
    let release = async {
        tokio::task::yield_now().await;
        drop(turn);
    };
    let (first, second, third, ()) = tokio::join!(
        store.write(vec![put(item("one", 1))]),
        store.write(vec![put(item("one", 2))]),
        store.write(vec![delete("removed")]),
        release
    );
    plan.state.lock().fails = None;
    let one = store.get(Table::Records, &item("one", 1).key).await.unwrap();
    let removed = store.get(Table::Records, &item("removed", 1).key).await.unwrap();
    assert_eq!(one.is_some(), removed.is_none(), "all or nothing");
    assert!(one.is_none_or(|one| one.version == 2));
    ([first, second, third], removed.is_none())
}

#[tokio::test]
async fn failed_commit_report_is_true() {
    for (failure, certain) in [
        (Failure { kind: ErrorKind::StorageFull, takes_place: false }, "full"),
        (Failure { kind: ErrorKind::ReadOnlyFilesystem, takes_place: true }, "denied"),
        (Failure { kind: ErrorKind::PermissionDenied, takes_place: false }, "denied"),
        (Failure { kind: ErrorKind::Other, takes_place: true }, "not-written"),
    ] {
        let (mut absent, mut present) = (0, 0);
        for at in 0.. {
            let (said, is_there) = fail_at(at, failure).await;
            if said.iter().all(Result::is_ok) {
                break;
            }
            for outcome in said {
                let Err(WriteError::Engine(error)) = outcome else { panic!("{at}: {outcome:?}") };
                let expected = if is_there { "unavailable" } else { certain };
                assert_eq!(error.into_str(), expected, "step {at} of {failure:?}: {error}");
            }
            if is_there { present += 1 } else { absent += 1 }
        }
        assert!(absent > 0 && (present > 0 || !failure.takes_place), "{failure:?}: {absent}, {present}");
    }
}

/// A store on a device, and how many syncs a commit takes there.
async fn on_counted_device(directory: &TempDir) -> (RedbStore, Arc<Plan>, usize) {
    let store = opened(directory).place("home");
    let plan = on_device(directory, &store);
    store.write(vec![put(item("first", 1))]).await.unwrap();
    let before = plan.syncs();
    store.write(vec![put(item("second", 1))]).await.unwrap();
    let syncs = plan.syncs() - before;
    (store, plan, syncs)
}

#[tokio::test]
async fn leader_awaits_only_its_own_commit() {
    let directory = TempDir::new().unwrap();
    let (store, plan, syncs) = on_counted_device(&directory).await;
    let _released = Released(&plan);
    plan.hold_after(0);
    let mut leader = store.write(vec![put(item("one", 1))]);
    assert!(poll!(&mut leader).is_pending());
    while !store.writer.queue_is_empty() {
        tokio::task::yield_now().await;
    }
    let mut other = store.write(vec![put(item("two", 1))]);
    assert!(poll!(&mut other).is_pending());
    plan.hold_after(syncs);
    plan.changed.notify_all();
    let led = tokio::time::timeout(Duration::from_secs(20), leader).await;
    assert_eq!(led, Ok(Ok(())), "before the other's commit is done");
    assert!(poll!(&mut other).is_pending(), "that one is held up");
    plan.release();
    assert_eq!(other.await, Ok(()));
}

#[tokio::test]
async fn an_abandoned_leader_leaves_nothing_behind() {
    let directory = TempDir::new().unwrap();
    let (store, plan, _) = on_counted_device(&directory).await;
    let _released = Released(&plan);
    plan.hold_after(0);
    let mut leader = store.write(vec![put(item("one", 1))]);
    assert!(poll!(&mut leader).is_pending());
    while !store.writer.queue_is_empty() {
        tokio::task::yield_now().await;
    }
    let mut other = store.write(vec![put(item("two", 1))]);
    assert!(poll!(&mut other).is_pending());
    drop(leader);
    plan.release();
    assert_eq!(other.await, Ok(()), "though nobody leads any more");
    drop(store.writer.turn.lock().await);
    assert_eq!(store.writer.queue_space.available_permits(), limits::REDB_QUEUE_BYTES);
    assert!(store.writer.queue_is_empty());
    let one = store.get(Table::Records, &item("one", 1).key).await.unwrap();
    assert!(one.is_some(), "what was begun goes on to its end");
}
