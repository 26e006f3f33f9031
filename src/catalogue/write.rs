//! Writing: read what is there, decide, and write all of it in one transaction that holds only if
//! nothing has changed since. A conflict begins it again, a bounded number of times.

use bytes::Bytes;
use futures_util::future::try_join_all;

use super::author::Author;
use super::error::CatalogueError;
use super::limits::{BATCH_BYTES, BATCH_RECORDS, CHECK_STEPS, CHECK_WAIT, HISTORY_STEP, QUICK_STEPS, WRITE_ATTEMPTS};
use super::note::ChangeNote;
use super::record::{RecordWrite, RecordWritten, WriteAnswer};
use super::remembered::{IdempotencyKey, hash_of};
use super::{Catalogue, digits, history, json, place};
use crate::access::record::GRANTS;
use crate::catalogue::counts::StoreCall;
use crate::catalogue::counts::WriteOutcome;
use crate::engine::{Condition, EngineError, Item, ItemKey, ItemWrite, Table, WriteError, retry_delay};
use crate::model::time::Wall;
use crate::switch::{Guard, is_on};
use crate::tasks;

/// State of a record before a write.
struct Head {
    version: Option<u64>,
    exists: bool,
    /// No version up to this one may be given.
    last: u64,
}

impl Catalogue {
    /// Writes one record, and beside its version who did, and why.
    ///
    /// # Errors
    /// See [`CatalogueError`]. After [`CatalogueError::OutcomeUnknown`] nobody knows; with any
    /// other, nothing was written.
    pub async fn write(
        &self,
        write: RecordWrite,
        once: Option<&IdempotencyKey>,
        author: &Author,
    ) -> Result<(RecordWritten, bool), CatalogueError> {
        let answer = self.apply(&[write], false, once, author).await;
        let answer = answer.map_err(|error| error.root().clone())?;
        Ok((answer.applied[0], answer.replayed))
    }

    /// Writes up to [`BATCH_RECORDS`] records, all or none. Views and regions may show them one by
    /// one.
    ///
    /// # Errors
    /// As [`Catalogue::write`]; [`CatalogueError::Part`] names the part that nothing was written
    /// for.
    pub async fn batch(
        &self,
        writes: &[RecordWrite],
        once: Option<&IdempotencyKey>,
        author: &Author,
    ) -> Result<WriteAnswer, CatalogueError> {
        if !(1..=BATCH_RECORDS).contains(&writes.len()) {
            return Err(CatalogueError::BadBatch(format!("a batch writes 1 to {BATCH_RECORDS} records")));
        }
        if writes.iter().filter_map(|write| write.body.as_ref()).map(Bytes::len).sum::<usize>() > BATCH_BYTES {
            return Err(CatalogueError::BadBatch(format!("the bodies have more than {BATCH_BYTES} bytes together")));
        }
        for (at, write) in writes.iter().enumerate() {
            let mut earlier = writes[..at].iter();
            if earlier.any(|other| other.record_type == write.record_type && other.key == write.key) {
                return Err(CatalogueError::BadBatch(format!("part {at} writes the same record as an earlier one")));
            }
        }
        self.apply(writes, true, once, author).await
    }

    async fn apply(
        &self,
        writes: &[RecordWrite],
        batch: bool,
        once: Option<&IdempotencyKey>,
        author: &Author,
    ) -> Result<WriteAnswer, CatalogueError> {
        let once = once.map(|key| (key, hash_of(writes, batch)));
        if let Err(refused) = each(writes, |write| self.check_name(&write.record_type, &write.key)) {
            // What took place before its type was taken away is still answered as it was then.
            let answered = match &once {
                Some((key, hash)) => self.answered(key, hash, writes.len()).await?,
                None => None,
            };
            return answered.ok_or(refused);
        }
        self.apply_named(writes, once, author).await
    }

    /// Writes records whose names are known. `once` is the idempotency key, and the hash of what was
    /// asked under it.
    pub(super) async fn apply_named(
        &self,
        writes: &[RecordWrite],
        once: Option<(&IdempotencyKey, String)>,
        author: &Author,
    ) -> Result<WriteAnswer, CatalogueError> {
        let fits = self.check_bodies(writes).await;
        for attempt in 1..=WRITE_ATTEMPTS {
            let now = self.clock.wall();
            let heads = try_join_all(writes.iter().map(|write| self.head(write, now))).await?;
            // Read after the records: if they show this very request's effect, its answer is there.
            let remembered = match &once {
                Some((key, _)) => self.item(Table::Requests, &key.place()).await?,
                None => None,
            };
            if let (Some((_, hash)), Some(item)) = (&once, &remembered)
                && let Some(applied) = IdempotencyKey::answered(item, hash, writes.len(), now)?
            {
                self.counts.wrote(WriteOutcome::Replayed);
                return Ok(WriteAnswer { applied, replayed: true });
            }
            // Not before: what took place under another schema is still answered as it was then.
            fits.clone()?;
            let (mut parts, applied) = plan(writes, &heads, now, author)?;
            if let Some((key, hash)) = &once {
                parts.push(key.remember(hash, &applied, remembered.as_ref(), now));
            }
            match self.commit(parts).await {
                Ok(()) => {
                    applied.iter().for_each(|applied| self.counts.wrote(applied.outcome()));
                    return Ok(WriteAnswer { applied, replayed: false });
                }
                Err(WriteError::Conflict(_)) => self.counts.conflict(),
                Err(WriteError::Engine(error @ EngineError::Unavailable { .. })) => {
                    if let Some(suppressed) = self.failure_lines.admit(self.clock.now()) {
                        tracing::warn!(%error, suppressed, "the outcome of a write is not known");
                    }
                    return Err(CatalogueError::OutcomeUnknown);
                }
                Err(WriteError::Engine(error)) => return Err(error.into()),
            }
            if attempt < WRITE_ATTEMPTS {
                tokio::time::sleep(retry_delay(attempt)).await;
            }
        }
        Err(CatalogueError::Contended)
    }

    /// Checks all bodies in one budget of steps. What takes longer than a moment goes on on a thread
    /// that serves nobody.
    async fn check_bodies(&self, writes: &[RecordWrite]) -> Result<(), CatalogueError> {
        let (mut left, mut quick) = (CHECK_STEPS, QUICK_STEPS);
        for (at, write) in writes.iter().enumerate() {
            // The grants have been read whole ([`super::grants`]).
            let Some(body) = write.body.as_ref().filter(|_| write.record_type != GRANTS) else { continue };
            let body = json::object(body).map_err(|why| of_part(at, why))?;
            let checker = self.types.checker(&write.record_type).map_err(|why| of_part(at, why))?;
            if checker.fits(&body, &mut quick) == Ok(true) {
                continue;
            }
            let check = tasks::on_blocking_pool(move || {
                let checked = checker.check(&body, &mut left);
                (checked, left)
            });
            let done =
                tokio::time::timeout(CHECK_WAIT, check).await.map_err(|_| of_part(at, CatalogueError::ChecksBusy))?;
            let (checked, rest) = done.ok_or_else(|| of_part(at, CatalogueError::SchemaCost))?;
            checked.map_err(|why| of_part(at, why))?;
            left = rest;
        }
        Ok(())
    }

    /// Answer to this request when it took place.
    async fn answered(
        &self,
        key: &IdempotencyKey,
        hash: &str,
        records: usize,
    ) -> Result<Option<WriteAnswer>, CatalogueError> {
        let now = self.clock.wall();
        let Some(item) = self.item(Table::Requests, &key.place()).await? else { return Ok(None) };
        let applied = IdempotencyKey::answered(&item, hash, records, now)?;
        Ok(applied.map(|applied| {
            self.counts.wrote(WriteOutcome::Replayed);
            WriteAnswer { applied, replayed: true }
        }))
    }

    /// All in one transaction, whatever guards may be off.
    async fn commit(&self, parts: Vec<ItemWrite>) -> Result<(), WriteError> {
        let (later, parts): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| match part.table() {
            Table::History => !is_on(Guard::HistoryWithRecord),
            Table::Requests => !is_on(Guard::RememberedWithRecord),
            _ => false,
        });
        self.timed(StoreCall::Write, self.store.write(parts)).await?;
        if later.is_empty() { Ok(()) } else { self.timed(StoreCall::Write, self.store.write(later)).await }
    }

    async fn head(&self, write: &RecordWrite, now: Wall) -> Result<Head, EngineError> {
        match self.item(Table::Records, &place(&write.record_type, &write.key)).await? {
            Some(item) => {
                // A document that was put back is followed by one that is newer than what it replaced.
                let floor = self.grants_floor.get().copied().filter(|_| write.record_type == GRANTS);
                let last = item.version.max(floor.unwrap_or_default());
                Ok(Head { version: Some(item.version), exists: item.body.is_some(), last })
            }
            None => {
                let last = self.last_given(&write.record_type, &write.key, now).await?;
                Ok(Head { version: None, exists: false, last })
            }
        }
    }

    /// The last version that the history knows of a record that is not there, if it is not before
    /// `now`. Frequent writes, or a clock that was set back, may have put a lost record ahead.
    async fn last_given(&self, record_type: &str, key: &str, now: Wall) -> Result<u64, EngineError> {
        self.last_above(record_type, key, now.as_millis().saturating_sub(1)).await
    }

    /// The last version above this one that the history knows of a record; 0 where there is none.
    pub(super) async fn last_above(&self, record_type: &str, key: &str, above: u64) -> Result<u64, EngineError> {
        let (partition, mut last) = (history(record_type, key), 0);
        let mut after = Some(digits(above));
        while let Some(from) = after {
            let page = self.query(Table::History, &partition, Some(&from), HISTORY_STEP).await?;
            last = page.items.last().map_or(last, |item| item.version);
            after = page.next.map(|next| next.sort);
        }
        Ok(last)
    }
}

/// The first refusal, with its place.
fn each(
    writes: &[RecordWrite],
    check: impl Fn(&RecordWrite) -> Result<(), CatalogueError>,
) -> Result<(), CatalogueError> {
    let mut writes = writes.iter().enumerate();
    writes.try_for_each(|(at, write)| check(write).map_err(|why| CatalogueError::Part { at, why: Box::new(why) }))
}

/// The parts of the transaction, and what to answer once it took place.
fn plan(
    writes: &[RecordWrite],
    heads: &[Head],
    now: Wall,
    author: &Author,
) -> Result<(Vec<ItemWrite>, Vec<RecordWritten>), CatalogueError> {
    let (mut parts, mut applied) = (Vec::with_capacity(2 * writes.len() + 1), Vec::with_capacity(writes.len()));
    for (at, (write, head)) in writes.iter().zip(heads).enumerate() {
        let version = head.version;
        if write.body.is_none() && !head.exists {
            return Err(of_part(at, CatalogueError::NotFound { version }));
        }
        if !write.only_if.may_replace(version, head.exists) {
            return Err(of_part(at, CatalogueError::PreconditionFailed { version }));
        }
        let given = if is_on(Guard::VersionFromCalendar) {
            now.as_millis().max(head.last.saturating_add(1))
        } else {
            version.unwrap_or_default().saturating_add(1)
        };
        let unchanged = if is_on(Guard::VersionInCondition) {
            version.map_or(Condition::Absent, Condition::VersionIs)
        } else {
            Condition::Any
        };
        let record = Item::new(place(&write.record_type, &write.key), given);
        let version = Item::new(ItemKey::new(history(&write.record_type, &write.key), digits(given)), given)
            .with_note(ChangeNote::of(author, given, now).to_text());
        let items = [(Table::Records, record, unchanged), (Table::History, version, Condition::Absent)];
        parts.extend(items.map(|(table, item, condition)| {
            ItemWrite::Put(table, Item { body: write.body.clone(), ..item }, condition)
        }));
        applied.push(RecordWritten { version: given, created: !head.exists, deleted: write.body.is_none() });
    }
    Ok((parts, applied))
}

fn of_part(at: usize, why: CatalogueError) -> CatalogueError {
    CatalogueError::Part { at, why: Box::new(why) }
}
