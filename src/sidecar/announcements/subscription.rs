//! The subscriptions of all regions: starts them, reports their state, removes them at the end.
//! Each region with a topic has a [`lifecycle`]; with the http transport they share the
//! [`endpoint`].
//!
//! Starting never waits for AWS: if a region is unreachable, it is tried again later. After
//! [`Subscriptions::shutdown`] nothing is left in AWS that its result does not name.

mod attest;
mod backoff;
mod endpoint;
mod lifecycle;
mod new_queue;
mod poll;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::Intake;
use crate::aws::clients::Sdk;
use crate::aws::failure::CallFailure;
use crate::aws::limits::VISIBILITY;
use crate::aws::verify::Rejected;
use crate::config::{Config, Transport};
use crate::model::ids::RegionId;
use crate::model::time::{Clock, Moment};
use crate::protocol::event::Event;
use crate::sidecar::announcements::subscription::lifecycle::{
    Lifecycle, LifecycleLines, LifecycleProgress, Transported,
};
use crate::sidecar::limits;
use crate::tasks::Tasks;
use crate::telemetry::metrics::Metrics;
use endpoint::Entrance;

/// What the announcement path touches of the rest of the process.
#[derive(Clone)]
pub struct Edges {
    pub tasks: Tasks,
    pub clock: Clock,
    /// Where events go: into the one `Freshness::step`. Called from many tasks; must not wait.
    pub events: Arc<dyn Fn(Event) + Send + Sync>,
    /// Whether a region's heartbeats prove that its subscription works.
    pub speaks: Arc<dyn Fn(RegionId) -> bool + Send + Sync>,
    /// Returns whether a region is LIVE, by whatever proof counts there. Freshness asks for another
    /// subscription once each time it no longer is.
    pub is_live: Arc<dyn Fn(RegionId) -> bool + Send + Sync>,
    pub intake: Arc<dyn Intake>,
    pub metrics: Arc<Metrics>,
    pub sdk: Sdk,
}

/// How often things are done; tests run faster than production.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Longest time between two checks of a subscription's attributes.
    pub attest: Duration,
    /// Wait after a check that failed; doubles with each.
    pub attest_again: Duration,
    /// Time between two `alive` tags.
    pub tag: Duration,
    /// First and longest wait before a subscription is tried again.
    pub again: (Duration, Duration),
    /// How long a confirmation may take to arrive.
    pub confirm: Duration,
    /// After how long a message that could not be applied comes again through a queue; whole
    /// seconds.
    pub visibility: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            attest: limits::ATTEST_EVERY,
            attest_again: limits::ATTEST_AGAIN,
            tag: limits::TAG_EVERY,
            again: limits::SUBSCRIBE_AGAIN,
            confirm: limits::CONFIRM_WAIT,
            visibility: VISIBILITY,
        }
    }
}

/// The state of one region's subscription, for `/status`. Nothing in it is secret: no token, no
/// URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionStatus {
    pub region: RegionId,
    pub name: String,
    pub topic: String,
    pub stage: Stage,
    pub since: Moment,
    /// The name of this process's queue, if it has one (or may have: CreateQueue is under way).
    pub queue: Option<String>,
    pub subscription: Option<String>,
    /// When its attributes were last seen to be sound.
    pub attested: Option<Moment>,
    pub losses: u64,
    /// When it was last lost, and why, in a stable word.
    pub lost: Option<(Moment, &'static str)>,
    /// What AWS refused last, until it no longer does.
    pub failure: Option<AwsTrouble>,
    /// Why its attributes could not be checked, until they can.
    pub unlooked: Option<AwsTrouble>,
    /// Why the last message from the queue that could not be verified was not.
    pub unverified: Option<Rejected>,
}

impl SubscriptionStatus {
    /// A subscription that is being made.
    pub(crate) fn new(region: RegionId, name: &str, topic: &str, since: Moment) -> Self {
        Self {
            region,
            name: name.to_owned(),
            topic: topic.to_owned(),
            stage: Stage::Subscribing,
            since,
            queue: None,
            subscription: None,
            attested: None,
            losses: 0,
            lost: None,
            failure: None,
            unlooked: None,
            unverified: None,
        }
    }
}

/// What AWS refused, or why it could not be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsTrouble {
    /// The call and its outcome.
    pub saw: String,
    /// What to do about it.
    pub advice: &'static str,
    /// Whether AWS itself fails or cannot be reached: nothing that is made anew would be better.
    pub is_passing: bool,
}

impl From<&CallFailure> for AwsTrouble {
    fn from(failure: &CallFailure) -> Self {
        Self { saw: failure.to_string(), advice: failure.advice(), is_passing: failure.is_passing() }
    }
}

/// The stages of a subscription's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Being made, or waiting to be tried again.
    Subscribing,
    Subscribed,
    /// Being removed, or removed.
    Stopped,
}

impl Stage {}

/// What could not be removed from a region; the janitor finds it later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub region: RegionId,
    pub queue: Option<String>,
    pub subscription: Option<String>,
}

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
    pub fn start(config: &Config, pace: Pace, edges: &Edges) -> Result<Self, CannotListen> {
        let stopping = edges.tasks.stopping().child_token();
        let mut subscriptions = Self { stopping: stopping.clone(), kept: Vec::new(), listening: None };
        let (mut lives, mut doors) = (Vec::new(), Vec::new());
        for (region, configured) in (0u8..).map(RegionId).zip(&config.service.regions) {
            let Some(topic) = &configured.topic else { continue };
            let way = match &config.announcements.transport {
                Transport::Off => continue,
                Transport::Sqs => Transported::Queue,
                Transport::Http { public_url, .. } => {
                    let (knock, notices) = mpsc::channel(limits::NOTICES);
                    doors.push(Entrance { region, topic: topic.clone(), notices: knock });
                    Transported::Posted { endpoint: endpoint::endpoint(public_url, region), notices }
                }
            };
            let status = SubscriptionStatus::new(region, &configured.name, &topic.arn, edges.clock.now());
            let (standing, status) = watch::channel(status);
            let (ask, asked) = watch::channel(Duration::ZERO);
            let life = Lifecycle {
                region,
                topic: topic.clone(),
                service: config.service.name.clone(),
                queues: config.announcements.queues.clone(),
                pace,
                edges: edges.clone(),
                stopping: stopping.clone(),
                status: standing,
                lines: LifecycleLines::default(),
                progress: tokio::sync::Mutex::new(LifecycleProgress::new(way, asked, &pace)),
            };
            lives.push((region, status, ask, Arc::new(life), configured.name.clone()));
        }
        // First: without it nothing may be left in AWS.
        if let Transport::Http { listen, .. } = &config.announcements.transport {
            let opened = endpoint::open(*listen, doors, edges, stopping.clone());
            subscriptions.listening = Some(opened.map_err(|source| CannotListen { listen: *listen, source })?);
        }
        for (region, status, ask, life, name) in lives {
            let live = move || {
                let (life, span) = (life.clone(), tracing::info_span!("subscription", region = name));
                // On the heap: the futures of AWS's clients are large.
                Box::pin(async move { life.live().await }.instrument(span))
            };
            let task = edges.tasks.spawn_service_until("subscription", stopping.clone(), live);
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

    /// Where the http transport listens.
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
    /// Whoever forgets to shut down still unsubscribes, as long as the runtime lives.
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

impl Kept {
    async fn end(&self, deadline: Duration) -> Vec<Left> {
        let Some(mut task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).take() else {
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
