//! The subscriptions of all regions: starts them, reports their state, removes them at the end.
//! Each region with a topic has a [`lifecycle`]; with the http transport they share the
//! [`endpoint`].
//!
//! Starting never waits for AWS: if a region is unreachable, it is tried again later. After
//! [`Subscriptions::shutdown`] nothing is left in AWS that its result does not name.

mod attest;
mod backoff;
mod deps;
mod endpoint;
mod lifecycle;
mod new_queue;
mod notice;
mod pace;
mod poll;
mod status;

pub use deps::SubscriptionDeps;
pub use pace::Pace;
pub use status::{AwsTrouble, Left, Stage, SubscriptionStatus};

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::config::{Config, Transport};
use crate::model::ids::RegionId;
use crate::sidecar::announcements::subscription::lifecycle::{
    Lifecycle, LifecycleLines, LifecycleProgress, Transported,
};
use crate::sidecar::limits;
use endpoint::Entrance;

/// The http transport cannot listen. The user has to fix it; no retry helps.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for announcements on {listen}: {source} (set announcements.http_listen to a free address)")]
pub struct CannotListen {
    pub listen: SocketAddr,
    pub source: std::io::Error,
}

pub struct Subscriptions {
    stopping: CancellationToken,
    kept: Vec<Kept>,
    listening: Option<SocketAddr>,
}

/// Ends with what could not be removed; with nothing if it was dropped, or panicked at the end.
type LifeTask = JoinHandle<Option<Option<Vec<Left>>>>;

/// One region's lifecycle, seen from outside.
struct Kept {
    region: RegionId,
    status: watch::Receiver<SubscriptionStatus>,
    ask: watch::Sender<Duration>,
    task: Mutex<Option<LifeTask>>,
}

impl Subscriptions {
    /// Starts to subscribe in every region at once, and returns before AWS was asked anything. Must
    /// be called inside the runtime.
    ///
    /// # Errors
    /// [`CannotListen`], with the http transport only.
    pub fn start(config: &Config, pace: Pace, deps: &SubscriptionDeps) -> Result<Self, CannotListen> {
        let stopping = deps.tasks.stopping().child_token();
        let mut subscriptions = Self { stopping: stopping.clone(), kept: Vec::new(), listening: None };
        let (mut lives, mut entrances) = (Vec::new(), Vec::new());
        for (region, configured) in (0u8..).map(RegionId).zip(&config.service.regions) {
            let Some(topic) = &configured.topic else { continue };
            let transport = match &config.announcements.transport {
                Transport::Off => continue,
                Transport::Sqs => Transported::Queue,
                Transport::Http { public_url, .. } => {
                    let (knock, notices) = mpsc::channel(limits::NOTICES);
                    entrances.push(Entrance { region, topic: topic.clone(), notices: knock });
                    Transported::Posted { endpoint: endpoint::endpoint(public_url, region), notices }
                }
            };
            let status = SubscriptionStatus::new(region, &configured.name, &topic.arn, deps.clock.now());
            let (standing, status) = watch::channel(status);
            let (ask, asked) = watch::channel(Duration::ZERO);
            let life = Lifecycle {
                region,
                topic: topic.clone(),
                service: config.service.name.clone(),
                queues: config.announcements.queues.clone(),
                pace,
                deps: deps.clone(),
                stopping: stopping.clone(),
                status: standing,
                lines: LifecycleLines::default(),
                progress: tokio::sync::Mutex::new(LifecycleProgress::new(transport, asked, &pace)),
            };
            lives.push((region, status, ask, Arc::new(life), configured.name.clone()));
        }
        // First: without it nothing may be left in AWS.
        if let Transport::Http { listen, .. } = &config.announcements.transport {
            let opened = endpoint::open(*listen, entrances, deps, stopping.clone());
            subscriptions.listening = Some(opened.map_err(|source| CannotListen { listen: *listen, source })?);
        }
        for (region, status, ask, life, name) in lives {
            let task = deps.tasks.spawn_service_until("subscription", stopping.clone(), move || {
                let (life, span) = (life.clone(), tracing::info_span!("subscription", region = name));
                // On the heap: the futures of AWS's clients are large.
                Box::pin(async move { life.live().await }.instrument(span))
            });
            subscriptions.kept.push(Kept { region, status, ask, task: Mutex::new(Some(task)) });
        }
        Ok(subscriptions)
    }

    /// Makes `region`'s subscription anew after `after`, plus jitter. Has no effect while it is
    /// being made anyway.
    pub fn resubscribe(&self, region: RegionId, after: Duration) {
        if let Some(kept) = self.kept.iter().find(|kept| kept.region == region) {
            kept.ask.send_replace(after);
        }
    }

    pub fn status(&self) -> Vec<SubscriptionStatus> {
        self.kept.iter().map(|kept| kept.status.borrow().clone()).collect()
    }

    /// Follows the state of one region; `None` when it has no subscription.
    pub fn watch(&self, region: RegionId) -> Option<watch::Receiver<SubscriptionStatus>> {
        self.kept.iter().find(|kept| kept.region == region).map(|kept| kept.status.clone())
    }

    /// Address on which the http transport listens.
    pub fn listening(&self) -> Option<SocketAddr> {
        self.listening
    }

    /// Removes every subscription and queue in all regions at once, within `deadline`. Returns what
    /// is left behind.
    pub async fn shutdown(&self, deadline: Duration) -> Vec<Left> {
        self.stopping.cancel();
        let left = join_all(self.kept.iter().map(|kept| kept.end(deadline))).await;
        left.into_iter().flatten().collect()
    }
}

impl Drop for Subscriptions {
    /// Unsubscribes even without a call of shutdown, as long as the runtime lives.
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

impl Kept {
    async fn end(&self, deadline: Duration) -> Vec<Left> {
        let Some(mut task) = self.task.lock().take() else {
            return Vec::new();
        };
        if let Ok(Ok(Some(Some(left)))) = tokio::time::timeout(deadline, &mut task).await {
            return left;
        }
        task.abort();
        let status = self.status.borrow();
        if status.queue.is_none() && status.subscription.is_none() {
            return Vec::new();
        }
        vec![Left { region: self.region, queue: status.queue.clone(), subscription: status.subscription.clone() }]
    }
}
