//! The source of truth: every record, its versions, and the log of changes that regions ingest.
//! Each region's [`super::ingest`] follows the log at its own lag. A record's versions are 1, 2, 3,
//! ... in the order of the log.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nearside::model::time::{Clock, Moment, Wall};
use tokio::sync::watch;

use super::records::StoredRecord;

/// Records in the catalogue.
const RECORDS: usize = 200_000;
/// The length of a record's key, in bytes; it must fit into an announcement.
const KEY_BYTES: usize = 512;
/// The length of a record's value, in bytes.
pub(crate) const VALUE_BYTES: usize = 64 << 10;
/// Changes kept for regions that lag; a region that falls further behind reloads everything.
const CHANGES: usize = 65_536;

/// Why a record was refused. The fault is the caller's; the same request is refused again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PutRefused {
    /// Empty, too long, or with a character that a path segment cannot carry unescaped.
    #[error("a key is 1 to {} letters, digits, '-', '_' or '.'", KEY_BYTES)]
    Key,
    #[error("a value is JSON of at most {} bytes", VALUE_BYTES)]
    Value,
    #[error("the catalogue is full ({} records)", RECORDS)]
    Full,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CatalogueChange {
    /// Its place in the log.
    pub(crate) offset: u64,
    pub(crate) key: Arc<str>,
    pub(crate) stored: StoredRecord,
    /// Time of the change, on the clock that counts suspended time.
    pub(crate) at: Moment,
    /// Time of the change, on the wall clock.
    pub(crate) wall: Wall,
}

/// Result of a read of the log.
#[derive(Clone, Debug)]
pub(crate) enum CatalogueFeed {
    Next(Arc<CatalogueChange>),
    End,
    /// The log no longer reaches back that far: all current records, and the place in the log to
    /// continue from.
    Reload(HashMap<Arc<str>, StoredRecord>, u64),
}

#[derive(Debug)]
pub(crate) struct WorldCatalogue {
    clock: Clock,
    state: Mutex<State>,
    end: watch::Sender<u64>,
    keep: usize,
}

#[derive(Debug, Default)]
struct State {
    records: HashMap<Arc<str>, StoredRecord>,
    log: VecDeque<Arc<CatalogueChange>>,
    end: u64,
}

impl WorldCatalogue {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, state: Mutex::default(), end: watch::Sender::new(0), keep: CHANGES }
    }

    /// Gives `key` a new value (JSON) and returns its new version.
    pub(crate) fn put(&self, key: &str, value: impl Into<Bytes>) -> Result<u64, PutRefused> {
        let value = value.into();
        if value.len() > VALUE_BYTES || serde_json::from_slice::<&serde_json::value::RawValue>(&value).is_err() {
            return Err(PutRefused::Value);
        }
        self.change(key, Some(value))
    }

    /// Deletes `key` and returns its tombstone's version.
    pub(crate) fn delete(&self, key: &str) -> Result<u64, PutRefused> {
        self.change(key, None)
    }

    /// Adds `count` records, `{prefix}1`, `{prefix}2`, ..., at version 1, as if they had always
    /// been there; they are not in the log.
    pub(crate) fn seed(&self, prefix: &str, count: usize) -> Result<(), PutRefused> {
        for number in 1..=count {
            let key = format!("{prefix}{number}");
            let value =
                format!(r#"{{"name":"{key}","plan":"standard","region":"eu","limits":{{"users":{number}}}}}"#);
            let mut state = self.locked();
            let key = admit(&state, &key)?;
            state.records.insert(key, StoredRecord { version: 1, value: Some(Bytes::from(value)) });
        }
        Ok(())
    }

    pub(crate) fn read(&self, key: &str) -> Option<StoredRecord> {
        self.locked().records.get(key).cloned()
    }

    /// Number of records, tombstones included.
    pub(crate) fn len(&self) -> usize {
        self.locked().records.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All current records, and the place in the log to continue from.
    pub(crate) fn snapshot(&self) -> (HashMap<Arc<str>, StoredRecord>, u64) {
        let state = self.locked();
        (state.records.clone(), state.end)
    }

    /// Entry at `offset` of the log.
    pub(crate) fn at(&self, offset: u64) -> CatalogueFeed {
        let state = self.locked();
        let first = state.end - state.log.len() as u64;
        match offset.checked_sub(first) {
            None => CatalogueFeed::Reload(state.records.clone(), state.end),
            Some(place) => state.log.get(place as usize).cloned().map_or(CatalogueFeed::End, CatalogueFeed::Next),
        }
    }

    /// Reports the end of the log as it grows.
    pub(crate) fn end(&self) -> watch::Receiver<u64> {
        self.end.subscribe()
    }

    /// The time up to which all changes are before `offset`: what a region that has come this far
    /// may claim.
    ///
    /// At the end of the log it is a millisecond before now, because another change may still come
    /// in the current millisecond.
    pub(crate) fn through(&self, offset: u64) -> Wall {
        let state = self.locked();
        let first = state.end - state.log.len() as u64;
        let next = offset.checked_sub(first).map_or(state.log.front(), |place| state.log.get(place as usize));
        let wall = next.map_or_else(|| self.clock.wall(), |change| change.wall);
        Wall::from_millis(wall.as_millis().saturating_sub(Duration::from_millis(1).as_millis() as u64))
    }

    fn change(&self, key: &str, value: Option<Bytes>) -> Result<u64, PutRefused> {
        let mut state = self.locked();
        let key = admit(&state, key)?;
        let version = state.records.get(&key).map_or(1, |stored| stored.version + 1);
        let stored = StoredRecord { version, value };
        let change = CatalogueChange {
            offset: state.end,
            key: key.clone(),
            stored: stored.clone(),
            at: self.clock.now(),
            wall: self.clock.wall(),
        };
        state.records.insert(key, stored);
        state.log.push_back(Arc::new(change));
        if state.log.len() > self.keep {
            state.log.pop_front();
        }
        state.end += 1;
        // Under the lock, so that the announced end never goes backwards.
        self.end.send_replace(state.end);
        Ok(version)
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is harmless: nothing in here can panic between two writes that belong
        // together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key to store under, if it is valid and there is room.
fn admit(state: &State, key: &str) -> Result<Arc<str>, PutRefused> {
    if key.is_empty() || key.len() > KEY_BYTES || !key.bytes().all(is_plain) {
        return Err(PutRefused::Key);
    }
    match state.records.get_key_value(key) {
        Some((known, _)) => Ok(known.clone()),
        None if state.records.len() >= RECORDS => Err(PutRefused::Full),
        None => Ok(Arc::from(key)),
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearside::tasks::TaskGroup;

    fn catalogue() -> WorldCatalogue {
        WorldCatalogue::new(Clock::System)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn versions_are_strictly_ordered_under_concurrency() {
        let catalogue = Arc::new(catalogue());
        let mut writers = TaskGroup::new();
        for writer in 0..8 {
            let catalogue = catalogue.clone();
            writers.start(async move {
                let mut mine = Vec::new();
                for _ in 0..250 {
                    mine.push(catalogue.put("tenant-7", format!("{writer}")).unwrap());
                    tokio::task::yield_now().await;
                }
                mine
            });
        }
        let mut all = Vec::new();
        while let Some(mine) = writers.next().await {
            assert!(mine.is_sorted_by(|a, b| a < b), "one writer's versions grow");
            all.extend(mine);
        }
        all.sort_unstable();
        assert_eq!(all, (1..=2000).collect::<Vec<u64>>(), "each version is given once");
        for offset in 0..2000 {
            let CatalogueFeed::Next(change) = catalogue.at(offset) else { panic!("the log has every change") };
            assert_eq!(change.stored.version, offset + 1, "the log is in the order of the versions");
        }
    }

    #[test]
    fn put_after_deletion_continues_version() {
        let catalogue = catalogue();
        assert_eq!(catalogue.put("a", "1"), Ok(1));
        assert_eq!(catalogue.delete("a"), Ok(2));
        assert_eq!(catalogue.read("a"), Some(StoredRecord { version: 2, value: None }));
        assert_eq!(catalogue.put("a", "2"), Ok(3));
    }

    #[test]
    fn trimmed_log_position_returns_everything() {
        let mut catalogue = catalogue();
        catalogue.keep = 4;
        for value in 0..10 {
            catalogue.put("a", value.to_string()).unwrap();
        }
        let CatalogueFeed::Reload(records, next) = catalogue.at(5) else { panic!("5 is gone") };
        assert_eq!((records["a"].version, next), (10, 10));
        assert!(matches!(catalogue.at(6), CatalogueFeed::Next(change) if change.stored.version == 7));
        assert!(matches!(catalogue.at(10), CatalogueFeed::End));
    }

    #[test]
    fn unrepresentable_keys_and_values_are_refused() {
        let catalogue = catalogue();
        for key in ["", "a/b", "a b", "ä", "%2e"] {
            assert_eq!(catalogue.put(key, "1"), Err(PutRefused::Key), "{key}");
        }
        assert_eq!(catalogue.put("a", "{not json"), Err(PutRefused::Value));
        assert_eq!(catalogue.put("a", format!("\"{}\"", "x".repeat(VALUE_BYTES))), Err(PutRefused::Value));
        assert!(catalogue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn ingest_time_stops_before_missing_change() {
        let clock = Clock::simulated(Wall::from_millis(1_000_000));
        let catalogue = WorldCatalogue::new(clock.clone());
        assert_eq!(catalogue.through(0), Wall::from_millis(999_999));
        catalogue.put("a", "1").unwrap();
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(catalogue.through(0), Wall::from_millis(999_999), "held back by the change");
        assert_eq!(catalogue.through(1), Wall::from_millis(1_008_999), "a millisecond short of now");
    }
}
