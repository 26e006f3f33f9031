//! Work that is too much for one batch of the feed, written down with how far it got: a change that
//! touches many views, and a definition that changed. A job survives every process.

use serde::{Deserialize, Serialize};

use super::definition::JoinTarget;
use super::limits;
use super::mapper::Mapper;
use super::retry::others_write;
use crate::engine::lease::Lease;
use crate::engine::{self, Condition, EngineError, Item, ItemKey, ItemWrite, Table, Tables, WriteError};
use crate::model::time::{Clock, Wall};
use crate::telemetry::rate_limiter::RateLimiter;
use crate::views::counters::ReadTable;

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

    /// Task of a job under this sort key, if nothing else is known of it: everything.
    fn of_sort(sort: &str) -> Option<Self> {
        match sort.split_once('#')? {
            ("view", name) => Some(Self::View { name: name.to_owned(), definition: 0 }),
            ("input", target) => Some(Self::Input { target: target.to_owned().try_into().ok()?, version: u64::MAX }),
            _ => None,
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
    /// The partition that comes next, and the sort key behind which: its cursor.
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

/// Progress of a job, for operators.
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

    pub(super) fn key(&self) -> ItemKey {
        ItemKey::new(PARTITION, self.task.sort())
    }

    fn item(&self, version: u64) -> Item {
        let note = serde_json::to_string(self).expect("numbers and text are JSON");
        Item::new(self.key(), version).with_note(note)
    }

    /// `None` if it is damaged: no JSON, or not what its key says.
    fn read(item: &Item) -> Option<Self> {
        let job: Self = serde_json::from_str(item.note.as_deref()?).ok()?;
        (job.key() == item.key).then_some(Self { writes: item.version, ..job })
    }

    /// A damaged job from its beginning: its key still says what it is to do.
    fn anew(item: &Item) -> Option<Self> {
        // Its first version was the time.
        let begun = Wall::from_millis(item.version);
        Some(Self { writes: item.version, ..Self::new(JobTask::of_sort(&item.key.sort)?, begun) })
    }

    const fn is_at_start(&self) -> bool {
        self.part == 0 && self.after.is_none()
    }

    fn is_where(&self, other: &Self) -> bool {
        (self.part, &self.after) == (other.part, &other.after)
    }

    /// Write of the job's progress.
    fn progress(&self) -> ItemWrite {
        let condition = Condition::VersionIs(self.writes);
        let next = self.writes + 1;
        match (self.part >= self.task.parts(), self.again) {
            (true, false) => ItemWrite::Delete(Table::Mapping, self.key(), condition),
            (true, true) => {
                let round = Self { part: 0, after: None, again: false, ..self.clone() };
                ItemWrite::Put(Table::Mapping, round.item(next), condition)
            }
            (false, _) => ItemWrite::Put(Table::Mapping, self.item(next), condition),
        }
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
/// The lease goes first in each transaction.
const LEASE_PLACE: usize = 0;

/// A store that takes no writes has the same job replaced again and again.
static REPLACED_LINES: RateLimiter = RateLimiter::new();

/// Write of a job; `None` if the stored job will do it. The write fails if the job moves meanwhile.
/// A damaged one is replaced.
pub(super) async fn planned(store: &dyn Tables, task: JobTask, now: Wall) -> Result<Option<ItemWrite>, EngineError> {
    let wanted = Job::new(task.clone(), now);
    let Some(item) = store.get(Table::Mapping, &wanted.key()).await? else {
        // Not 1: a process that knows an earlier job of the same name must not take this for it.
        return Ok(Some(ItemWrite::Put(Table::Mapping, wanted.item(now.as_millis()), Condition::Absent)));
    };
    let job = match Job::read(&item) {
        Some(known) => {
            let both = Job { task: task.with(&known.task), again: !known.is_at_start(), ..known.clone() };
            // Its first page may be under way, with records from before this was asked for. Of an
            // input the version says so; of everything only another write does.
            let may_be_late = known.is_at_start() && matches!(both.task, JobTask::View { .. });
            if both == known && !may_be_late {
                return Ok(None);
            }
            both
        }
        None => {
            if let Some(suppressed) = REPLACED_LINES.admit(Clock::System.now()) {
                tracing::warn!(suppressed, "a job that cannot be read is replaced, and begins anew");
            }
            wanted
        }
    };
    Ok(Some(ItemWrite::Put(Table::Mapping, job.item(item.version + 1), Condition::VersionIs(item.version))))
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
    Err(others_write("a job"))
}

/// Writes down how far a job got since it was `loaded`, or that it is done. If it was asked for again
/// meanwhile it keeps how far it got, and goes round once more at its end. Changes nothing if the
/// lease is lost.
pub(super) async fn save(mapper: &Mapper, lease: &Lease, loaded: &Job, mut job: Job) -> Result<(), EngineError> {
    for _ in 0..limits::JOB_ROUNDS {
        match mapper.store.write(vec![lease.guard(), job.progress()]).await {
            Ok(()) => return Ok(()),
            Err(WriteError::Conflict(places)) if places.contains(&LEASE_PLACE) => return Ok(()),
            Err(WriteError::Conflict(_)) => {}
            Err(WriteError::Engine(error)) => return Err(error),
        }
        match load(mapper, &job.key()).await? {
            Some(stored) if stored.is_where(loaded) => {
                let again = job.again || stored.writes != job.writes;
                job = Job { task: job.task.with(&stored.task), again, writes: stored.writes, ..job };
            }
            // Somebody else took this step.
            _ => return Ok(()),
        }
    }
    Err(others_write("a job"))
}

/// A job as it is now; `None` if it is done.
pub(super) async fn load(mapper: &Mapper, key: &ItemKey) -> Result<Option<Job>, EngineError> {
    Ok(mapper.store.get(Table::Mapping, key).await?.and_then(|item| read(mapper, &item)))
}

/// All jobs, by name.
pub(super) async fn list(mapper: &Mapper) -> Result<Vec<Job>, EngineError> {
    let (mut jobs, mut after) = (Vec::new(), None);
    loop {
        let page = mapper.store.query(Table::Mapping, PARTITION, after.as_deref(), limits::JOB_PAGE).await?;
        jobs.extend(page.items.iter().filter_map(|item| read(mapper, item)));
        match page.next {
            Some(next) if jobs.len() < limits::JOBS => after = Some(next.sort),
            _ => return Ok(jobs),
        }
    }
}

fn read(mapper: &Mapper, item: &Item) -> Option<Job> {
    Job::read(item).or_else(|| {
        mapper.unreadable(ReadTable::Mapping, &item.key);
        Job::anew(item)
    })
}
