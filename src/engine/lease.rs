//! A fenced lease: of several processes that could do a job, one does it and the others stand by.
//!
//! The lease is an item whose version is the fencing token: each take-over raises it, and what the
//! holder writes checks it in the same transaction ([`Lease::guard`]). A process that was paused
//! and only believes that it still holds the lease can repeat work, but it cannot move a
//! checkpoint. No wall clocks are compared: a candidate takes over when the item has not changed
//! for [`limits::LEASE`] on its own clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Condition, EngineError, Item, ItemKey, ItemWrite, Table, Tables, WriteError, limits, retry_delay};
use crate::model::time::{Clock, Moment, Wall};

/// Where the lease lies, and who wants it.
#[derive(Clone)]
pub struct LeasePlace {
    pub tables: Arc<dyn Tables>,
    pub table: Table,
    /// What the lease is for: `ingest`, `views`.
    pub job: &'static str,
    /// Unique to this process and this start of it.
    pub holder: String,
    pub clock: Clock,
}

/// A lease that this process held when it last looked.
pub struct Lease {
    place: LeasePlace,
    token: u64,
    beats: AtomicU64,
}

/// What the item says besides its token; it changes with each renewal.
#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct LeaseNote {
    holder: String,
    beat: u64,
    /// Given back: nobody has to wait.
    released: bool,
}

/// What a candidate does about what it sees.
#[derive(Debug, PartialEq, Eq)]
enum Take {
    /// Write this token, if the item is still as it was.
    Now(u64, Condition),
    /// Somebody else holds it, or just did.
    Wait,
}

/// `unchanged` says for how long the item has been as it is, as far as this process has seen. The
/// first token is the time: the table may have been lost under a holder that has not noticed yet.
fn take(seen: Option<&(u64, LeaseNote)>, unchanged: Duration, now: Wall) -> Take {
    match seen {
        None => Take::Now(now.as_millis(), Condition::Absent),
        Some((token, note)) if note.released || unchanged >= limits::LEASE => {
            Take::Now(token + 1, Condition::VersionIs(*token))
        }
        Some(_) => Take::Wait,
    }
}

impl LeasePlace {
    fn key(&self) -> ItemKey {
        ItemKey::new(format!("lease#{}", self.job), "lease")
    }

    fn item(&self, token: u64, beat: u64, released: bool) -> Item {
        let note = LeaseNote { holder: self.holder.clone(), beat, released };
        let note = serde_json::to_string(&note).expect("a struct of plain fields is JSON");
        Item::new(self.key(), token).with_note(note)
    }

    async fn seen(&self) -> Result<Option<(u64, LeaseNote)>, EngineError> {
        let item = self.tables.get(self.table, &self.key()).await?;
        let unreadable = || LeaseNote { holder: String::new(), beat: 0, released: false };
        let read = |item: Item| {
            let note = item.note.and_then(|note| serde_json::from_str(&note).ok()).unwrap_or_else(unreadable);
            (item.version, note)
        };
        Ok(item.map(read))
    }

    /// Waits until this process holds the lease, however long that takes.
    pub async fn acquire(&self) -> Lease {
        let (mut known, mut since, mut failures) = (None, self.clock.now(), 0);
        loop {
            match self.attempt(&mut known, &mut since).await {
                Ok(Some(lease)) => return lease,
                Ok(None) => failures = 0,
                Err(error) => {
                    failures += 1;
                    tracing::warn!(job = self.job, %error, "the lease cannot be read or taken; trying again");
                    // What was not seen may have changed.
                    (known, since) = (None, self.clock.now());
                }
            }
            let pause = if failures > 0 { retry_delay(failures) } else { limits::LEASE_LOOK };
            tokio::time::sleep(pause).await;
        }
    }

    async fn attempt(
        &self,
        known: &mut Option<(u64, LeaseNote)>,
        since: &mut Moment,
    ) -> Result<Option<Lease>, EngineError> {
        let asked = self.clock.now();
        let seen = self.seen().await?;
        if seen != *known {
            (*known, *since) = (seen, asked);
        }
        let wall = self.clock.wall();
        let Take::Now(token, condition) = take(known.as_ref(), asked.since(*since), wall) else { return Ok(None) };
        match self.tables.write(vec![ItemWrite::Put(self.table, self.item(token, 0, false), condition)]).await {
            Ok(()) => {
                tracing::info!(job = self.job, token, "this process holds the lease");
                Ok(Some(Lease { place: self.clone(), token, beats: AtomicU64::new(0) }))
            }
            Err(WriteError::Conflict(_)) => Ok(None),
            Err(WriteError::Engine(error)) => Err(error),
        }
    }
}

impl Lease {
    /// For every transaction that only the holder may make.
    pub fn guard(&self) -> ItemWrite {
        ItemWrite::Check(self.place.table, self.place.key(), Condition::VersionIs(self.token))
    }

    /// Rises with each take-over.
    pub const fn token(&self) -> u64 {
        self.token
    }

    /// Renews the lease until it is lost: taken over, or not renewed in time.
    pub async fn keep(&self) {
        let (mut renewed, mut failures) = (self.place.clock.now(), 0);
        loop {
            // A transaction that checks the lease may have been in the way for a moment.
            let pause = if failures == 0 { limits::LEASE_RENEWAL } else { retry_delay(failures) };
            tokio::time::sleep(pause.min(limits::LEASE_RENEWAL)).await;
            let asked = self.place.clock.now();
            match self.renew(false).await {
                Ok(()) => (renewed, failures) = (asked, 0),
                Err(WriteError::Conflict(places)) if !places.is_empty() => {
                    tracing::warn!(job = self.place.job, token = self.token, "another process took the lease over");
                    return;
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(job = self.place.job, %error, "the lease could not be renewed");
                }
            }
            // In time: when the next attempt comes, somebody else may hold it.
            if self.place.clock.now().since(renewed) + limits::LEASE_RENEWAL > limits::LEASE {
                tracing::warn!(job = self.place.job, token = self.token, "the lease ran out");
                return;
            }
        }
    }

    /// Gives it back, so that the next process need not wait.
    pub async fn release(&self) {
        if let Err(error) = self.renew(true).await {
            tracing::debug!(job = self.place.job, %error, "the lease was not given back; it runs out by itself");
        }
    }

    async fn renew(&self, released: bool) -> Result<(), WriteError> {
        let beat = self.beats.fetch_add(1, Ordering::Relaxed) + 1;
        let item = self.place.item(self.token, beat, released);
        let put = ItemWrite::Put(self.place.table, item, Condition::VersionIs(self.token));
        self.place.tables.write(vec![put]).await
    }
}

#[cfg(test)]
mod tests {
    use super::super::faulty::{FaultRates, Faults, Faulty};
    use super::super::memory::MemoryStore;
    use super::*;

    fn place(tables: &MemoryStore, holder: &str, clock: &Clock) -> LeasePlace {
        LeasePlace {
            tables: Arc::new(tables.clone()),
            table: Table::Region,
            job: "ingest",
            holder: holder.to_owned(),
            clock: clock.clone(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_process_waits_until_the_first_is_silent_and_then_fences_it_out() {
        let clock = Clock::simulated(Wall::from_millis(1_000_000));
        let tables = MemoryStore::new(clock.clone());
        let first = place(&tables, "a", &clock).acquire().await;
        let began = clock.now();
        let second = place(&tables, "b", &clock).acquire().await;
        assert!(clock.now().since(began) >= limits::LEASE, "the first never renewed, and nobody told");
        assert_eq!(second.token(), first.token() + 1);
        let write = |lease: &Lease| {
            let checkpoint = Item::new(ItemKey::new("checkpoint", "shard"), 1);
            tables.write(vec![lease.guard(), ItemWrite::Put(Table::Region, checkpoint, Condition::Any)])
        };
        assert_eq!(write(&first).await, Err(WriteError::Conflict(vec![0])));
        assert_eq!(write(&second).await, Ok(()));
        first.keep().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_whose_table_was_lost_does_not_share_the_lease_with_the_next_one() {
        let clock = Clock::simulated(Wall::from_millis(1_000_000));
        let tables = MemoryStore::new(clock.clone());
        let first = place(&tables, "a", &clock).acquire().await;
        tables.lose(Table::Region);
        tokio::time::advance(limits::LEASE_LOOK).await;
        let second = place(&tables, "b", &clock).acquire().await;
        assert!(second.token() > first.token());
        first.keep().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_renewed_is_not_taken_and_one_that_is_given_back_is_taken_at_once() {
        let clock = Clock::simulated(Wall::from_millis(1_000_000));
        let tables = MemoryStore::new(clock.clone());
        let first = place(&tables, "a", &clock).acquire().await;
        let other = place(&tables, "b", &clock);
        tokio::select! {
            () = first.keep() => panic!("nobody took it"),
            _ = other.acquire() => panic!("it is held"),
            () = tokio::time::sleep(limits::LEASE * 10) => {}
        }
        first.release().await;
        let began = clock.now();
        assert_eq!(other.acquire().await.token(), first.token() + 1);
        assert!(clock.now().since(began) <= limits::LEASE_LOOK);
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_that_cannot_renew_stops_before_anybody_else_may_begin() {
        let clock = Clock::simulated(Wall::from_millis(1_000_000));
        let tables = MemoryStore::new(clock.clone());
        let faults = Faults::default();
        let cut_off = Faulty::new(tables.clone(), faults.clone());
        let first = LeasePlace { tables: Arc::new(cut_off), ..place(&tables, "a", &clock) }.acquire().await;
        faults.set(FaultRates { fails: 1.0, ..FaultRates::default() });
        let began = clock.now();
        first.keep().await;
        assert!(clock.now().since(began) < limits::LEASE);
    }

    #[test]
    fn a_candidate_takes_what_is_free_given_back_or_silent() {
        let (now, moment) = (Wall::from_millis(700), Duration::ZERO);
        let note = |released| LeaseNote { holder: "a".to_owned(), beat: 7, released };
        assert_eq!(take(None, moment, now), Take::Now(700, Condition::Absent));
        assert_eq!(take(Some(&(4, note(true))), moment, now), Take::Now(5, Condition::VersionIs(4)));
        assert_eq!(take(Some(&(4, note(false))), limits::LEASE / 2, now), Take::Wait);
        assert_eq!(take(Some(&(4, note(false))), limits::LEASE, now), Take::Now(5, Condition::VersionIs(4)));
    }
}
