//! redb has one writer, and each commit waits for the disk: so what has come meanwhile is written
//! together. Whoever gets the turn writes for all who wait; there is no thread to be stopped.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{ReadableDatabase, TableError};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, oneshot, watch};

use super::super::passed_over::PassedOver;
use super::super::sizes::check_size;
use super::super::{EngineError, ItemKey, ItemWrite, Stream, Table, WriteError, limits};
use super::disk::{Disk, Keep};
use super::draft::{Draft, NotWritten};
use super::layout::{COMMITS, Place, Unreadable};
use crate::model::time::{Clock, Wall};
use crate::tasks;

/// The file and its one writer.
pub(super) struct Writer {
    pub(super) disk: Disk,
    pub(super) calendar: Calendar,
    queue: Mutex<Queue>,
    /// In bytes.
    pub(super) room: Arc<Semaphore>,
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    /// The end of each feed that somebody reads.
    ends: Mutex<BTreeMap<(Place, Stream), watch::Sender<u64>>>,
    feed_changes: u64,
    pub(super) passed_over: PassedOver,
}

/// Transactions that nobody writes yet, in the order of their tickets.
#[derive(Default)]
struct Queue {
    waiting: BTreeMap<u64, Queued>,
    next: u64,
}

struct Queued {
    place: Place,
    writes: Vec<ItemWrite>,
    answer: oneshot::Sender<Result<(), WriteError>>,
    _room: OwnedSemaphorePermit,
}

/// A transaction's place in the queue. Dropped before its turn, it takes the transaction with it:
/// else that would keep its part of the room until somebody else writes, and whoever would has to
/// wait for that room first.
struct Ticket<'w> {
    writer: &'w Writer,
    number: u64,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        // Outside of the lock: giving back room wakes others.
        let abandoned = self.writer.queue().waiting.remove(&self.number);
        drop(abandoned);
    }
}

impl Writer {
    pub(super) fn new(disk: Disk, calendar: Calendar, feed_changes: u64) -> Self {
        let room = Arc::new(Semaphore::new(limits::REDB_QUEUE_BYTES));
        let (queue, turn, ends) = (Mutex::default(), Arc::default(), Mutex::default());
        Self { disk, calendar, queue, room, turn, ends, feed_changes, passed_over: PassedOver::default() }
    }

    /// All or nothing, and on the disk when this returns.
    pub(super) async fn write(self: &Arc<Self>, place: &Place, writes: Vec<ItemWrite>) -> Result<(), WriteError> {
        check_size(&writes)?;
        let bytes = u32::try_from(weight(&writes)).unwrap_or(u32::MAX);
        let room = tokio::time::timeout(limits::REDB_ROOM_WAIT, self.room.clone().acquire_many_owned(bytes)).await;
        let room = room.map_err(|_| self.disk.busy())?.expect("nobody closes it");
        let (answer, mut answered) = oneshot::channel();
        let _ticket = self.enqueue(Queued { place: place.clone(), writes, answer, _room: room });
        let turn = tokio::select! {
            biased;
            outcome = &mut answered => return outcome.unwrap_or_else(|_| Err(self.disk.panicked().into())),
            turn = self.turn.clone().lock_owned() => turn,
        };
        if let Ok(outcome) = answered.try_recv() {
            return outcome;
        }
        self.lead(turn).await;
        answered.await.unwrap_or_else(|_| Err(self.disk.panicked().into()))
    }

    /// Writes what waits, the caller's transaction among it. Whoever leads waits for nobody else's
    /// commits, but leaves no file open behind it where there are none.
    async fn lead(self: &Arc<Self>, turn: OwnedMutexGuard<()>) {
        let writer = self.clone();
        let (goes_on, others) = oneshot::channel();
        let whole = move || {
            // What came meanwhile is written at once: to pass the turn on through all those who have
            // their answers would take longer than a commit, and the disk would wait.
            let is_more = |writer: &Self| !writer.queue().waiting.is_empty();
            writer.write_queue();
            if is_more(&writer) {
                let _ = goes_on.send(());
                for _ in 1..limits::REDB_COMMITS_AT_ONCE {
                    writer.write_queue();
                    if !is_more(&writer) {
                        break;
                    }
                }
            }
            drop(turn);
        };
        // Even if nobody waits for it any more, it goes on to its end.
        let mut whole = pin!(tasks::on_disk(whole));
        tokio::select! {
            biased;
            Ok(()) = others => {}
            _ = &mut whole => {}
        }
    }

    fn enqueue(&self, queued: Queued) -> Ticket<'_> {
        let mut queue = self.queue();
        let number = queue.next;
        queue.next += 1;
        queue.waiting.insert(number, queued);
        Ticket { writer: self, number }
    }

    fn write_queue(&self) {
        let waiting = std::mem::take(&mut self.queue().waiting);
        // Whoever has given up has no use for it any more, and would be surprised by it.
        let queue: Vec<Queued> = waiting.into_values().filter(|queued| !queued.answer.is_closed()).collect();
        let outcomes = self.commit(|draft| {
            let outcomes: Result<Vec<_>, _> =
                queue.iter().map(|queued| draft.write(&queued.place, &queued.writes)).collect();
            outcomes.map(|outcomes| {
                let keep = if outcomes.iter().any(Result::is_ok) { Keep::All } else { Keep::Nothing };
                (outcomes, keep)
            })
        });
        match outcomes {
            Ok(outcomes) => {
                for (queued, outcome) in queue.into_iter().zip(outcomes) {
                    let outcome = outcome.map_err(|why| match why {
                        NotWritten::Conflict(places) => WriteError::Conflict(places),
                        NotWritten::Unreadable(unreadable) => self.disk.unreadable(unreadable).into(),
                    });
                    let _ = queued.answer.send(outcome);
                }
            }
            Err(FailedCommit { error, is_absent }) => {
                let said = after_failure(error, is_absent);
                for queued in queue {
                    let _ = queued.answer.send(Err(said.clone().into()));
                }
            }
        }
    }

    /// Blocks; whoever calls this has the turn.
    fn commit<T>(
        &self,
        work: impl FnOnce(&mut Draft<'_>) -> Result<(T, Keep), redb::Error>,
    ) -> Result<T, FailedCommit> {
        // Once there is one, the file may have the commit whatever fails.
        let mut number = None;
        let done = self.disk.change(|transaction| {
            let mut draft = Draft::new(transaction, self.calendar.begin(), self.feed_changes);
            let (outcome, keep) = work(&mut draft)?;
            if let Keep::All = keep {
                number = Some(draft.number()?);
            }
            let ends = draft.ends();
            Ok(((outcome, ends), keep))
        });
        let (outcome, ends) = done.map_err(|error| {
            let is_absent = number.is_none_or(|number| self.is_absent(number));
            FailedCommit { error, is_absent }
        })?;
        // Not after an error: what was written may be there when the file is opened again.
        self.calendar.settle();
        for (feed, end) in ends {
            if let Some(known) = self.ends().get(&feed) {
                known.send_replace(end);
            }
        }
        Ok(outcome)
    }

    /// Nothing of a commit is there after its failure: the file, opened again, ends before it. Nobody
    /// else has written since. Where the file cannot be opened, nobody knows.
    fn is_absent(&self, number: u64) -> bool {
        let last = self.disk.with(|database| match database.begin_read()?.open_table(COMMITS) {
            Ok(table) => Ok(table.get(())?.map_or(0, |last| last.value())),
            Err(TableError::TableDoesNotExist(_)) => Ok(0),
            Err(error) => Err(error.into()),
        });
        last.is_ok_and(|last| last < number)
    }

    /// Does something else with the file that only one may do at a time.
    pub(super) async fn alone<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let turn = self.turn.clone().lock_owned().await;
        let writer = self.clone();
        let whole = move || {
            let outcome = work(&writer);
            drop(turn);
            outcome
        };
        tasks::on_disk(whole).await.unwrap_or_else(|| Err(self.disk.panicked()))
    }

    /// Removes what is due, up to a bound. Returns how many rows it has looked at.
    pub(super) async fn expire(self: &Arc<Self>, now: Wall) -> Result<usize, EngineError> {
        let expire = move |draft: &mut Draft<'_>| {
            let count = draft.expire(now, limits::REDB_REMOVED_AT_ONCE)?;
            Ok((count, if count > 0 { Keep::All } else { Keep::Nothing }))
        };
        self.alone(move |writer| writer.commit(expire).map_err(|failed| failed.error)).await
    }

    /// An item that cannot be read, and that stays where it is.
    pub(super) fn pass_over(&self, table: Table, key: &ItemKey, unreadable: Unreadable) {
        self.passed_over.note(self.calendar.clock.now(), table, Some(key), &unreadable.to_string());
    }

    /// Changes whenever the feed does.
    pub(super) fn end(&self, place: &Place, stream: Stream) -> watch::Receiver<u64> {
        self.ends().entry((place.clone(), stream)).or_default().subscribe()
    }

    #[cfg(test)]
    pub(super) fn queue_is_empty(&self) -> bool {
        self.queue().waiting.is_empty()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ends(&self) -> MutexGuard<'_, BTreeMap<(Place, Stream), watch::Sender<u64>>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A commit that failed.
struct FailedCommit {
    error: EngineError,
    /// Nothing of it is in the file.
    is_absent: bool,
}

/// The error that stands for a failed commit: nobody knows, unless nothing of it is there.
pub(super) fn after_failure(error: EngineError, is_absent: bool) -> EngineError {
    match (error, is_absent) {
        (EngineError::Unavailable { what, why }, true) => EngineError::NotWritten { what, why },
        (error, true) => error,
        (EngineError::Unavailable { what, why } | EngineError::Full { what, why }, false) => {
            EngineError::Unavailable { what, why }
        }
        // All others say that nothing was written.
        (error, false) => EngineError::Unavailable { what: "a commit".to_owned(), why: error.to_string() },
    }
}

fn weight(writes: &[ItemWrite]) -> usize {
    let of = |write: &ItemWrite| match write {
        ItemWrite::Put(_, item, _) => item.weight(),
        ItemWrite::Delete(_, key, _) | ItemWrite::Check(_, key, _) => {
            key.partition.len() + key.sort.len() + limits::ITEM_OVERHEAD_BYTES
        }
    };
    writes.iter().map(of).sum()
}

/// Says when changes were written, and through when all of them can be seen. A change gets its time
/// before its commit, which readers see only after it: so no reader may claim that time meanwhile,
/// and no change may get one that a reader has claimed, even if the clock is set back.
pub(super) struct Calendar {
    pub(super) clock: Clock,
    times: Mutex<Times>,
}

struct Times {
    /// No change will be written before this.
    latest: Wall,
    /// When the commit that is under way was written.
    writing: Option<Wall>,
}

impl Calendar {
    /// Where the last change in the file was written at `latest`.
    pub(super) const fn new(clock: Clock, latest: Wall) -> Self {
        Self { clock, times: Mutex::new(Times { latest, writing: None }) }
    }

    fn times(&self) -> (MutexGuard<'_, Times>, Wall) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.wall();
        times.latest = times.latest.max(now);
        (times, now)
    }

    /// The time of a commit that begins.
    fn begin(&self) -> Wall {
        let (mut times, _) = self.times();
        let latest = times.latest;
        *times.writing.insert(latest)
    }

    fn settle(&self) {
        self.times().0.writing = None;
    }

    /// Through when everything is there for whoever begins to read after this.
    pub(super) fn through(&self) -> Wall {
        let (times, now) = self.times();
        // In the current millisecond another change may still come.
        Wall::from_millis(times.writing.map_or(now, |writing| now.min(writing)).as_millis().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_reader_claims_a_time_that_a_change_still_gets() {
        let clock = Clock::simulated(Wall::from_millis(1_000));
        let calendar = Calendar::new(clock.clone(), Wall::from_millis(0));
        let written = calendar.begin();
        clock.step_wall(50);
        assert!(calendar.through() < written, "the commit takes its time");
        calendar.settle();
        assert_eq!(calendar.through(), Wall::from_millis(1_049));
        clock.step_wall(-500);
        assert_eq!(calendar.through(), Wall::from_millis(549), "never ahead of the clock");
        assert!(calendar.begin() > Wall::from_millis(1_049), "that was claimed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_from_the_future_is_no_claim_of_it() {
        let calendar = Calendar::new(Clock::simulated(Wall::from_millis(1_000)), Wall::from_millis(5_000));
        assert_eq!(calendar.through(), Wall::from_millis(999));
        assert_eq!(calendar.begin(), Wall::from_millis(5_000), "the feed's times never go back");
    }
}
