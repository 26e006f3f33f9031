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
use crate::model::time::Clock;
use crate::switch::{Guard, is_on};
use crate::telemetry::rate_limiter::RateLimiter;

/// Passes the document on as it is now, and returns its version; `None` before the first.
pub(super) async fn pass_on(store: &dyn Tables) -> Result<Option<u64>, EngineError> {
    let key = current(GRANTS, DOCUMENT);
    let Some(record) = store.get(Table::Records, &key).await?.filter(|record| record.body.is_some()) else {
        return Ok(None);
    };
    let version = record.version;
    put_if_newer(store, Item { body: record.body, ..Item::new(key, version) }).await?;
    Ok(Some(version))
}

/// Passes the document on and confirms it, again and again. A try that fails is not repeated: the
/// next says more.
pub(super) async fn confirm(store: &dyn Tables, clock: &Clock) {
    let lines = RateLimiter::new();
    loop {
        if !is_on(Guard::GrantsConfirmed) {
            std::future::pending().await
        }
        if let Err(error) = confirm_once(store, clock).await
            && let Some(suppressed) = lines.admit(clock.now())
        {
            tracing::warn!(%error, suppressed, "the grants could not be confirmed; regions see that theirs grow old");
        }
        tokio::time::sleep(limits::GRANTS_EVERY).await;
    }
}

async fn confirm_once(store: &dyn Tables, clock: &Clock) -> Result<(), EngineError> {
    // Before the document is read: what is written while it is read is not confirmed.
    let at = clock.wall();
    let Some(version) = pass_on(store).await? else { return Ok(()) };
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
    use super::*;
    use crate::engine::memory::MemoryStore;

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
        confirm_once(&store, &clock).await.unwrap();
        assert_eq!(view(&store, CONFIRMED).await, None, "there is nothing to confirm");
        write(&store, 7, Some("{}")).await;
        let before = clock.wall();
        confirm_once(&store, &clock).await.unwrap();
        let item = view(&store, CONFIRMED).await.unwrap();
        let confirmation = Confirmation::read(item.version, item.note.as_deref()).unwrap();
        assert_eq!(confirmation.version, 7);
        assert!(confirmation.at >= before);
    }
}
