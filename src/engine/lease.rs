//! A fenced lease: of several processes that could do a job, one does it and the others stand by.
//!
//! Two items make a lease. The version of one is the fencing token: only a take-over raises it, and
//! what the holder writes checks it in the same transaction ([`Lease::guard`]). The other is the
//! holder's beat, whose renewals are thus in no transaction's way. A process that was paused and
//! only believes that it still holds the lease can repeat work, but it cannot move a checkpoint. No
//! wall clocks are compared: a candidate takes over when nothing has changed for
//! [`limits::LEASE`] on its own clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Condition, EngineError, Item, ItemKey, ItemWrite, Table, Tables, WriteError, limits, retry_delay};
use crate::model::time::{Clock, Moment, Wall};
use crate::tasks::unless_panicked;
use crate::telemetry::rate_limiter::RateLimiter;

/// Place of the lease, and who wants it.
#[derive(Clone)]
pub struct LeasePlace {
    pub tables: Arc<dyn Tables>,
    pub table: Table,
    /// Purpose of the lease: `ingest`, `views`.
    pub job: Arc<str>,
    /// Unique to this process and this start of it.
    pub holder: String,
    pub clock: Clock,
    pub lines: Arc<LeaseLines>,
}

/// Rations of what a store that fails has said of a lease, one of each kind of line.
#[derive(Debug, Default)]
pub struct LeaseLines {
    attempts: RateLimiter,
    taken: RateLimiter,
    renewals: RateLimiter,
    lost: RateLimiter,
}

/// The sort keys of its two items.
const TOKEN: &str = "lease";
const BEAT: &str = "beat";

/// A lease that this process held when it last looked.
pub struct Lease {
    place: LeasePlace,
    token: u64,
    beats: AtomicU64,
}

/// Who has the token; for people.
#[derive(serde::Serialize)]
struct TokenNote<'h> {
    holder: &'h str,
}

/// Content of a beat; its item's version is the token under which it was made.
#[derive(serde::Serialize, serde::Deserialize)]
struct BeatNote {
    beat: u64,
    /// Given back: nobody has to wait.
    released: bool,
}

/// Outcome of a term under a lease.
#[derive(Debug, PartialEq, Eq)]
pub enum TermEnd<T> {
    /// Its work ended.
    Done(T),
    /// Another process holds the lease, or may.
    Lost,
    /// The process stops.
    Stopped,
    /// A fault of this program, which the log tells of.
    Panicked,
}

/// Candidate's view of a lease. Whatever changes in it shows that its holder lives.
#[derive(Default, PartialEq)]
struct Seen {
    token: Option<Item>,
    beat: Option<Item>,
}

/// Candidate's decision on what it sees.
#[derive(Debug, PartialEq, Eq)]
enum Take {
    /// Write this token, if that is still as it was.
    Now(u64, Condition),
    /// Somebody else holds it, or just did.
    Wait,
}

impl Seen {
    /// True if the holder of the token gave it back. The two items may be read apart: a beat under
    /// another token says nothing.
    fn is_released(&self, token: u64) -> bool {
        let own = self.beat.as_ref().filter(|beat| beat.version == token);
        let note = own.and_then(|beat| serde_json::from_str::<BeatNote>(beat.note.as_deref()?).ok());
        note.is_some_and(|note| note.released)
    }

    /// `unchanged` says for how long all has been as it is, as far as this process has seen. The
    /// first token is the time: the table may have been lost under a holder that has not noticed yet.
    fn take(&self, unchanged: Duration, now: Wall) -> Take {
        match self.token.as_ref().map(|token| token.version) {
            None => Take::Now(now.as_millis(), Condition::Absent),
            Some(token) if self.is_released(token) || unchanged >= limits::LEASE => {
                Take::Now(token + 1, Condition::VersionIs(token))
            }
            Some(_) => Take::Wait,
        }
    }
}

impl LeasePlace {
    fn key(&self, sort: &str) -> ItemKey {
        ItemKey::new(format!("lease#{}", self.job), sort)
    }

    fn token_item(&self, token: u64) -> Item {
        let note = TokenNote { holder: &self.holder };
        let note = serde_json::to_string(&note).expect("a struct of plain fields is JSON");
        Item::new(self.key(TOKEN), token).with_note(note)
    }

    fn beat_item(&self, token: u64, beat: u64, released: bool) -> Item {
        let note = serde_json::to_string(&BeatNote { beat, released });
        Item::new(self.key(BEAT), token).with_note(note.expect("a struct of plain fields is JSON"))
    }

    async fn seen(&self) -> Result<Seen, EngineError> {
        let page = self.tables.query(self.table, &self.key(TOKEN).partition, None, limits::LEASE_ITEMS).await?;
        let mut seen = Seen::default();
        for item in page.items {
            match item.key.sort.as_str() {
                TOKEN => seen.token = Some(item),
                BEAT => seen.beat = Some(item),
                _ => {}
            }
        }
        Ok(seen)
    }

    /// Waits until this process holds the lease, however long that takes.
    pub async fn acquire(&self) -> Lease {
        let (mut known, mut since, mut failures) = (Seen::default(), self.clock.now(), 0);
        loop {
            match self.attempt(&mut known, &mut since).await {
                Ok(Some(lease)) => return lease,
                Ok(None) => failures = 0,
                Err(error) => {
                    failures += 1;
                    if let Some(suppressed) = self.lines.attempts.admit(self.clock.now()) {
                        let job = &*self.job;
                        tracing::warn!(job, %error, suppressed, "the lease cannot be read or taken; trying again");
                    }
                    // What was not seen may have changed.
                    (known, since) = (Seen::default(), self.clock.now());
                }
            }
            let pause = if failures > 0 { retry_delay(failures) } else { limits::LEASE_LOOK };
            tokio::time::sleep(pause).await;
        }
    }

    async fn attempt(&self, known: &mut Seen, since: &mut Moment) -> Result<Option<Lease>, EngineError> {
        let asked = self.clock.now();
        let seen = self.seen().await?;
        if seen != *known {
            (*known, *since) = (seen, asked);
        }
        let wall = self.clock.wall();
        let Take::Now(token, condition) = known.take(asked.since(*since), wall) else { return Ok(None) };
        let both = vec![
            ItemWrite::Put(self.table, self.token_item(token), condition),
            // From here on the last holder's renewals are refused.
            ItemWrite::Put(self.table, self.beat_item(token, 0, false), Condition::Any),
        ];
        match self.tables.write(both).await {
            Ok(()) => {
                if let Some(suppressed) = self.lines.taken.admit(self.clock.now()) {
                    tracing::info!(job = &*self.job, token, suppressed, "this process holds the lease");
                }
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
        ItemWrite::Check(self.place.table, self.place.key(TOKEN), Condition::VersionIs(self.token))
    }

    /// Rises with each take-over.
    pub const fn token(&self) -> u64 {
        self.token
    }

    /// Works and renews the lease, until either ends, or the process stops. Whatever the end, the
    /// work is over when this returns; the lease is the caller's to [release](Self::release).
    pub async fn term<T>(&self, work: impl Future<Output = T>, stopping: &CancellationToken) -> TermEnd<T> {
        tokio::select! {
            // In order, so that a simulated run can be repeated.
            biased;
            () = stopping.cancelled() => TermEnd::Stopped,
            () = self.keep() => TermEnd::Lost,
            done = unless_panicked(work) => done.map_or_else(|| self.panicked(), TermEnd::Done),
        }
    }

    fn panicked<T>(&self) -> TermEnd<T> {
        tracing::error!(job = &*self.place.job, token = self.token, "what works under the lease panicked");
        TermEnd::Panicked
    }

    /// Renews the lease until it is lost: taken over, or not renewed in time.
    pub async fn keep(&self) {
        let (mut renewed, mut failures) = (self.place.clock.now(), 0);
        loop {
            let pause = if failures == 0 { limits::LEASE_RENEWAL } else { retry_delay(failures) };
            tokio::time::sleep(pause.min(limits::LEASE_RENEWAL)).await;
            let asked = self.place.clock.now();
            match self.renew(false).await {
                Ok(()) => (renewed, failures) = (asked, 0),
                Err(WriteError::Conflict(places)) if !places.is_empty() => {
                    return self.lost("another process took the lease over");
                }
                Err(error) => {
                    failures += 1;
                    if let Some(suppressed) = self.place.lines.renewals.admit(self.place.clock.now()) {
                        tracing::warn!(job = &*self.place.job, %error, suppressed, "the lease could not be renewed");
                    }
                }
            }
            // In time: when the next attempt comes, somebody else may hold it.
            if self.place.clock.now().since(renewed) + limits::LEASE_RENEWAL > limits::LEASE {
                return self.lost("the lease ran out");
            }
        }
    }

    fn lost(&self, why: &str) {
        if let Some(suppressed) = self.place.lines.lost.admit(self.place.clock.now()) {
            tracing::warn!(job = &*self.place.job, token = self.token, suppressed, "{why}");
        }
    }

    /// Gives it back, so that the next process need not wait.
    pub async fn release(&self) {
        if let Err(error) = self.renew(true).await {
            tracing::debug!(job = &*self.place.job, %error, "the lease was not given back; it runs out by itself");
        }
    }

    async fn renew(&self, released: bool) -> Result<(), WriteError> {
        let beat = self.beats.fetch_add(1, Ordering::Relaxed) + 1;
        let item = self.place.beat_item(self.token, beat, released);
        let put = ItemWrite::Put(self.place.table, item, Condition::VersionIs(self.token));
        self.place.tables.write(vec![put]).await
    }
}

#[cfg(test)]
mod tests {
    use super::super::faulty::{FaultRates, Faults, Faulty};
    use super::super::memory::MemoryStore;
    use super::*;
    use crate::telemetry::limits::RATIONED_LINES;
    use crate::telemetry::scripted::CountedLines;

    fn place(tables: &MemoryStore, holder: &str, clock: &Clock) -> LeasePlace {
        LeasePlace {
            tables: Arc::new(tables.clone()),
            table: Table::Region,
            job: "ingest".into(),
            holder: holder.to_owned(),
            clock: clock.clone(),
            lines: Arc::default(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn second_process_fences_silent_first() {
        let clock = Clock::simulated(Wall::from_millis(1_000_000));
        let tables = MemoryStore::new(clock.clone());
        let first = place(&tables, "a", &clock).acquire().await;
        let began = clock.now();
        let second = place(&tables, "b", &clock).acquire().await;
        assert!(clock.now().since(began) >= limits::LEASE, "the first never renewed nor released");
        assert_eq!(second.token(), first.token() + 1);
        for (lease, outcome) in [(&first, Err(WriteError::Conflict(vec![0]))), (&second, Ok(()))] {
            let checkpoint = Item::new(ItemKey::new("checkpoint", "shard"), 1);
            let guarded = vec![lease.guard(), ItemWrite::Put(Table::Region, checkpoint, Condition::Any)];
            assert_eq!(tables.write(guarded).await, outcome);
        }
        first.keep().await;
    }

    #[tokio::test(start_paused = true)]
    async fn lost_table_never_shares_lease() {
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
    async fn renewed_lease_held_released_lease_taken() {
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
    async fn holder_stops_before_lease_expires() {
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

    /// One window of lines, first of a candidate and then of a holder that is cut off again and again.
    #[tokio::test(start_paused = true)]
    async fn failing_store_floods_no_lease_log() {
        let (most, window) = RATIONED_LINES;
        let clock = Clock::simulated(Wall::from_millis(1_000_000));
        let (tables, faults, lines) = (MemoryStore::new(clock.clone()), Faults::default(), CountedLines::start());
        let cut_off = Arc::new(Faulty::new(tables.clone(), faults.clone()));
        let place = LeasePlace { tables: cut_off, ..place(&tables, "a", &clock) };
        let down = FaultRates { fails: 1.0, ..FaultRates::default() };
        faults.set(down);
        let shortly = window - Duration::from_secs(1);
        assert!(tokio::time::timeout(shortly, place.acquire()).await.is_err());
        assert_eq!(lines.with("the lease cannot be read or taken"), most as usize);
        faults.set(FaultRates::default());
        let lease = place.acquire().await;
        // Without pauses: its holder, for however short a time, fails as often.
        for _ in 0..5 {
            faults.set(down);
            lease.keep().await;
        }
        for said in ["the lease could not be renewed", "the lease ran out"] {
            assert!((1..=most as usize).contains(&lines.with(said)), "{said}: {}", lines.with(said));
        }
    }

    #[test]
    fn candidate_takes_free_released_silent_lease() {
        let clock = Clock::simulated(Wall::from_millis(700));
        let place = place(&MemoryStore::new(clock.clone()), "a", &clock);
        let (now, moment) = (clock.wall(), Duration::ZERO);
        assert_eq!(Seen::default().take(moment, now), Take::Now(700, Condition::Absent));
        for (beat, silence, take) in [
            (place.beat_item(4, 7, true), moment, Take::Now(5, Condition::VersionIs(4))),
            (place.beat_item(4, 7, false), limits::LEASE / 2, Take::Wait),
            (place.beat_item(4, 7, false), limits::LEASE, Take::Now(5, Condition::VersionIs(4))),
            // Another term's end.
            (place.beat_item(3, 7, true), moment, Take::Wait),
        ] {
            let seen = Seen { token: Some(place.token_item(4)), beat: Some(beat) };
            assert_eq!(seen.take(silence, now), take);
        }
    }

    /// The check of the token and the renewal of the lease must not touch the same item: DynamoDB
    /// would refuse one of the two now and then.
    #[tokio::test(start_paused = true)]
    async fn checkpoint_guard_changes_only_on_takeover() {
        let clock = Clock::simulated(Wall::from_millis(1_000_000));
        let tables = MemoryStore::new(clock.clone());
        let first = place(&tables, "a", &clock).acquire().await;
        let ItemWrite::Check(table, key, _) = first.guard() else { panic!("it writes nothing") };
        let before = tables.get(table, &key).await.unwrap();
        let _ = tokio::time::timeout(limits::LEASE * 3, first.keep()).await;
        first.release().await;
        assert_eq!(tables.get(table, &key).await.unwrap(), before);
        assert_eq!(place(&tables, "b", &clock).acquire().await.token(), first.token() + 1);
        assert_ne!(tables.get(table, &key).await.unwrap(), before);
    }

    #[tokio::test(start_paused = true)]
    async fn term_end_names_its_cause() {
        let clock = Clock::simulated(Wall::from_millis(1_000_000));
        let tables = MemoryStore::new(clock.clone());
        let (lease, running) = (place(&tables, "a", &clock).acquire().await, CancellationToken::new());
        assert_eq!(lease.term(std::future::ready(7), &running).await, TermEnd::Done(7));
        let panics = async { panic!("a bug") };
        assert_eq!(lease.term::<()>(panics, &running).await, TermEnd::Panicked);
        let stopping = CancellationToken::new();
        stopping.cancel();
        assert_eq!(lease.term(std::future::pending::<()>(), &stopping).await, TermEnd::Stopped);
        tables.lose(Table::Region);
        assert_eq!(lease.term(std::future::pending::<()>(), &running).await, TermEnd::Lost);
    }
}
