//! `refresh`: asks the regions for entries again, in the background and within its budget. What is
//! stored is served meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde::{Deserialize, Serialize};

use super::access::Operator;
use super::jobs::{Job, JobSeen};
use super::purge::walk;
use super::target::Target;
use super::{ActRefused, Acts};
use crate::admin::limits;
use crate::cache::entry::Entry;
use crate::cache::key::Key;
use crate::cache::store::Store;
use crate::core::Core;
use crate::core::fill::orders::{self, Refreshed};
use crate::protocol::event::Scope;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refreshing {
    /// `None` if there was nothing to do.
    pub job: Option<JobSeen>,
    pub entries: u64,
    /// Entries of no route among those meant: only their own callers can ask for them again.
    pub unrouted: u64,
}

pub(super) async fn refresh(acts: &Arc<Acts>, target: Target, by: Operator) -> Result<Refreshing, ActRefused> {
    let sidecar = &acts.sidecar();
    let (mut entries, mut unrouted) = (0, 0);
    let mut count = |entry: &Entry| if entry.hold.routed().is_some() { entries += 1 } else { unrouted += 1 };
    match &target {
        Target::Of(Scope::Record(id)) => sidecar.store.entries_of(*id).iter().for_each(|(_, entry)| count(entry)),
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
    let now = sidecar.clock.now();
    let job = acts.jobs.begin("refresh", by, target.told(sidecar), entries, now)?;
    let seen = job.seen(now);
    let (own, stopping) = (sidecar.clone(), sidecar.tasks.stopping());
    sidecar.tasks.spawn("refresh", async move {
        let stopped = job.stopped.clone();
        let running = stopped.run_until_cancelled(run(&own, &target, &job));
        stopping.run_until_cancelled(running).await;
        job.end(own.clock.now());
        let ended = job.seen(own.clock.now());
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

async fn run(sidecar: &Arc<Core>, target: &Target, job: &Job) {
    let mut under_way = UnderWay::default();
    if let Target::Of(Scope::Record(id)) = target {
        for (key, _) in sidecar.store.entries_of(*id) {
            under_way.add(sidecar, key, job).await;
        }
    } else {
        let routed = |entry: Option<&Entry>| entry.is_some_and(|entry| entry.hold.routed().is_some());
        for part in 0..Store::PARTS {
            for key in sidecar.store.keys_in(part, |at, entry| routed(entry) && is_meant(target, at, entry)) {
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
    async fn add(&mut self, sidecar: &Arc<Core>, key: Key, job: &Job) {
        loop {
            self.room(sidecar, job).await;
            let (own, key) = (sidecar.clone(), key.clone());
            let mut one = async move { orders::refresh(&own, &key).await }.boxed();
            // Polled once, so that it has taken its share of the budget before the next one is
            // considered.
            match (&mut one).now_or_never() {
                Some(Refreshed::NoRoom) => tokio::time::sleep(limits::REFRESH_PACE).await,
                Some(ended) => return count(job, ended),
                None => return self.running.push(one),
            }
        }
    }

    async fn room(&mut self, sidecar: &Core, job: &Job) {
        let has_room = || !sidecar.sheds.load(Ordering::Relaxed) && sidecar.regions.left_for_audits() > 0;
        while self.running.len() >= limits::REFRESHES || !has_room() {
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

fn count(job: &Job, ended: Refreshed) {
    let counter = match ended {
        Refreshed::Done => &job.done,
        Refreshed::Failed => &job.failed,
        Refreshed::NoRoom | Refreshed::Gone | Refreshed::Unrouted => &job.skipped,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}
