//! Upkeep of a subscription while it is in use: looks at it, polls its queue, tags that.

use std::time::Duration;

use tokio::sync::watch;

use super::end::End;
use super::resources::Resources;
use super::{Lifecycle, Transported};
use crate::aws::clients::Clients;
use crate::aws::failure::CallFailure;
use crate::aws::sqs::{self, Queue};
use crate::protocol::event::Event;
use crate::sidecar::announcements::subscription::attest::{self, Attestation};
use crate::sidecar::announcements::subscription::backoff::{Backoff, shortened};
use crate::sidecar::announcements::subscription::new_queue::NewQueue;
use crate::sidecar::announcements::subscription::notice::{Notice, awaited};
use crate::sidecar::announcements::subscription::poll;
use crate::sidecar::announcements::subscription::status::AwsTrouble;
use crate::sidecar::limits;

impl Lifecycle {
    /// Everything that goes on while a subscription is in use, until it is not.
    pub(super) async fn hold(
        &self,
        clients: &Clients,
        transport: &mut Transported,
        resources: &Resources,
        asked: &mut watch::Receiver<Duration>,
    ) -> End {
        let subscription = resources.subscription.as_deref().unwrap_or_default();
        match (transport, &resources.queue) {
            (Transported::Posted { endpoint, notices }, _) => tokio::select! {
                () = self.stopping.cancelled() => End::Stopping,
                () = self.wanted(asked) => End::Asked,
                why = Box::pin(self.attest(clients, subscription, endpoint, None)) => End::Lost(why),
                () = awaited(notices, |notice| matches!(notice, Notice::Unsubscribed(at) if at >= resources.since)) => End::Lost("unsubscribed"),
            },
            (Transported::Queue, Some(queue)) => {
                let new = NewQueue::made(self.deps.clock.now());
                let ours = Some((queue, &new));
                tokio::select! {
                    () = self.stopping.cancelled() => End::Stopping,
                    () = self.wanted(asked) => End::Asked,
                    () = poll::poll(clients, queue, &new, self.region, &self.deps, &self.status) => {
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
        let began = self.deps.clock.now();
        let first = shortened(self.pace.attest.min(limits::ATTEST_FIRST));
        // Only once: if somebody keeps taking policies away, queues must not be made at that rate.
        if let Some((queue, new)) = queue.filter(|_| self.status.borrow().losses == 0) {
            tokio::time::sleep(first.min(shortened(limits::POLICY_FIRST))).await;
            let is_silent = !(self.deps.speaks)(self.region);
            if is_silent && let Ok(Attestation::Unfit(why)) = self.look_at_policy(clients, queue, new).await {
                return why;
            }
        }
        let mut wait = first.saturating_sub(self.deps.clock.now().since(began));
        let mut again = Backoff::new((self.pace.attest_again, self.pace.attest));
        let mut skipped = 0;
        loop {
            tokio::time::sleep(wait).await;
            wait = shortened(self.pace.attest);
            if skipped < limits::ATTEST_SKIPS && (self.deps.speaks)(self.region) {
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
                    let now = self.deps.clock.now();
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
        Ok(if is_gone && !new.is_lost(self.deps.clock.now()) { Attestation::Pending } else { look })
    }

    /// Re-tags the queue so that no janitor takes it; returns when it is gone.
    async fn tag(&self, clients: &Clients, queue: &Queue, new: &NewQueue) {
        let mut backoff = Backoff::new(limits::SUBSCRIBE_AGAIN);
        let mut wait = shortened(self.pace.tag);
        loop {
            tokio::time::sleep(wait).await;
            match sqs::tag_alive(&clients.sqs, queue, self.deps.clock.wall()).await {
                Ok(()) => {
                    backoff.worked();
                    wait = shortened(self.pace.tag);
                }
                Err(failure) if failure.is_gone() && new.is_lost(self.deps.clock.now()) => return,
                Err(failure) => {
                    self.lines.untagged(self.deps.clock.now(), &failure);
                    wait = backoff.wait().max(failure.least_wait());
                }
            }
        }
    }
}
