//! redb has one writer, and each commit waits for the disk: so the transactions that came during one
//! commit are written together in the next. The caller that gets the turn commits for all who wait;
//! there is no thread to be stopped.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use redb::{ReadableDatabase, TableError};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, oneshot, watch};

use super::super::sizes::check_size;
use super::super::skipped::Skipped;
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
    /// Bytes that may still be queued.
    pub(super) queue_space: Arc<Semaphore>,
    /// Held by the one that writes.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    /// The end of each feed that somebody reads.
    ends: Mutex<BTreeMap<(Place, Stream), watch::Sender<u64>>>,
    feed_changes: u64,
    pub(super) skipped: Skipped,
}

/// Transactions whose commit has not begun, in the order of their tickets.
#[derive(Default)]
struct Queue {
    waiting: BTreeMap<u64, Queued>,
    next: u64,
}

struct Queued {
    place: Place,
    writes: Vec<ItemWrite>,
    answer: oneshot::Sender<Result<(), WriteError>>,
    _space: OwnedSemaphorePermit,
}

/// A transaction's place in the queue. A caller that gives up drops it, which removes the
/// transaction. If that stayed, it would occupy queue space until somebody else writes, and the one who
/// wants to write may be waiting for that very space.
struct Ticket<'w> {
    writer: &'w Writer,
    number: u64,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        // Dropped after the lock is released: giving back queue space wakes others.
        let abandoned = self.writer.queue().waiting.remove(&self.number);
        drop(abandoned);
    }
}

impl Writer {
    pub(super) fn new(disk: Disk, calendar: Calendar, feed_changes: u64) -> Self {
        let queue_space = Arc::new(Semaphore::new(limits::REDB_QUEUE_BYTES));
        let (queue, turn, ends) = (Mutex::default(), Arc::default(), Mutex::default());
        Self { disk, calendar, queue, queue_space, turn, ends, feed_changes, skipped: Skipped::default() }
    }

    /// All or nothing, and on the disk when this returns.
    pub(super) async fn write(self: &Arc<Self>, place: &Place, writes: Vec<ItemWrite>) -> Result<(), WriteError> {
        check_size(&writes)?;
        let bytes = u32::try_from(weight(&writes)).unwrap_or(u32::MAX);
        let space = self.queue_space.clone().acquire_many_owned(bytes);
        let space = tokio::time::timeout(limits::REDB_ROOM_WAIT, space).await;
        let space = space.map_err(|_| self.disk.busy())?.expect("nobody closes it");
        let (answer, mut answered) = oneshot::channel();
        let _ticket = self.enqueue(Queued { place: place.clone(), writes, answer, _space: space });
        let turn = tokio::select! {
            biased;
            outcome = &mut answered => return outcome.unwrap_or_else(|_| Err(self.disk.panicked().into())),
            turn = self.turn.clone().lock_owned() => turn,
        };
        if let Ok(outcome) = answered.try_recv() {
            return outcome;
        }
        self.commit_for_all(turn).await;
        answered.await.unwrap_or_else(|_| Err(self.disk.panicked().into()))
    }

    /// Commits all waiting transactions, the caller's among them, and goes on while more arrive.
    /// Returns once the caller's commit has ended: before later commits if there are any, otherwise
    /// after the blocking task, so that it leaves no file open behind it.
    async fn commit_for_all(self: &Arc<Self>, turn: OwnedMutexGuard<()>) {
        let writer = self.clone();
        let (more_waiting, others) = oneshot::channel();
        // Runs to its end even if the caller is cancelled.
        let mut whole = pin!(tasks::on_disk(move || {
            writer.write_queues(more_waiting);
            drop(turn);
        }));
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
        // A caller that has given up does not expect its transaction to be written any more.
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
            Err(FailedCommit { error, known_not_written }) => {
                let error = error_for_waiters(error, known_not_written);
                for queued in queue {
                    let _ = queued.answer.send(Err(error.clone().into()));
                }
            }
        }
    }

    /// Commits the waiting transactions, then those that came during that commit, up to
    /// [`limits::REDB_COMMITS_AT_ONCE`] times. Passing the turn on instead would leave the disk idle:
    /// it would go through all callers that have their answers already.
    fn write_queues(&self, more_waiting: oneshot::Sender<()>) {
        self.write_queue();
        if self.is_awaited() {
            let _ = more_waiting.send(());
            for _ in 1..limits::REDB_COMMITS_AT_ONCE {
                self.write_queue();
                if !self.is_awaited() {
                    break;
                }
            }
        }
    }

    fn is_awaited(&self) -> bool {
        !self.queue().waiting.is_empty()
    }

    /// Blocks; the caller has the turn.
    fn commit<T>(
        &self,
        work: impl FnOnce(&mut Draft<'_>) -> Result<(T, Keep), redb::Error>,
    ) -> Result<T, FailedCommit> {
        // Set as soon as the commit may reach the file; from then on it may be there whatever fails.
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
            let known_not_written = number.is_none_or(|number| self.is_known_not_written(number));
            FailedCommit { error, known_not_written }
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

    /// Returns whether nothing of the failed commit `number` is in the file: opened again, it ends with
    /// an earlier one. Nobody else has written since, because the caller has the turn. False where
    /// the file cannot be opened, since then the outcome is unknown.
    fn is_known_not_written(&self, number: u64) -> bool {
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
        let whole = tasks::on_disk(move || {
            let outcome = work(&writer);
            drop(turn);
            outcome
        });
        whole.await.unwrap_or_else(|| Err(self.disk.panicked()))
    }

    /// Removes what is due, up to a bound. Returns how many rows it has looked at.
    pub(super) async fn expire(self: &Arc<Self>, now: Wall) -> Result<usize, EngineError> {
        let removed = self.alone(move |writer| {
            let outcome = writer.commit(|draft| {
                let count = draft.expire(now, limits::REDB_REMOVED_AT_ONCE)?;
                Ok((count, if count > 0 { Keep::All } else { Keep::Nothing }))
            });
            outcome.map_err(|failed| failed.error)
        });
        removed.await
    }

    /// An item that cannot be read, and that stays where it is.
    pub(super) fn pass_over(&self, table: Table, key: &ItemKey, unreadable: Unreadable) {
        self.skipped.note(self.calendar.clock.now(), table, Some(key), &unreadable.to_string());
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
        self.queue.lock()
    }

    fn ends(&self) -> MutexGuard<'_, BTreeMap<(Place, Stream), watch::Sender<u64>>> {
        self.ends.lock()
    }
}

/// A commit that failed.
struct FailedCommit {
    error: EngineError,
    /// The file was read after the failure, and has nothing of the commit.
    known_not_written: bool,
}

/// The error to report: `NotWritten` if the commit is known to have left nothing, otherwise
/// `Unavailable` (outcome unknown).
pub(super) fn error_for_waiters(error: EngineError, known_not_written: bool) -> EngineError {
    match (error, known_not_written) {
        (EngineError::Unavailable { what, why }, true) => EngineError::NotWritten { what, why },
        (error, true) => error,
        (EngineError::Unavailable { what, why } | EngineError::Full { what, why }, false) => {
            EngineError::Unavailable { what, why }
        }
        // The other errors claim that nothing was written, which is not known here.
        (error, false) => EngineError::Unavailable { what: "a commit".to_owned(), why: error.to_string() },
    }
}

fn weight(writes: &[ItemWrite]) -> usize {
    writes
        .iter()
        .map(|write| match write {
            ItemWrite::Put(_, item, _) => item.weight(),
            ItemWrite::Delete(_, key, _) | ItemWrite::Check(_, key, _) => {
                key.partition.len() + key.sort.len() + limits::ITEM_OVERHEAD_BYTES
            }
        })
        .sum()
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
    /// Time at which the commit that is under way was written.
    writing: Option<Wall>,
}

impl Calendar {
    /// Continues a file whose last change was written at `latest`.
    pub(super) const fn new(clock: Clock, latest: Wall) -> Self {
        Self { clock, times: Mutex::new(Times { latest, writing: None }) }
    }

    fn times(&self) -> (MutexGuard<'_, Times>, Wall) {
        let mut times = self.times.lock();
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

    /// Time through which everything is there for a reader that begins after this.
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
    async fn changes_get_times_after_readers_claims() {
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
    async fn future_dated_file_claims_no_future() {
        let calendar = Calendar::new(Clock::simulated(Wall::from_millis(1_000)), Wall::from_millis(5_000));
        assert_eq!(calendar.through(), Wall::from_millis(999));
        assert_eq!(calendar.begin(), Wall::from_millis(5_000), "the feed's times never go back");
    }
}
