//! The document of grants on its way to the regions: passed on under its own version, whatever views
//! there are, and confirmed every few seconds.
//!
//! A feed may skip a change for ever, and nobody would miss this one. So it is also read without a
//! change, and noted which version that found and when. A region that has the note and not the
//! version fetches it ([`crate::region::ingest`]).

use super::limits;
use super::stored::current;
use crate::access::gate::Gate;
use crate::access::grants::Grants;
use crate::access::record::{CONFIRMED, Confirmation, DOCUMENT, GRANTS};
use crate::engine::{Condition, EngineError, Item, ItemWrite, Table, Tables, WriteError};
use crate::model::time::{Clock, Moment};
use crate::switch::{Guard, is_on};
use crate::telemetry::rate_limiter::RateLimiter;

/// Passes the document on as it is now, and returns its version; `None` before the first.
pub(super) async fn pass_on(store: &dyn Tables) -> Result<Option<u64>, EngineError> {
    let Some(document) = document(store).await? else { return Ok(None) };
    let version = document.version;
    put_if_newer(store, document).await?;
    Ok(Some(version))
}

/// The document as it is now.
async fn document(store: &dyn Tables) -> Result<Option<Item>, EngineError> {
    let key = current(GRANTS, DOCUMENT);
    let record = store.get(Table::Records, &key).await?.filter(|record| record.body.is_some());
    Ok(record.map(|record| Item { body: record.body, ..Item::new(key, record.version) }))
}

/// The last document that was passed on without a change. A write that changes nothing costs as much as
/// one of the whole document.
#[derive(Clone, Copy, Debug)]
struct Passed {
    version: u64,
    at: Moment,
}

impl Passed {
    fn covers(self, version: u64, now: Moment) -> bool {
        self.version == version && now.since(self.at) < limits::GRANTS_AGAIN
    }
}

/// Passes the document on and confirms it, again and again. A try that fails is not repeated: the
/// next says more.
pub(super) async fn confirm(store: &dyn Tables, clock: &Clock) {
    let (lines, mut passed) = (RateLimiter::new(), None);
    loop {
        if !is_on(Guard::GrantsConfirmed) {
            std::future::pending().await
        }
        if let Err(error) = confirm_once(store, clock, &mut passed).await
            && let Some(suppressed) = lines.admit(clock.now())
        {
            tracing::warn!(%error, suppressed, "the grants could not be confirmed; regions see that theirs grow old");
        }
        tokio::time::sleep(limits::GRANTS_EVERY).await;
    }
}

async fn confirm_once(store: &dyn Tables, clock: &Clock, passed: &mut Option<Passed>) -> Result<(), EngineError> {
    // Before the document is read: what is written while it is read is not confirmed.
    let at = clock.wall();
    let Some(document) = document(store).await? else { return Ok(()) };
    let (version, now) = (document.version, clock.now());
    if !passed.is_some_and(|passed| passed.covers(version, now)) {
        put_if_newer(store, document).await?;
        *passed = Some(Passed { version, at: now });
    }
    let note = Confirmation { at, version }.note();
    put_if_newer(store, Item::new(current(GRANTS, CONFIRMED), at.as_millis()).with_note(note)).await
}

async fn put_if_newer(store: &dyn Tables, item: Item) -> Result<(), EngineError> {
    let newer = Condition::Below(item.version);
    match store.write(vec![ItemWrite::Put(Table::Views, item, newer)]).await {
        Ok(()) | Err(WriteError::Conflict(_)) => Ok(()),
        Err(WriteError::Engine(error)) => Err(error),
    }
}

/// Keeps the gate's grants as the record is, for as long as it is polled: for this service's own
/// operators. What cannot be read leaves those in use.
pub async fn follow(store: &dyn Tables, gate: &Gate, clock: &Clock) {
    let lines = RateLimiter::new();
    loop {
        let at = clock.wall();
        match store.get(Table::Records, &current(GRANTS, DOCUMENT)).await {
            Ok(None) => {}
            Ok(Some(Item { version, body, .. })) => {
                if let Some(Ok(grants)) = body.map(|document| Grants::read(&document, version)) {
                    gate.take(grants);
                    gate.confirm(Confirmation { at, version });
                }
            }
            Err(error) => {
                if let Some(suppressed) = lines.admit(clock.now()) {
                    tracing::warn!(%error, suppressed, "the grants cannot be read; those in use stay");
                }
            }
        }
        tokio::time::sleep(limits::GRANTS_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::memory::MemoryStore;
    use crate::model::time::Wall;

    async fn write(store: &MemoryStore, version: u64, body: Option<&'static str>) {
        let mut item = Item::new(current(GRANTS, DOCUMENT), version);
        item.body = body.map(Into::into);
        store.write(vec![ItemWrite::Put(Table::Records, item, Condition::Any)]).await.unwrap();
    }

    async fn view(store: &MemoryStore, key: &str) -> Option<Item> {
        store.get(Table::Views, &current(GRANTS, key)).await.unwrap()
    }

    #[tokio::test]
    async fn document_is_passed_on_under_its_version() {
        let store = MemoryStore::new(Clock::default());
        assert_eq!(pass_on(&store).await, Ok(None));
        write(&store, 7, Some("{}")).await;
        assert_eq!(pass_on(&store).await, Ok(Some(7)));
        let passed = view(&store, DOCUMENT).await.unwrap();
        assert_eq!((passed.version, passed.body.as_deref()), (7, Some(&b"{}"[..])));
        // A table that was put back does not take the regions back.
        write(&store, 6, Some(r#"{"old":1}"#)).await;
        assert_eq!(pass_on(&store).await, Ok(Some(6)));
        assert_eq!(view(&store, DOCUMENT).await.unwrap().version, 7);
        write(&store, 8, None).await;
        assert_eq!(pass_on(&store).await, Ok(None));
        assert_eq!(view(&store, DOCUMENT).await.unwrap().version, 7);
    }

    #[tokio::test]
    async fn confirmation_names_version_and_time() {
        let (store, clock) = (MemoryStore::new(Clock::default()), Clock::default());
        let mut passed = None;
        confirm_once(&store, &clock, &mut passed).await.unwrap();
        assert_eq!(view(&store, CONFIRMED).await, None, "there is nothing to confirm");
        write(&store, 7, Some("{}")).await;
        let before = clock.wall();
        confirm_once(&store, &clock, &mut passed).await.unwrap();
        let item = view(&store, CONFIRMED).await.unwrap();
        let confirmation = Confirmation::read(item.version, item.note.as_deref()).unwrap();
        assert_eq!(confirmation.version, 7);
        assert!(confirmation.at >= before);
    }

    #[tokio::test(start_paused = true)]
    async fn same_document_is_written_seldom() {
        let (store, clock) = (MemoryStore::new(Clock::default()), Clock::simulated(Wall::from_millis(7_000)));
        let mut passed = None;
        for (wait, version, expected) in [(0, 7, 7), (5, 7, 0), (5, 8, 8), (299, 8, 0), (1, 8, 8)] {
            write(&store, version, Some("{}")).await;
            tokio::time::advance(Duration::from_secs(wait)).await;
            // What is there already shows no write.
            let older = Item::new(current(GRANTS, DOCUMENT), 0);
            store.write(vec![ItemWrite::Put(Table::Views, older, Condition::Any)]).await.unwrap();
            confirm_once(&store, &clock, &mut passed).await.unwrap();
            assert_eq!(view(&store, DOCUMENT).await.unwrap().version, expected, "{version} after {wait}");
        }
    }
}
