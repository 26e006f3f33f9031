//! The views service: under a lease, it follows the catalogue's changes and works on jobs.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::adoption::{self, AdoptError};
use super::canary;
use super::counters::{ViewsCounters, ViewsLine};
use super::definition::ViewDefinition;
use super::failures;
use super::grants;
use super::jobs::{self, JobTask};
use super::limits;
use super::mapper::Mapper;
use super::status::{ViewsState, ViewsStatus};
use super::sweep::ViewSweep;
use super::triggers::Triggers;
use super::worker::{JobWorker, Pace};
use crate::engine::follow::{Apply, FeedProgress, FollowEnd, Follower};
use crate::engine::lease::{Lease, LeasePlace, TermEnd};
use crate::engine::limits::{BEGIN_MARGIN, BEGIN_PAUSE};
use crate::engine::{EngineError, Feed, Table, Tables, retry_delay};
use crate::model::time::{Clock, Wall};
use crate::tasks::supervision::pass_panic_on;

/// Everything that the service is made of.
#[derive(Clone)]
pub struct ViewsService {
    pub definitions: Vec<Arc<ViewDefinition>>,
    pub store: Arc<dyn Tables>,
    /// Feed of the catalogue's records.
    pub feed: Arc<dyn Feed>,
    pub clock: Clock,
    /// Unique to this process and this start of it.
    pub holder: String,
    /// Views that jobs look at in a second at most, and as many that the sweep maps again.
    pub views_per_second: u32,
    /// Period in which everything is compared once.
    pub sweep_period: Duration,
    pub counters: ViewsCounters,
    pub status: Arc<ViewsStatus>,
    pub progress: Arc<FeedProgress>,
}

/// Why it does not go on under a lease.
enum ServeEnd {
    /// The lease is lost.
    Over,
    /// Panic of the feed's reader.
    Panicked,
    Definitions(AdoptError),
}

impl ViewsService {
    /// Takes the lease whenever it can, and serves, until it is stopped.
    ///
    /// # Errors
    /// A definition that was changed without a new number: the file has to be corrected.
    pub async fn run(&self, stopping: &CancellationToken) -> Result<(), AdoptError> {
        let place = LeasePlace {
            tables: self.store.clone(),
            table: Table::Mapping,
            job: "views".into(),
            holder: self.holder.clone(),
            clock: self.clock.clone(),
            lines: Arc::default(),
        };
        loop {
            let Some(lease) = stopping.run_until_cancelled(place.acquire()).await else { return Ok(()) };
            let lease = Arc::new(lease);
            let end = lease.term(self.serve(&lease), stopping).await;
            // From now on another process knows.
            self.status.update(|state| *state = ViewsState::default());
            self.counters.metrics.jobs.set(0);
            self.counters.metrics.failures.set(0);
            self.progress.reset();
            lease.release().await;
            match end {
                TermEnd::Stopped => return Ok(()),
                TermEnd::Done(ServeEnd::Definitions(error)) => return Err(error),
                TermEnd::Done(ServeEnd::Over) | TermEnd::Lost => {}
                // Another process may fare better.
                TermEnd::Done(ServeEnd::Panicked) | TermEnd::Panicked => pass_panic_on(),
            }
        }
    }

    async fn serve(&self, lease: &Arc<Lease>) -> ServeEnd {
        let active = match self.adopted().await {
            Ok(active) => active,
            Err(error) => return ServeEnd::Definitions(error),
        };
        let others = self.definitions.iter().filter(|view| active.iter().all(|other| other.name != view.name));
        let left_alone: Vec<String> = others.map(|view| view.name.clone()).collect();
        for view in &left_alone {
            if let Some(suppressed) = self.line(ViewsLine::LeftAlone) {
                tracing::warn!(view, suppressed, "a newer definition is in use; this process leaves the view alone");
            }
        }
        self.status.update(|state| {
            state.holds_lease = true;
            state.left_alone = left_alone;
            state.active = active.iter().map(|view| (view.name.clone(), view.number)).collect();
        });
        let mapper = Mapper::new(self.store.clone(), self.clock.clone(), self.counters.clone());
        let triggers = Arc::new(Triggers::new(mapper, active));
        let pace = Pace::new(self.clock.clone(), self.views_per_second);
        let status = self.status.clone();
        let worker = JobWorker { triggers: triggers.clone(), lease: lease.clone(), pace, status: status.clone() };
        let pace = Pace::new(self.clock.clone(), self.views_per_second);
        let period = self.sweep_period;
        let sweep = ViewSweep { triggers: triggers.clone(), lease: lease.clone(), period, pace, status };
        tokio::select! {
            biased;
            end = self.follow(lease, &triggers) => end,
            () = worker.work() => ServeEnd::Over,
            () = sweep.run() => ServeEnd::Over,
            () = self.count_failures() => ServeEnd::Over,
            () = canary::send(&*self.store, &self.clock) => ServeEnd::Over,
            () = Box::pin(grants::confirm(&*self.store, &self.clock)) => ServeEnd::Over,
        }
    }

    async fn count_failures(&self) {
        loop {
            match failures::failures(&*self.store).await {
                Ok(failed) => {
                    self.counters.metrics.failures.set(failed.len() as i64);
                    self.status.update(|state| state.failures = failed.len());
                }
                Err(error) => tracing::warn!(%error, "failures cannot be counted"),
            }
            tokio::time::sleep(limits::FAILURES_LOOK).await;
        }
    }

    /// Number of lines left out since the last one, if this line is to be logged now.
    fn line(&self, line: ViewsLine) -> Option<u64> {
        self.counters.line(line, self.clock.now())
    }

    /// Tries until the engine answers.
    async fn adopted(&self) -> Result<Vec<Arc<ViewDefinition>>, AdoptError> {
        let mut failures = 0;
        loop {
            match adoption::adopt(&*self.store, &self.definitions, self.clock.wall()).await {
                Err(AdoptError::Engine(error)) => {
                    failures += 1;
                    if let Some(suppressed) = self.line(ViewsLine::Adoption) {
                        tracing::warn!(%error, suppressed, "definitions cannot be read or written; trying again");
                    }
                    tokio::time::sleep(retry_delay(failures)).await;
                }
                done => return done,
            }
        }
    }

    /// Until the lease is lost, or a reader panics.
    async fn follow(&self, lease: &Arc<Lease>, triggers: &Arc<Triggers>) -> ServeEnd {
        let follower = Follower {
            feed: self.feed.clone(),
            tables: self.store.clone(),
            table: Table::Mapping,
            name: "changes",
            clock: self.clock.clone(),
            progress: self.progress.clone(),
        };
        let apply: Arc<dyn Apply> = triggers.clone();
        let mut is_trimmed = false;
        loop {
            let end = match self.begin(&follower, lease, triggers, is_trimmed).await {
                Ok(()) => follower.follow(lease, &apply).await,
                Err(end) => end,
            };
            match end {
                FollowEnd::Trimmed => {}
                FollowEnd::Panicked => return ServeEnd::Panicked,
                FollowEnd::LeaseLost => return ServeEnd::Over,
            }
            if let Some(suppressed) = self.line(ViewsLine::Trimmed) {
                tracing::error!(suppressed, "the feed forgot changes that were not read; everything is mapped again");
            }
            is_trimmed = true;
            // What was trimmed just now lies within the next beginning's margin too.
            tokio::time::sleep(BEGIN_PAUSE).await;
        }
    }

    /// Sees to it that what the feed will not bring is mapped all the same.
    async fn begin(
        &self,
        follower: &Follower,
        lease: &Lease,
        triggers: &Triggers,
        is_trimmed: bool,
    ) -> Result<(), FollowEnd> {
        if is_trimmed {
            follower.forget(lease).await?;
        }
        if follower.insist("reading whether it has begun", || follower.begun()).await.is_some() {
            return Ok(());
        }
        let now = self.clock.wall();
        // Clocks differ; what comes twice does no harm.
        let from = Wall::from_millis(now.as_millis().saturating_sub(BEGIN_MARGIN.as_millis() as u64));
        follower.insist("writing jobs for all views", || self.map_everything(triggers, now)).await;
        follower.begin(lease, from).await
    }

    /// As jobs, which outlive this process.
    async fn map_everything(&self, triggers: &Triggers, now: Wall) -> Result<(), EngineError> {
        for view in &triggers.views {
            let task = JobTask::View { name: view.name.clone(), definition: view.number };
            jobs::begin(&*self.store, &task, now).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
