//! Maps one view. A change is only a trigger: whatever it says, everything is read anew, in an order
//! in which nothing that happens meanwhile is lost.
//!
//! 1. what is known of the view, with its count of writes;
//! 2. the main record;
//! 3. references for what it names are written: from here on, a change of that sets off a trigger;
//! 4. what it names, and the main record once more;
//! 5. the view, what it was made of, and what became superfluous, in one transaction that fails if
//!    anybody wrote since 1. References are removed only in such transactions, so none that is in
//!    use can be lost to another mapper.
//!
//! After a crash between any two of them the same trigger leads to the same result.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::try_join_all;

use super::counters::{MappedAgain, MappedView, ReadTable, ViewsCounters, ViewsLine};
use super::definition::{JoinTarget, ViewDefinition, key_digest, short_digest};
use super::limits;
use super::make::{self, Unmappable};
use super::retry::others_write;
use super::stored::{self, StoredNote, ViewNote};
use super::vector::{Trigger, ViewVector};
use crate::engine::{Condition, EngineError, Item, ItemKey, ItemWrite, Table, Tables, WriteError};
use crate::model::names;
use crate::model::time::Clock;
use crate::switch::{Guard, is_on};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapOutcome {
    /// The view has this version now.
    Written(u64),
    /// Its content is the same; what it was made of is newer.
    Noted,
    /// It was right.
    Unchanged,
    /// Its main record never existed.
    NoRecord,
    /// It was made with a greater number of its definition, or of newer records than there are.
    LeftAlone,
    /// It cannot be made, and lies among the failures.
    Failed(Unmappable),
}

impl MapOutcome {
    /// The outcome in metrics.
    const fn label(self) -> MappedView {
        match self {
            Self::Written(_) => MappedView::Written,
            Self::Noted => MappedView::Noted,
            Self::Unchanged => MappedView::Unchanged,
            Self::NoRecord => MappedView::NoRecord,
            Self::LeftAlone => MappedView::LeftAlone,
            Self::Failed(_) => MappedView::Failed,
        }
    }
}

/// Makes views of records; clones share everything.
#[derive(Clone)]
pub struct Mapper {
    pub(super) store: Arc<dyn Tables>,
    pub(super) clock: Clock,
    pub(super) counters: ViewsCounters,
}

/// Either it is done, or somebody else was at it.
enum Attempt {
    Done(MapOutcome),
    Again,
}

/// One view that is looked at.
struct Mapping<'m> {
    mapper: &'m Mapper,
    view: &'m ViewDefinition,
    key: &'m str,
    trigger: Trigger<'m>,
    /// Targets of the references that were written, or that led here.
    referred: BTreeSet<JoinTarget>,
    round: u32,
    /// The main record's version, as far as it was read.
    main: u64,
}

/// Next state of a view.
struct NextView {
    vector: ViewVector,
    content: Option<Bytes>,
}

/// Part of a view that the table has already.
struct ViewShown {
    last: u64,
    is_right: bool,
}

impl Mapper {
    pub fn new(store: Arc<dyn Tables>, clock: Clock, counters: ViewsCounters) -> Self {
        Self { store, clock, counters }
    }

    /// Brings a view up to date with all that happened before this was called. What the engine
    /// refuses, however often it is asked, makes this one view fail and holds up nothing else.
    ///
    /// # Errors
    /// What else the engine says; then the same call again leads on. [`EngineError::Unavailable`]
    /// also if others kept writing the view.
    pub(super) async fn map(
        &self,
        view: &ViewDefinition,
        key: &str,
        trigger: Trigger<'_>,
    ) -> Result<MapOutcome, EngineError> {
        let referred = if let Trigger::Input(target, _) = trigger { Some(target.clone()) } else { None };
        let referred = referred.into_iter().collect();
        let mut mapping = Mapping { mapper: self, view, key, trigger, referred, round: 0, main: 0 };
        while mapping.round < limits::MAPPING_ROUNDS {
            let attempt = match mapping.attempt().await {
                // What it knows of the view, or that it failed, can be neither read nor written.
                Err(EngineError::Refused { what, why }) => {
                    if let Some(suppressed) = self.line(ViewsLine::Refused) {
                        let key = key_digest(key);
                        tracing::error!(view = view.name, key, what, why, suppressed, "the engine refuses");
                    }
                    Attempt::Done(MapOutcome::Failed(Unmappable::Refused))
                }
                attempt => attempt?,
            };
            if let Attempt::Done(outcome) = attempt {
                self.counters.metrics.mapped(outcome.label());
                if let MapOutcome::Failed(why) = outcome {
                    self.counters.metrics.unmappable(why);
                    if let Some(suppressed) = self.line(ViewsLine::Unmappable) {
                        let key = key_digest(key);
                        tracing::error!(view = view.name, key, suppressed, "a view cannot be made: {why}");
                    }
                }
                return Ok(outcome);
            }
            mapping.round += 1;
        }
        Err(others_write("a view"))
    }

    pub(super) fn line(&self, line: ViewsLine) -> Option<u64> {
        self.counters.line(line, self.clock.now())
    }

    /// Counts an item that is not what it should be and is skipped, and says so.
    pub(super) fn unreadable(&self, table: ReadTable, key: &ItemKey) {
        if let Some(suppressed) = self.counters.unreadable(table, self.clock.now()) {
            // The rest may hold another record's key.
            let partition: Vec<&str> = key.partition.split('#').take(2).collect();
            let (table, partition, key) = (table.into_str(), partition.join("#"), key_digest(&key.sort));
            tracing::warn!(table, partition, key, suppressed, "an item is not what it should be, and is skipped");
        }
    }

    pub(super) async fn record(&self, record_type: &str, key: &str) -> Result<Option<Item>, EngineError> {
        self.store.get(Table::Records, &stored::current(record_type, key)).await
    }

    pub(super) async fn note(&self, view: &str, key: &str) -> Result<StoredNote, EngineError> {
        let place = StoredNote::key(view, key);
        let item = self.store.get(Table::Mapping, &place).await?;
        Ok(StoredNote::read(place, item))
    }

    /// Joined records, in the order of the view's needs; 0 and no body for one that does not exist.
    pub(super) async fn inputs(
        &self,
        targets: &[Option<JoinTarget>],
    ) -> Result<Vec<(u64, Option<Bytes>)>, EngineError> {
        try_join_all(targets.iter().map(|target| {
            let target = target.clone();
            async move {
                let Some(target) = target else { return Ok((0, None)) };
                let item = self.record(&target.record_type, &target.key).await?;
                Ok(item.map_or((0, None), |item| (item.version, item.body)))
            }
        }))
        .await
    }
}

/// The vector and the content of a view of these records.
pub(super) fn made(
    view: &ViewDefinition,
    main: &Item,
    targets: Vec<Option<JoinTarget>>,
    inputs: Vec<(u64, Option<Bytes>)>,
) -> (ViewVector, Result<Option<Bytes>, Unmappable>) {
    let (versions, bodies): (Vec<u64>, Vec<Option<Bytes>>) = inputs.into_iter().unzip();
    let joined = targets.into_iter().zip(versions).filter_map(|(target, version)| Some((target?, version)));
    let vector = ViewVector { definition: view.number, main: main.version, joined: joined.collect() };
    (vector, make::make(view, main.body.as_deref(), &bodies))
}

/// Targets that the main record names; a deleted one names nothing.
pub(super) fn targets(view: &ViewDefinition, main: &Item) -> Result<Vec<Option<JoinTarget>>, Unmappable> {
    let key = main.key.sort.as_str();
    if names::key_problem(key).is_some() || main.key != stored::current(&view.from, key) {
        return Err(Unmappable::Key);
    }
    main.body.as_deref().map_or_else(|| Ok(vec![None; view.needs.len()]), |body| make::targets(view, body))
}

/// Digest of a content in a note.
fn content_digest(content: Option<&Bytes>) -> String {
    content.map_or_else(|| "tombstone".to_owned(), |content| short_digest(content))
}

impl Mapping<'_> {
    async fn attempt(&mut self) -> Result<Attempt, EngineError> {
        let stored = self.mapper.note(&self.view.name, self.key).await?;
        if is_on(Guard::DefinitionFirst) && stored.note.vector.definition > self.view.number {
            return Ok(Attempt::Done(MapOutcome::LeftAlone));
        }
        if stored.note.vector.definition == self.view.number && stored.note.vector.covers(self.trigger) {
            return Ok(Attempt::Done(MapOutcome::Unchanged));
        }
        match self.remake(&stored).await {
            Err(EngineError::Refused { what, why }) => {
                if let Some(suppressed) = self.mapper.line(ViewsLine::RefusedPart) {
                    tracing::error!(
                        view = self.view.name,
                        what,
                        why,
                        suppressed,
                        "the engine refuses part of a view"
                    );
                }
                self.fail(&stored, Unmappable::Refused).await
            }
            attempt => attempt,
        }
    }

    async fn remake(&mut self, stored: &StoredNote) -> Result<Attempt, EngineError> {
        let Some(main) = self.mapper.record(&self.view.from, self.key).await? else {
            return Ok(Attempt::Done(MapOutcome::NoRecord));
        };
        self.main = main.version;
        let targets = match targets(self.view, &main) {
            Ok(targets) => targets,
            Err(why) => return self.fail(stored, why).await,
        };
        let late = if is_on(Guard::ReferencesFirst) { Vec::new() } else { targets.clone() };
        if is_on(Guard::ReferencesFirst) {
            self.refer(stored, targets.iter().flatten()).await?;
        }
        let inputs = self.mapper.inputs(&targets).await?;
        // A record that changes all the time sets off a trigger each time: what is made now is not
        // the last.
        if !targets.is_empty() && self.round < limits::MOVED_ROUNDS {
            let again = self.mapper.record(&self.view.from, self.key).await?;
            if again.map(|main| main.version) != Some(main.version) {
                self.mapper.counters.metrics.again(MappedAgain::Moved);
                return Ok(Attempt::Again);
            }
        }
        let attempt = match made(self.view, &main, targets, inputs) {
            (vector, Ok(content)) => self.keep(stored, NextView { vector, content }).await?,
            (_, Err(why)) => self.fail(stored, why).await?,
        };
        self.refer(stored, late.iter().flatten()).await?;
        Ok(attempt)
    }

    /// Writes that this view needs `targets`. What a known vector names is there already: such a
    /// reference is removed only together with the name.
    async fn refer(
        &mut self,
        stored: &StoredNote,
        targets: impl Iterator<Item = &JoinTarget>,
    ) -> Result<(), EngineError> {
        let known = &stored.note.vector.joined;
        let is_afresh = self.trigger == Trigger::Afresh;
        let new: BTreeSet<JoinTarget> =
            targets.filter(|target| is_afresh || !known.contains_key(*target)).cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        let writes = new
            .iter()
            .map(|target| {
                let item = Item::new(stored::reference(target, &self.view.name, self.key), 1);
                ItemWrite::Put(Table::Mapping, item, Condition::Any)
            })
            .collect();
        self.referred.extend(new);
        match self.mapper.store.write(writes).await {
            Ok(()) => Ok(()),
            Err(WriteError::Engine(error)) => Err(error),
            // Nothing was asked of them: somebody touched the same items.
            Err(WriteError::Conflict(_)) => {
                let why = "others write the same references".to_owned();
                Err(EngineError::Unavailable { what: "mapping".to_owned(), why })
            }
        }
    }

    async fn keep(&self, stored: &StoredNote, made: NextView) -> Result<Attempt, EngineError> {
        let known = &stored.note;
        let is_newer = made.vector.is_newer_than(&known.vector);
        if !is_newer && made.vector != known.vector {
            if let Some(suppressed) = self.mapper.line(ViewsLine::MadeOfNewer) {
                tracing::warn!(view = self.view.name, suppressed, "a view was made of newer records than there are");
            }
            return Ok(Attempt::Done(MapOutcome::LeftAlone));
        }
        let digest = content_digest(made.content.as_ref());
        let shown = self.shown(stored, &made, &digest).await?;
        let superfluous = self.superfluous(known, &made.vector);
        if !is_newer && shown.is_right && superfluous.is_empty() && !known.failed {
            return Ok(Attempt::Done(MapOutcome::Unchanged));
        }
        let now = self.mapper.clock.wall();
        let least = if is_on(Guard::ViewVersionFromCalendar) { now.as_millis() } else { 0 };
        let version = if shown.is_right { shown.last } else { (shown.last + 1).max(least) };
        let note = ViewNote { vector: made.vector, version, content: digest, failed: false };
        let mut writes = vec![stored.replace(&note, now)];
        if !shown.is_right {
            let mut item = Item::new(stored::current(&self.view.name, self.key), version);
            item.body = made.content;
            // The note's count decides; this holds even if the notes were lost.
            writes.push(ItemWrite::Put(Table::Views, item, Condition::Below(version)));
        }
        writes.extend(superfluous.into_iter().map(|key| ItemWrite::Delete(Table::Mapping, key, Condition::Any)));
        if known.failed {
            writes.push(stored::no_failure(&self.view.name, self.key));
        }
        let outcome = if shown.is_right { MapOutcome::Noted } else { MapOutcome::Written(version) };
        self.concluded(self.mapper.store.write(writes).await, outcome)
    }

    /// State of the view in the table: by its note, unless there is reason to look.
    async fn shown(&self, stored: &StoredNote, made: &NextView, digest: &str) -> Result<ViewShown, EngineError> {
        let known = &stored.note;
        let is_believed = stored.is_known && known.version > 0 && self.trigger != Trigger::Afresh && self.round == 0;
        if is_believed {
            return Ok(ViewShown { last: known.version, is_right: known.content == digest });
        }
        let item = self.mapper.store.get(Table::Views, &stored::current(&self.view.name, self.key)).await?;
        let is_right = item.as_ref().is_some_and(|item| item.body == made.content && item.version >= known.version);
        Ok(ViewShown { last: known.version.max(item.map_or(0, |item| item.version)), is_right })
    }

    /// References that led here, or that an earlier vector or attempt needed, and that this does
    /// not need.
    fn superfluous(&self, known: &ViewNote, vector: &ViewVector) -> BTreeSet<ItemKey> {
        let all = known.vector.joined.keys().chain(&self.referred);
        let unneeded = all.filter(|target| !vector.joined.contains_key(target));
        unneeded.map(|target| stored::reference(target, &self.view.name, self.key)).collect()
    }

    /// Notes that the view cannot be made. References stay: a change of one of the records may
    /// mend it.
    async fn fail(&self, stored: &StoredNote, why: Unmappable) -> Result<Attempt, EngineError> {
        let note = ViewNote { failed: true, ..stored.note.clone() };
        let now = self.mapper.clock.wall();
        let failure = stored::failure(&self.view.name, self.key, why, self.main, now);
        let result = self.mapper.store.write(vec![stored.replace(&note, now), failure]).await;
        self.concluded(result, MapOutcome::Failed(why))
    }

    fn concluded(&self, result: Result<(), WriteError>, outcome: MapOutcome) -> Result<Attempt, EngineError> {
        match result {
            Ok(()) => Ok(Attempt::Done(outcome)),
            Err(WriteError::Conflict(_)) => {
                self.mapper.counters.metrics.again(MappedAgain::Refused);
                Ok(Attempt::Again)
            }
            Err(WriteError::Engine(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
