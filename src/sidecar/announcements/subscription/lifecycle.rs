//! One region's subscription from Subscribe to its removal, as one long-lived task. Its events go
//! to freshness, which answers a dead subscription with `Action::Resubscribe`. The order is that of
//! R11: subscribe, say so, let proofs arrive.
//!
//! At most one subscription is in use. What it replaces is removed after the new one works. Nothing
//! that was made is forgotten: it is removed, or named when the task ends. That holds across a panic
//! too: the next run of the task finds what the last one made.

mod end;
mod holding;
mod lines;
mod removal;
mod resources;

use std::time::Duration;

use tokio::sync::{Mutex, mpsc, watch};
use tokio_util::sync::CancellationToken;

use self::end::End;
pub(crate) use self::lines::LifecycleLines;
use self::resources::Resources;
use super::attest::{self, Attestation};
use super::backoff::{Backoff, jittered};
use super::deps::SubscriptionDeps;
use super::notice::{Notice, awaited};
use super::pace::Pace;
use super::status::{AwsTrouble, Left, Stage, SubscriptionStatus};
use crate::aws::clients::{self, Clients};
use crate::aws::failure::{CallFailure, CallFault};
use crate::aws::sqs;
use crate::config::{QueuesConfig, TopicArn};
use crate::model::ids::RegionId;
use crate::model::time::Moment;
use crate::protocol::event::Event;
use crate::sidecar::limits;

/// Transport of messages to this region's lifecycle.
pub(crate) enum Transported {
    /// Through a queue of our own.
    Queue,
    /// SNS posts to `endpoint`; the listener there passes on what concerns the subscription itself.
    Posted { endpoint: String, notices: mpsc::Receiver<Notice> },
}

pub(crate) struct Lifecycle {
    pub(crate) region: RegionId,
    pub(crate) topic: TopicArn,
    pub(crate) service: String,
    pub(crate) queues: QueuesConfig,
    pub(crate) pace: Pace,
    pub(crate) deps: SubscriptionDeps,
    pub(crate) stopping: CancellationToken,
    pub(crate) status: watch::Sender<SubscriptionStatus>,
    pub(crate) lines: LifecycleLines,
    /// Held by the one run of the task.
    pub(crate) progress: Mutex<LifecycleProgress>,
}

/// State that a run of the task leaves to the next one, should it panic.
pub(crate) struct LifecycleProgress {
    transport: Transported,
    asked: watch::Receiver<Duration>,
    backoff: Backoff,
    /// Backoff of its own: a subscription made without a failure may still be lost each time.
    losses: Backoff,
    resources: Resources,
    discarded: Vec<Resources>,
}

impl LifecycleProgress {
    pub(crate) fn new(transport: Transported, asked: watch::Receiver<Duration>, pace: &Pace) -> Self {
        let losses = Backoff::new((pace.again.0, pace.again.1 * limits::LOSS_STRETCH));
        let backoff = Backoff::new(pace.again);
        Self { transport, asked, backoff, losses, resources: Resources::default(), discarded: Vec::new() }
    }
}

/// Names the panic of a task among what keeps a region from being subscribed.
struct PanicNote<'l>(&'l Lifecycle);

impl Drop for PanicNote<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let trouble = AwsTrouble { saw: PANICKED.0.to_owned(), advice: PANICKED.1, is_passing: false };
            self.0.status.send_modify(|status| status.failure = Some(trouble));
            self.0.stage(Stage::Subscribing);
        }
    }
}

const PANICKED: (&str, &str) = (
    "the task of this subscription panicked and is started again after a pause",
    "look for \"a thread panicked\" in the log: a setting of the AWS SDK may be one that it cannot use; else report \
     that line",
);

impl Lifecycle {
    /// Runs until the process stops; returns what could not be removed.
    pub(crate) async fn live(&self) -> Vec<Left> {
        let _note = PanicNote(self);
        let mut progress = self.progress.lock().await;
        let LifecycleProgress { transport, asked, backoff, losses, resources, discarded } = &mut *progress;
        let mut clients = self.deps.sdk.clients(&self.topic.region).await;
        while !self.stopping.is_cancelled() {
            self.emit(Event::Subscribing(self.region));
            if !self.subscribe(&mut clients, transport, resources, backoff).await {
                break;
            }
            // Requests so far are satisfied by this subscription.
            asked.mark_unchanged();
            self.emit(Event::Subscribed(self.region));
            self.remove_all(&clients, discarded).await;
            let held = self.deps.clock.now();
            match Box::pin(self.hold(&clients, transport, resources, asked)).await {
                End::Stopping => break,
                End::Asked => self.lines.anew(self.deps.clock.now()),
                End::Lost(why) => {
                    let now = self.deps.clock.now();
                    if self.proved(held, now) {
                        losses.worked();
                    }
                    let wait = losses.wait();
                    self.status.send_modify(|status| {
                        status.losses += 1;
                        status.lost = Some((now, why));
                    });
                    self.lines.lost(now, why, wait);
                    self.emit(Event::Lost(self.region));
                    self.pause(wait).await;
                }
            }
            self.discard(transport, resources, discarded);
        }
        discarded.push(std::mem::take(resources));
        self.stage(Stage::Stopped);
        self.finish(&clients, discarded).await
    }

    /// Tries until there is a subscription; false when the process stops first.
    async fn subscribe(
        &self,
        clients: &mut Clients,
        transport: &mut Transported,
        resources: &mut Resources,
        backoff: &mut Backoff,
    ) -> bool {
        self.stage(Stage::Subscribing);
        loop {
            // Not raced against stopping: a call in flight may have made something, and is bounded
            // by itself.
            let tried = self.make(clients, transport, resources).await;
            if self.stopping.is_cancelled() {
                return false;
            }
            let Err(failure) = tried else {
                backoff.worked();
                self.status.send_modify(|status| status.failure = None);
                self.stage(Stage::Subscribed);
                self.lines.made(self.deps.clock.now(), &self.topic.arn, resources.queue_name.as_deref());
                return true;
            };
            let wait = backoff.wait().max(failure.least_wait());
            self.lines.refused(self.deps.clock.now(), &self.topic.arn, &failure, wait);
            self.status.send_modify(|status| status.failure = Some(AwsTrouble::from(&failure)));
            self.pause(wait).await;
            // What the SDK could not use may be mended by now. It may be on a disk that stalls.
            let anew = self.deps.sdk.clients(&self.topic.region);
            if let Some(anew) = self.stopping.run_until_cancelled(anew).await {
                *clients = anew;
            }
        }
    }

    /// Makes what is still missing.
    async fn make(
        &self,
        clients: &Clients,
        transport: &mut Transported,
        resources: &mut Resources,
    ) -> Result<(), CallFailure> {
        resources.since = self.deps.clock.wall();
        match transport {
            Transported::Queue => {
                let name = resources.queue_name.get_or_insert_with(|| sqs::draw_name(&self.service)).clone();
                self.status.send_modify(|status| status.queue = Some(name.clone()));
                let queue = match &resources.queue {
                    Some(queue) => queue.clone(),
                    None => {
                        let order = sqs::QueueOrder {
                            name: &name,
                            topic: &self.topic,
                            service: &self.service,
                            queues: &self.queues,
                            visibility: self.pace.visibility,
                            now: self.deps.clock.wall(),
                        };
                        sqs::create(&clients.sqs, order).await?
                    }
                };
                let queue = resources.queue.insert(queue);
                resources.subscription =
                    Some(clients::subscribe(&clients.sns, &self.topic, "sqs", &queue.arn).await?);
                self.status.send_modify(|status| status.subscription.clone_from(&resources.subscription));
                Ok(())
            }
            Transported::Posted { endpoint, notices } => {
                let protocol = endpoint.split(':').next().unwrap_or("https").to_owned();
                let arn = clients::subscribe(&clients.sns, &self.topic, &protocol, endpoint).await?;
                resources.subscription = Some(arn.clone());
                self.status.send_modify(|status| status.subscription.clone_from(&resources.subscription));
                self.confirmed(clients, &arn, endpoint, notices).await
            }
        }
    }

    /// Waits until SNS has posted a confirmation and the listener has confirmed it. A subscription
    /// that existed before (from an earlier run, or another copy behind the same URL) may be
    /// confirmed already; then nothing is posted.
    async fn confirmed(
        &self,
        clients: &Clients,
        arn: &str,
        endpoint: &str,
        notices: &mut mpsc::Receiver<Notice>,
    ) -> Result<(), CallFailure> {
        let waiting = async {
            loop {
                match attest::look(&clients.sns, arn, endpoint).await {
                    Ok(Attestation::Sound) => return Ok(()),
                    Ok(Attestation::Unfit(why)) => {
                        self.lines.unfit(self.deps.clock.now(), why);
                        clients::unsubscribe(&clients.sns, arn).await?;
                        return Err(CallFailure {
                            call: "Subscribe",
                            fault: CallFault::Refused(format!("unfit: {why}")),
                        });
                    }
                    Ok(Attestation::Pending | Attestation::Gone) | Err(_) => {}
                }
                // Another copy behind the same URL may be the one that confirms, hence the next
                // check.
                if tokio::time::timeout(
                    self.pace.attest_again,
                    awaited(notices, |notice| notice == Notice::Confirmed),
                )
                .await
                .is_ok()
                {
                    return Ok(());
                }
            }
        };
        tokio::select! {
            ended = waiting => ended,
            () = self.stopping.cancelled() => Err(unconfirmed()),
            () = tokio::time::sleep(self.pace.confirm) => Err(unconfirmed()),
        }
    }

    /// Returns whether the subscription that was held from `held` on has worked: it was found sound, its
    /// topic delivered, or it lasted. That it could be made proves nothing.
    fn proved(&self, held: Moment, now: Moment) -> bool {
        self.status.borrow().attested.is_some_and(|at| at >= held)
            || (self.deps.speaks)(self.region)
            || now.since(held) > self.pace.again.1 * limits::LOSS_STRETCH
    }

    /// Resolves when a new subscription is wanted and its wait is over. While AWS itself fails,
    /// another would be no better: then it resolves once AWS answers, after the time that weak proof
    /// takes to come.
    ///
    /// A request is over when the region is LIVE, and only then, since freshness asks once each time
    /// it dies. That the old subscription looks sound is not enough: where heartbeats count it says
    /// nothing about what arrives.
    async fn wanted(&self, asked: &mut watch::Receiver<Duration>) {
        let mut status = self.status.subscribe();
        loop {
            requested(asked).await;
            while fails(&self.status.borrow()) {
                self.lines.waits(self.deps.clock.now());
                let answers = status.wait_for(|status| !fails(status)).await.map(drop);
                answers.expect("this task holds the sender");
                tokio::time::sleep(self.pace.attest + jittered(self.pace.attest_again)).await;
            }
            if !(self.deps.is_live)(self.region) {
                return;
            }
        }
    }

    async fn pause(&self, span: Duration) {
        let _stopped = self.stopping.run_until_cancelled(tokio::time::sleep(span)).await;
    }

    fn emit(&self, event: Event) {
        (self.deps.events)(event);
    }

    fn stage(&self, stage: Stage) {
        let now = self.deps.clock.now();
        self.status.send_modify(|status| (status.stage, status.since) = (stage, now));
    }
}

fn fails(status: &SubscriptionStatus) -> bool {
    status.failure.as_ref().is_some_and(|trouble| trouble.is_passing)
}

fn unconfirmed() -> CallFailure {
    CallFailure { call: "Subscribe", fault: CallFault::Unconfirmed }
}

/// Resolves when a new subscription is asked for and its wait is over.
async fn requested(asked: &mut watch::Receiver<Duration>) {
    if asked.changed().await.is_err() {
        // Nobody can ask any more.
        std::future::pending::<()>().await;
    }
    let after = *asked.borrow_and_update();
    tokio::time::sleep(after + jittered(after / 4)).await;
}
