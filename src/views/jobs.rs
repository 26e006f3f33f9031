//! Work that is too much for one batch of the feed, written down with how far it got: a change that
//! touches many views, and a definition that changed. A job survives every process.

use serde::{Deserialize, Serialize};

use super::definition::JoinTarget;
use super::limits;
use crate::engine::lease::Lease;
use crate::engine::{self, Condition, EngineError, Item, ItemKey, ItemWrite, Table, Tables, WriteError};
use crate::model::time::Wall;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum JobTask {
    /// Every view of this name, by the definition with this number.
    View { name: String, definition: u64 },
    /// Every view that needs this record, which has this version or a newer one.
    Input { target: JoinTarget, version: u64 },
}

impl JobTask {
    fn sort(&self) -> String {
        match self {
            Self::View { name, .. } => format!("view#{name}"),
            Self::Input { target, .. } => format!("input#{target}"),
        }
    }

    /// Partitions that it goes through.
    pub(super) const fn parts(&self) -> u16 {
        match self {
            Self::View { .. } => engine::limits::BUCKETS,
            Self::Input { .. } => limits::REFERENCE_PARTS,
        }
    }

    /// Both tasks in one: they have the same sort key.
    fn with(self, other: &Self) -> Self {
        match (self, other) {
            (Self::View { name, definition }, Self::View { definition: known, .. }) => {
                Self::View { name, definition: definition.max(*known) }
            }
            (Self::Input { target, version }, Self::Input { version: known, .. }) => {
                Self::Input { target, version: version.max(*known) }
            }
            (task, _) => task,
        }
    }
}

/// A task and how far it got.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) task: JobTask,
    /// The partition that comes next, and the sort key behind which.
    pub(super) part: u16,
    pub(super) after: Option<String>,
    /// It was asked for again on the way, so it goes round once more. A job that began anew each
    /// time would never reach its end.
    again: bool,
    /// On the calendar, in milliseconds.
    begun: u64,
    /// Views that it looked at.
    pub(super) views: u64,
    #[serde(skip)]
    writes: u64,
}

/// How far a job got, for operators.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStatus {
    /// `all views limits`, `views that need a shard`.
    pub what: String,
    pub begun: Wall,
    /// Views that it looked at.
    pub views: u64,
    /// From 0 to 1.
    pub done: f64,
}

impl Job {
    fn new(task: JobTask, now: Wall) -> Self {
        Self { task, part: 0, after: None, again: false, begun: now.as_millis(), views: 0, writes: 0 }
    }

    fn key(&self) -> ItemKey {
        ItemKey::new(PARTITION, self.task.sort())
    }

    fn item(&self, version: u64) -> Item {
        let note = serde_json::to_string(self).expect("numbers and text are JSON");
        Item::new(self.key(), version).with_note(note)
    }

    /// A job that cannot be read is damaged, and nobody can say what it was to do; it is left out.
    fn read(item: Item) -> Option<Self> {
        let job: Self = serde_json::from_str(&item.note?).ok()?;
        Some(Self { writes: item.version, ..job })
    }

    const fn is_at_start(&self) -> bool {
        self.part == 0 && self.after.is_none()
    }

    pub(super) fn status(&self) -> JobStatus {
        let what = match &self.task {
            JobTask::View { name, .. } => format!("all views {name}"),
            JobTask::Input { target, .. } => format!("views that need a {}", target.record_type),
        };
        let done = f64::from(self.part) / f64::from(self.task.parts());
        JobStatus { what, begun: Wall::from_millis(self.begun), views: self.views, done }
    }
}

const PARTITION: &str = "job";

/// What writes a job down; `None` if it is written down already and not begun. The write fails if
/// the job moves meanwhile.
pub(super) async fn planned(store: &dyn Tables, task: JobTask, now: Wall) -> Result<Option<ItemWrite>, EngineError> {
    let wanted = Job::new(task.clone(), now);
    let Some(item) = store.get(Table::Mapping, &wanted.key()).await? else {
        // Not 1: a process that knows an earlier job of the same name must not take this for it.
        return Ok(Some(ItemWrite::Put(Table::Mapping, wanted.item(now.as_millis()), Condition::Absent)));
    };
    let version = item.version;
    let known = Job::read(item).unwrap_or_else(|| wanted.clone());
    let both = Job { task: task.with(&known.task), again: !known.is_at_start(), ..known.clone() };
    if both == known {
        return Ok(None);
    }
    Ok(Some(ItemWrite::Put(Table::Mapping, both.item(version + 1), Condition::VersionIs(version))))
}

/// Writes a job down, unless it is.
pub(super) async fn begin(store: &dyn Tables, task: &JobTask, now: Wall) -> Result<(), EngineError> {
    for _ in 0..limits::JOB_ROUNDS {
        let Some(write) = planned(store, task.clone(), now).await? else { return Ok(()) };
        match store.write(vec![write]).await {
            Ok(()) => return Ok(()),
            Err(WriteError::Conflict(_)) => {}
            Err(WriteError::Engine(error)) => return Err(error),
        }
    }
    Err(EngineError::Unavailable { what: "a job".to_owned(), why: "others kept writing it".to_owned() })
}

/// Writes down how far a job got, or that it is done. Changes nothing if the job was asked for
/// again meanwhile, or the lease is lost: then the same part is done once more.
pub(super) async fn save(store: &dyn Tables, lease: &Lease, job: Job) -> Result<(), EngineError> {
    let condition = Condition::VersionIs(job.writes);
    let is_done = job.part >= job.task.parts();
    let write = match (is_done, job.again) {
        (true, false) => ItemWrite::Delete(Table::Mapping, job.key(), condition),
        (true, true) => {
            let round = Job { part: 0, after: None, again: false, ..job };
            ItemWrite::Put(Table::Mapping, round.item(round.writes + 1), condition)
        }
        (false, _) => ItemWrite::Put(Table::Mapping, job.item(job.writes + 1), condition),
    };
    match store.write(vec![lease.guard(), write]).await {
        Ok(()) | Err(WriteError::Conflict(_)) => Ok(()),
        Err(WriteError::Engine(error)) => Err(error),
    }
}

/// All jobs, by name.
pub(super) async fn list(store: &dyn Tables) -> Result<Vec<Job>, EngineError> {
    let (mut jobs, mut after) = (Vec::new(), None);
    loop {
        let page = store.query(Table::Mapping, PARTITION, after.as_deref(), limits::JOB_PAGE).await?;
        jobs.extend(page.items.into_iter().filter_map(Job::read));
        match page.next {
            Some(next) if jobs.len() < limits::JOBS => after = Some(next.sort),
            _ => return Ok(jobs),
        }
    }
}

/// The jobs that are not done, for operators.
///
/// # Errors
/// What the engine says.
pub async fn jobs(store: &dyn Tables) -> Result<Vec<JobStatus>, EngineError> {
    Ok(list(store).await?.iter().map(Job::status).collect())
}
