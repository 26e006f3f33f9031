//! `refresh`: asks the regions for entries again, in the background and within its budget. What is
//! stored is served meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde::{Deserialize, Serialize};

use super::access::Operator;
use super::jobs::{Job, JobSeen, Jobs};
use super::purge::walk;
use super::refused::CommandRefused;
use super::target::Target;
use crate::admin::limits;
use crate::cache::entry::Entry;
use crate::cache::key::Key;
use crate::cache::store::Store;
use crate::fill::orders::{self, Refreshed};
use crate::protocol::event::Scope;
use crate::request::settings::Settings;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refreshing {
    /// `None` if there was nothing to do.
    pub job: Option<JobSeen>,
    pub entries: u64,
    /// Entries of no route among those meant: only their own callers can ask for them again.
    pub unrouted: u64,
}

pub(super) async fn refresh(
    sidecar: &Arc<Settings>,
    jobs: &Jobs,
    target: Target,
    by: Operator,
) -> Result<Refreshing, CommandRefused> {
    let (mut entries, mut unrouted) = (0, 0);
    let mut count = |entry: &Entry| if entry.validity.routed().is_some() { entries += 1 } else { unrouted += 1 };
    match &target {
        Target::Of(Scope::Record(id)) => {
            sidecar.fill.shared.store.entries_of(*id).iter().for_each(|(_, entry)| count(entry))
        }
        _ => {
            walk(
                sidecar,
                |at, entry| is_meant(&target, at, entry),
                |entry, _| {
                    entry.iter().for_each(|entry| count(entry));
                },
            )
            .await
        }
    }
    if entries == 0 {
        return Ok(Refreshing { job: None, entries, unrouted });
    }
    let now = sidecar.fill.shared.clock.now();
    let job = jobs.begin("refresh", by, target.described(sidecar), entries, now)?;
    let seen = job.seen(now);
    let (own, stopping) = (sidecar.clone(), sidecar.fill.shared.tasks.stopping());
    sidecar.fill.shared.tasks.spawn("refresh", async move {
        let stopped = job.stopped.clone();
        let running = stopped.run_until_cancelled(run(&own, &target, &job));
        stopping.run_until_cancelled(running).await;
        job.end(own.fill.shared.clock.now());
        let ended = job.seen(own.fill.shared.clock.now());
        tracing::info!(
            job = ended.job,
            done = ended.done,
            failed = ended.failed,
            state = ended.state,
            "a refresh ended"
        );
    });
    Ok(Refreshing { job: Some(seen), entries, unrouted })
}

fn is_meant(target: &Target, at: &str, entry: Option<&Entry>) -> bool {
    match target {
        Target::Paths(pattern) => pattern.matches(at),
        Target::Of(Scope::All) => true,
        Target::Of(scope) => entry.is_some_and(|entry| {
            entry.shows().iter().any(|shown| match scope {
                Scope::Record(id) => shown.id() == *id,
                Scope::Type(record_type) => shown.id().record_type == *record_type,
                Scope::All => true,
            })
        }),
    }
}

async fn run(sidecar: &Arc<Settings>, target: &Target, job: &Job) {
    let mut under_way = UnderWay::default();
    if let Target::Of(Scope::Record(id)) = target {
        for (key, _) in sidecar.fill.shared.store.entries_of(*id) {
            under_way.add(sidecar, key, job).await;
        }
    } else {
        for part in 0..Store::PARTS {
            let keys = sidecar.fill.shared.store.keys_in(part, |at, entry| {
                entry.is_some_and(|entry| entry.validity.routed().is_some()) && is_meant(target, at, entry)
            });
            for key in keys {
                under_way.add(sidecar, key, job).await;
            }
        }
    }
    under_way.finish(job).await;
}

/// The refreshes of one job that run now.
#[derive(Default)]
struct UnderWay {
    running: FuturesUnordered<BoxFuture<'static, Refreshed>>,
}

impl UnderWay {
    /// Starts one more as soon as there is room for it.
    async fn add(&mut self, sidecar: &Arc<Settings>, key: Key, job: &Job) {
        loop {
            self.room(sidecar, job).await;
            let (own, key) = (sidecar.clone(), key.clone());
            let mut one = async move { orders::refresh(&own.fill, &key).await }.boxed();
            // Polled once, so that it has taken its share of the budget before the next one is
            // considered.
            match (&mut one).now_or_never() {
                Some(Refreshed::NoRoom) => tokio::time::sleep(limits::REFRESH_PACE).await,
                Some(ended) => return count(job, ended),
                None => return self.running.push(one),
            }
        }
    }

    async fn room(&mut self, sidecar: &Settings, job: &Job) {
        while self.running.len() >= limits::REFRESHES || !has_room(sidecar) {
            tokio::select! {
                Some(ended) = self.running.next() => count(job, ended),
                () = tokio::time::sleep(limits::REFRESH_PACE) => {}
            }
        }
    }

    async fn finish(mut self, job: &Job) {
        while let Some(ended) = self.running.next().await {
            count(job, ended);
        }
    }
}

fn has_room(sidecar: &Settings) -> bool {
    !sidecar.fill.shared.memory.is_short() && sidecar.fill.regions.left_for_audits() > 0
}

fn count(job: &Job, ended: Refreshed) {
    let counter = match ended {
        Refreshed::Done => &job.done,
        Refreshed::Failed => &job.failed,
        Refreshed::NoRoom | Refreshed::Gone | Refreshed::Unrouted => &job.skipped,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}
