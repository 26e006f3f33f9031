//! One region's subscription from Subscribe to its removal, as one long-lived task. Its events go
//! to freshness, which answers a dead subscription with `Action::Resubscribe`. The order is that of
//! R11: subscribe, say so, let proofs arrive.
//!
//! At most one subscription is in use. What it replaces is removed after the new one works. Nothing
//! that was made is forgotten: it is removed, or named when the task ends. That holds across a panic
//! too: the next run of the task finds what the last one made.

use std::time::Duration;

use tokio::sync::{Mutex, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::attest::{self, Attestation};
use super::backoff::{Backoff, jittered, shortened};
use super::endpoint::Notice;
use super::new_queue::NewQueue;
use super::poll;
use crate::aws::clients::{self, Clients};
use crate::aws::failure::{CallFailure, CallFault};
use crate::aws::sqs::{self, Queue};
use crate::config::{QueuesConfig, TopicArn};
use crate::model::ids::RegionId;
use crate::model::time::{Moment, Wall};
use crate::protocol::event::Event;
use crate::sidecar::announcements::subscription::{AwsTrouble, Edges, Left, Pace, Stage, SubscriptionStatus};
use crate::sidecar::limits;
use crate::telemetry::rate_limiter::RateLimiter;

/// How messages reach this region's lifecycle.
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
    pub(crate) edges: Edges,
    pub(crate) stopping: CancellationToken,
    pub(crate) status: watch::Sender<SubscriptionStatus>,
    /// Limits how often a loss is logged.
    pub(crate) lines: RateLimiter,
    /// Held by the one run of the task.
    pub(crate) progress: Mutex<LifecycleProgress>,
}

/// What a run of the task leaves to the next one, should it panic.
pub(crate) struct LifecycleProgress {
    way: Transported,
    asked: watch::Receiver<Duration>,
    backoff: Backoff,
    /// Of its own: what was made without a failure may all the same be lost each time.
    losses: Backoff,
    made: Made,
    discarded: Vec<Made>,
}

impl LifecycleProgress {
    pub(crate) fn new(way: Transported, asked: watch::Receiver<Duration>, pace: &Pace) -> Self {
        let losses = Backoff::new((pace.again.0, pace.again.1 * limits::LOSS_STRETCH));
        let backoff = Backoff::new(pace.again);
        Self { way, asked, backoff, losses, made: Made::default(), discarded: Vec::new() }
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

/// What exists in AWS, or may.
#[derive(Default)]
struct Made {
    /// Drawn before CreateQueue is called, so that a call whose answer was lost can be repeated or
    /// undone.
    queue_name: Option<String>,
    queue: Option<Queue>,
    subscription: Option<String>,
    /// When Subscribe was last called: what SNS said before that is about an earlier subscription.
    since: Wall,
}

/// Why a subscription is no longer held.
enum End {
    Stopping,
    /// Freshness wants another.
    Asked,
    /// It, or its queue, is gone; why, in a stable word.
    Lost(&'static str),
}

impl Lifecycle {
    /// Runs until the process stops; returns what could not be removed.
    pub(crate) async fn live(&self) -> Vec<Left> {
        let _note = PanicNote(self);
        let mut progress = self.progress.lock().await;
        let LifecycleProgress { way, asked, backoff, losses, made, discarded } = &mut *progress;
        let clients = self.edges.sdk.clients(&self.topic.region).await;
        while !self.stopping.is_cancelled() {
            self.emit(Event::Subscribing(self.region));
            if !self.subscribe(&clients, way, made, backoff).await {
                break;
            }
            // Requests so far are satisfied by this subscription.
            asked.mark_unchanged();
            self.emit(Event::Subscribed(self.region));
            self.remove_all(&clients, discarded).await;
            let held = self.edges.clock.now();
            match Box::pin(self.hold(&clients, way, made, asked)).await {
                End::Stopping => break,
                End::Asked => tracing::info!("making the subscription anew: no proof came through this one"),
                End::Lost(why) => {
                    let now = self.edges.clock.now();
                    if self.proved(held, now) {
                        losses.worked();
                    }
                    let wait = losses.wait();
                    self.status.send_modify(|status| {
                        status.losses += 1;
                        status.lost = Some((now, why));
                    });
                    if let Some(left_out) = self.lines.take(now) {
                        tracing::warn!(why, ?wait, left_out, "the subscription was lost; making it anew");
                    }
                    self.emit(Event::Lost(self.region));
                    self.pause(wait).await;
                }
            }
            self.discard(way, made, discarded);
        }
        discarded.push(std::mem::take(made));
        self.stage(Stage::Stopped);
        self.finish(&clients, discarded).await
    }

    /// Tries until there is a subscription; false when the process stops first.
    async fn subscribe(
        &self,
        clients: &Clients,
        way: &mut Transported,
        made: &mut Made,
        backoff: &mut Backoff,
    ) -> bool {
        self.stage(Stage::Subscribing);
        loop {
            // Not raced against stopping: a call in flight may have made something, and is bounded
            // by itself.
            let tried = self.make(clients, way, made).await;
            if self.stopping.is_cancelled() {
                return false;
            }
            let Err(failure) = tried else {
                backoff.worked();
                self.status.send_modify(|status| status.failure = None);
                self.stage(Stage::Subscribed);
                tracing::info!(topic = self.topic.arn, queue = made.queue_name, "subscribed");
                return true;
            };
            let (wait, advice) = (backoff.wait().max(failure.least_wait()), failure.advice());
            tracing::warn!(%failure, topic = self.topic.arn, ?wait, "not subscribed; {advice}");
            self.status.send_modify(|status| status.failure = Some(AwsTrouble::from(&failure)));
            self.pause(wait).await;
        }
    }

    /// Makes what is still missing.
    async fn make(&self, clients: &Clients, way: &mut Transported, made: &mut Made) -> Result<(), CallFailure> {
        made.since = self.edges.clock.wall();
        match way {
            Transported::Queue => {
                let name = made.queue_name.get_or_insert_with(|| sqs::draw_name(&self.service)).clone();
                self.status.send_modify(|status| status.queue = Some(name.clone()));
                let queue = match &made.queue {
                    Some(queue) => queue.clone(),
                    None => {
                        let order = sqs::QueueOrder {
                            name: &name,
                            topic: &self.topic,
                            service: &self.service,
                            queues: &self.queues,
                            visibility: self.pace.visibility,
                            now: self.edges.clock.wall(),
                        };
                        sqs::create(&clients.sqs, order).await?
                    }
                };
                let queue = made.queue.insert(queue);
                made.subscription = Some(clients::subscribe(&clients.sns, &self.topic, "sqs", &queue.arn).await?);
                self.status.send_modify(|status| status.subscription.clone_from(&made.subscription));
                Ok(())
            }
            Transported::Posted { endpoint, notices } => {
                let protocol = endpoint.split(':').next().unwrap_or("https").to_owned();
                let arn = clients::subscribe(&clients.sns, &self.topic, &protocol, endpoint).await?;
                made.subscription = Some(arn.clone());
                self.status.send_modify(|status| status.subscription.clone_from(&made.subscription));
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
                        tracing::warn!(why, "a subscription that was there before is unfit; ending it");
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
                if tokio::time::timeout(self.pace.attest_again, told(notices, |notice| notice == Notice::Confirmed))
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

    /// Everything that goes on while a subscription is in use, until it is not.
    async fn hold(
        &self,
        clients: &Clients,
        way: &mut Transported,
        made: &Made,
        asked: &mut watch::Receiver<Duration>,
    ) -> End {
        let subscription = made.subscription.as_deref().unwrap_or_default();
        match (way, &made.queue) {
            (Transported::Posted { endpoint, notices }, _) => tokio::select! {
                () = self.stopping.cancelled() => End::Stopping,
                () = self.wanted(asked) => End::Asked,
                why = Box::pin(self.attest(clients, subscription, endpoint, None)) => End::Lost(why),
                () = told(notices, |notice| matches!(notice, Notice::Unsubscribed(at) if at >= made.since)) => End::Lost("unsubscribed"),
            },
            (Transported::Queue, Some(queue)) => {
                let new = NewQueue::made(self.edges.clock.now());
                let ours = Some((queue, &new));
                tokio::select! {
                    () = self.stopping.cancelled() => End::Stopping,
                    () = self.wanted(asked) => End::Asked,
                    () = poll::poll(clients, queue, &new, self.region, &self.edges, &self.status) => {
                        End::Lost("queue")
                    }
                    why = Box::pin(self.attest(clients, subscription, &queue.arn, ours)) => End::Lost(why),
                    () = self.tag(clients, queue, &new) => End::Lost("queue"),
                }
            }
            (Transported::Queue, None) => End::Lost("queue"),
        }
    }

    /// Checks the attributes, and the queue's policy, now and then until they show a loss; returns
    /// which. While heartbeats prove the path it checks seldom, only to find a filter that somebody
    /// set.
    async fn attest(
        &self,
        clients: &Clients,
        subscription: &str,
        endpoint: &str,
        queue: Option<(&Queue, &NewQueue)>,
    ) -> &'static str {
        let began = self.edges.clock.now();
        let first = shortened(self.pace.attest.min(limits::ATTEST_FIRST));
        // Only once: if somebody keeps taking policies away, queues must not be made at that rate.
        if let Some((queue, new)) = queue.filter(|_| self.status.borrow().losses == 0) {
            tokio::time::sleep(first.min(shortened(limits::POLICY_FIRST))).await;
            let is_silent = !(self.edges.speaks)(self.region);
            if is_silent && let Ok(Attestation::Unfit(why)) = self.look_at_policy(clients, queue, new).await {
                return why;
            }
        }
        let mut wait = first.saturating_sub(self.edges.clock.now().since(began));
        let mut again = Backoff::new((self.pace.attest_again, self.pace.attest));
        let mut skipped = 0;
        loop {
            tokio::time::sleep(wait).await;
            wait = shortened(self.pace.attest);
            if skipped < limits::ATTEST_SKIPS && (self.edges.speaks)(self.region) {
                skipped += 1;
                continue;
            }
            skipped = 0;
            let mut look = attest::look(&clients.looks, subscription, endpoint).await;
            if let (Ok(Attestation::Sound), Some((queue, new))) = (&look, queue) {
                look = self.look_at_policy(clients, queue, new).await;
            }
            match look {
                Ok(Attestation::Sound) => {
                    again.worked();
                    let now = self.edges.clock.now();
                    self.status.send_modify(|status| (status.attested, status.unlooked) = (Some(now), None));
                    self.emit(Event::Attested(self.region));
                }
                Ok(Attestation::Gone) => return "subscription",
                Ok(Attestation::Pending) => return "unconfirmed",
                Ok(Attestation::Unfit(why)) => return why,
                Err(failure) => {
                    tracing::debug!(%failure, "the subscription could not be looked at: no proof, no loss");
                    if !failure.is_passing() {
                        self.status.send_modify(|status| status.unlooked = Some(AwsTrouble::from(&failure)));
                    }
                    if failure.is_passing() {
                        self.emit(Event::Unattested(self.region));
                    }
                    wait = again.wait().max(failure.least_wait());
                }
            }
        }
    }

    /// A look at the queue's policy, where a new queue that does not show yet is no loss.
    async fn look_at_policy(
        &self,
        clients: &Clients,
        queue: &Queue,
        new: &NewQueue,
    ) -> Result<Attestation, CallFailure> {
        let look = attest::look_at_policy(&clients.sqs, queue, &self.topic).await?;
        let is_gone = look == Attestation::Unfit("queue");
        Ok(if is_gone && !new.is_lost(self.edges.clock.now()) { Attestation::Pending } else { look })
    }

    /// Whether the subscription that was held from `held` on has worked: it was found sound, its
    /// topic was heard, or it lasted. That it could be made proves nothing.
    fn proved(&self, held: Moment, now: Moment) -> bool {
        self.status.borrow().attested.is_some_and(|at| at >= held)
            || (self.edges.speaks)(self.region)
            || now.since(held) > self.pace.again.1 * limits::LOSS_STRETCH
    }

    /// Resolves when a new subscription is wanted and its wait is over. While AWS itself fails,
    /// another would be no better: then it resolves once AWS answers, unless the old one proves
    /// itself first.
    async fn wanted(&self, asked: &mut watch::Receiver<Duration>) {
        let mut status = self.status.subscribe();
        let fails = |status: &SubscriptionStatus| status.failure.as_ref().is_some_and(|trouble| trouble.is_passing);
        loop {
            requested(asked).await;
            if !fails(&self.status.borrow()) {
                return;
            }
            tracing::info!("no new subscription is made while AWS fails");
            let answers = status.wait_for(|status| !fails(status)).await.map(drop);
            answers.expect("this task holds the sender");
            let since = self.edges.clock.now();
            tokio::time::sleep(self.pace.attest + jittered(self.pace.attest_again)).await;
            if !self.proved(since, since) {
                return;
            }
        }
    }

    /// Re-tags the queue so that no janitor takes it; returns when it is gone.
    async fn tag(&self, clients: &Clients, queue: &Queue, new: &NewQueue) {
        let mut backoff = Backoff::new(limits::SUBSCRIBE_AGAIN);
        let mut wait = shortened(self.pace.tag);
        loop {
            tokio::time::sleep(wait).await;
            match sqs::tag_alive(&clients.sqs, queue, self.edges.clock.wall()).await {
                Ok(()) => {
                    backoff.worked();
                    wait = shortened(self.pace.tag);
                }
                Err(failure) if failure.is_gone() && new.is_lost(self.edges.clock.now()) => return,
                Err(failure) => {
                    tracing::warn!(%failure, advice = failure.advice(), "the queue could not be tagged as alive");
                    wait = backoff.wait().max(failure.least_wait());
                }
            }
        }
    }

    /// Puts aside what was in use. An http subscription is only ended when another replaces it:
    /// subscribing the same endpoint again finds or revives it.
    fn discard(&self, way: &mut Transported, made: &mut Made, discarded: &mut Vec<Made>) {
        let old = std::mem::take(made);
        match way {
            Transported::Posted { .. } => made.subscription = old.subscription,
            Transported::Queue => discarded.push(old),
        }
        while discarded.len() > limits::DISCARDED {
            let forgotten = discarded.remove(0);
            tracing::warn!(queue = forgotten.queue_name, "could not be removed; left to the janitor");
        }
    }

    /// Removes what `made` still names; what cannot be removed stays in it.
    async fn remove(&self, clients: &Clients, made: &mut Made) {
        if let Some(subscription) = &made.subscription {
            match clients::unsubscribe(&clients.sns, subscription).await {
                Ok(()) => made.subscription = None,
                Err(failure) => tracing::warn!(%failure, subscription, "a subscription could not be removed"),
            }
        }
        let Some(name) = &made.queue_name else { return };
        let removed = match &made.queue {
            Some(queue) => sqs::delete(&clients.sqs, &queue.url).await,
            None => match sqs::find(&clients.sqs, name, None).await {
                Ok(Some(url)) => sqs::delete(&clients.sqs, &url).await,
                Ok(None) => Ok(()),
                Err(failure) => Err(failure),
            },
        };
        match removed {
            Ok(()) => (made.queue, made.queue_name) = (None, None),
            Err(failure) => tracing::warn!(%failure, queue = name, "a queue could not be removed"),
        }
    }

    async fn remove_all(&self, clients: &Clients, discarded: &mut Vec<Made>) {
        for made in discarded.iter_mut() {
            self.remove(clients, made).await;
        }
        discarded.retain(Made::exists);
    }

    async fn finish(&self, clients: &Clients, discarded: &mut Vec<Made>) -> Vec<Left> {
        self.remove_all(clients, discarded).await;
        if discarded.is_empty() {
            self.status.send_modify(|status| (status.queue, status.subscription) = (None, None));
            tracing::info!("unsubscribed");
        }
        let left = |made: Made| Left { region: self.region, queue: made.queue_name, subscription: made.subscription };
        std::mem::take(discarded).into_iter().map(left).collect()
    }

    async fn pause(&self, span: Duration) {
        let _stopped = self.stopping.run_until_cancelled(tokio::time::sleep(span)).await;
    }

    fn emit(&self, event: Event) {
        (self.edges.events)(event);
    }

    fn stage(&self, stage: Stage) {
        let now = self.edges.clock.now();
        self.status.send_modify(|status| (status.stage, status.since) = (stage, now));
    }
}

impl Made {
    fn exists(&self) -> bool {
        self.queue_name.is_some() || self.subscription.is_some()
    }
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

/// Resolves when the endpoint has given the awaited notice. Others are late or replayed, and are
/// skipped.
async fn told(notices: &mut mpsc::Receiver<Notice>, awaited: impl Fn(Notice) -> bool) {
    loop {
        match notices.recv().await {
            Some(notice) if awaited(notice) => return,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}
