//! Works on jobs, a page of each in turn and no faster than it is allowed to: what it writes is
//! announced in every region. Single changes come past it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::FutureExt;
use tokio::sync::Mutex;

use super::counters::ViewsLine;
use super::jobs::{self, Job, JobTask};
use super::limits;
use super::status::ViewsStatus;
use super::stored::reference_partition;
use super::triggers::{Triggers, all};
use super::vector::Trigger;
use crate::engine::lease::Lease;
use crate::engine::{EngineError, ItemKey, Page, Table, bucket, retry_delay};
use crate::model::time::{Clock, Moment};

/// Lets so many through in a second, one after the other. Who leaves before their turn takes
/// nothing from those behind them.
#[derive(Debug)]
pub(super) struct Pace {
    clock: Clock,
    interval: Duration,
    /// Held by the one who waits for their turn.
    next: Mutex<Moment>,
}

impl Pace {
    pub(super) fn new(clock: Clock, per_second: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Self { next: Mutex::new(clock.now()), clock, interval }
    }

    pub(super) async fn wait(&self) {
        let mut next = self.next.lock().await;
        let now = self.clock.now();
        if *next > now {
            tokio::time::sleep(next.since(now)).await;
        }
        *next = (*next).max(now) + self.interval;
    }
}

/// Works on all jobs that concern views of this process.
pub(super) struct JobWorker {
    pub(super) triggers: Arc<Triggers>,
    pub(super) lease: Arc<Lease>,
    pub(super) pace: Pace,
    pub(super) status: Arc<ViewsStatus>,
}

impl JobWorker {
    /// Works for as long as it is polled.
    pub(super) async fn work(&self) {
        let mut failures = 0;
        loop {
            match self.round().await {
                Ok(0) => tokio::time::sleep(limits::JOB_LOOK).await,
                Ok(_) => failures = 0,
                Err(error) => {
                    failures += 1;
                    if let Some(suppressed) = self.triggers.mapper.line(ViewsLine::NoJob) {
                        tracing::warn!(%error, suppressed, "no job gets anywhere");
                    }
                    tokio::time::sleep(retry_delay(failures)).await;
                }
            }
        }
    }

    /// One page of each job; returns how many there are. Fails if none of them got anywhere.
    pub(super) async fn round(&self) -> Result<usize, EngineError> {
        let mapper = &self.triggers.mapper;
        let mut jobs = jobs::list(mapper).await?;
        jobs.retain(|job| self.is_own(&job.task));
        mapper.counters.metrics.jobs.set(jobs.len() as i64);
        self.status.update(|state| state.jobs = jobs.iter().map(Job::status).collect());
        let (mut failed, mut last) = (0, None);
        for job in &jobs {
            if let Err(error) = self.step(&job.key()).await {
                if let Some(suppressed) = mapper.line(ViewsLine::JobWaits) {
                    tracing::warn!(%error, suppressed, "a job waits");
                }
                (failed, last) = (failed + 1, Some(error));
            }
        }
        match last {
            Some(error) if failed == jobs.len() => Err(error),
            _ => Ok(jobs.len()),
        }
    }

    /// True unless a greater number than ours asked for it: then it is left to the process with
    /// that one.
    fn is_own(&self, task: &JobTask) -> bool {
        match task {
            JobTask::View { name, definition } => {
                self.triggers.views.iter().any(|view| view.name == *name && view.number >= *definition)
            }
            JobTask::Input { .. } => true,
        }
    }

    /// The next page of a job, as it is by now.
    async fn step(&self, key: &ItemKey) -> Result<(), EngineError> {
        let mapper = &self.triggers.mapper;
        let loaded = jobs::load(mapper, key).await?.filter(|job| self.is_own(&job.task));
        let Some(loaded) = loaded else { return Ok(()) };
        let mut job = loaded.clone();
        let page = loop {
            let page = self.page(&job).await?;
            if !page.items.is_empty() || page.next.is_some() || job.part + 1 >= job.task.parts() {
                break page;
            }
            job.part += 1;
            job.after = None;
        };
        all(self.triggers.at_once(), page.items.iter().map(|item| self.view(&job.task, &item.key).boxed()).collect())
            .await?;
        job.views += page.items.len() as u64;
        mapper.counters.metrics.job_views.inc_by(page.items.len() as u64);
        job.after = page.next.map(|next| next.sort);
        if job.after.is_none() {
            job.part += 1;
        }
        jobs::save(mapper, &self.lease, &loaded, job).await
    }

    async fn page(&self, job: &Job) -> Result<Page, EngineError> {
        let (table, partition) = match &job.task {
            JobTask::View { name, .. } => {
                let view = self.triggers.views.iter().find(|view| view.name == *name);
                let Some(view) = view else { return Ok(Page::default()) };
                (Table::Records, bucket::of(&view.from, job.part))
            }
            JobTask::Input { target, .. } => (Table::Mapping, reference_partition(target, job.part)),
        };
        self.triggers.mapper.store.query(table, &partition, job.after.as_deref(), limits::JOB_PAGE).await
    }

    async fn view(&self, task: &JobTask, item: &ItemKey) -> Result<(), EngineError> {
        let (view, key, trigger) = match task {
            JobTask::View { name, .. } => {
                let view = self.triggers.views.iter().find(|view| view.name == *name);
                let Some(view) = view else { return Ok(()) };
                (view.clone(), item.sort.clone(), Trigger::Afresh)
            }
            JobTask::Input { target, version } => {
                let Some((view, key)) = self.triggers.referrer(item) else { return Ok(()) };
                (view, key, Trigger::Input(target, *version))
            }
        };
        self.pace.wait().await;
        self.triggers.map(&view, &key, trigger).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;
    use crate::model::time::Wall;

    #[tokio::test(start_paused = true)]
    async fn cancelled_waiter_delays_nobody() {
        let clock = Clock::simulated(Wall::from_millis(0));
        let pace = Pace::new(clock.clone(), 10);
        let began = clock.now();
        pace.wait().await;
        let left = join_all((0..100).map(|_| pace.wait()));
        assert!(tokio::time::timeout(Duration::from_millis(50), left).await.is_err());
        pace.wait().await;
        assert_eq!(clock.now() - began, Duration::from_millis(100));
        join_all((0..10).map(|_| pace.wait())).await;
        assert_eq!(clock.now() - began, Duration::from_millis(1_100), "one every tenth of a second");
    }
}
