//! Removal of what a subscription leaves in AWS.

use super::{Lifecycle, Transported};
use crate::aws::clients::{self, Clients};
use crate::aws::sqs::{self, Queue};
use crate::model::time::Wall;
use crate::sidecar::announcements::subscription::Left;
use crate::sidecar::limits;

/// A subscription and its queue, as far as they exist in AWS or may.
#[derive(Default)]
pub(super) struct Made {
    /// Drawn before CreateQueue is called, so that a call whose answer was lost can be repeated or
    /// undone.
    pub(super) queue_name: Option<String>,
    pub(super) queue: Option<Queue>,
    pub(super) subscription: Option<String>,
    /// When Subscribe was last called: what SNS said before that is about an earlier subscription.
    pub(super) since: Wall,
}

impl Lifecycle {
    /// Puts aside what was in use. An http subscription is only ended when another replaces it:
    /// subscribing the same endpoint again finds or revives it.
    pub(super) fn discard(&self, way: &mut Transported, made: &mut Made, discarded: &mut Vec<Made>) {
        let old = std::mem::take(made);
        match way {
            Transported::Posted { .. } => made.subscription = old.subscription,
            Transported::Queue => discarded.push(old),
        }
        while discarded.len() > limits::DISCARDED {
            let forgotten = discarded.remove(0);
            self.lines.left(self.edges.clock.now(), &forgotten);
        }
    }

    /// Removes what `made` still names; what cannot be removed stays in it.
    async fn remove(&self, clients: &Clients, made: &mut Made) {
        if let Some(subscription) = &made.subscription {
            match clients::unsubscribe(&clients.sns, subscription).await {
                Ok(()) => made.subscription = None,
                Err(failure) => self.lines.kept_subscription(self.edges.clock.now(), subscription, &failure),
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
            Err(failure) => self.lines.kept_queue(self.edges.clock.now(), name, &failure),
        }
    }

    pub(super) async fn remove_all(&self, clients: &Clients, discarded: &mut Vec<Made>) {
        for made in discarded.iter_mut() {
            self.remove(clients, made).await;
        }
        discarded.retain(Made::exists);
    }

    pub(super) async fn finish(&self, clients: &Clients, discarded: &mut Vec<Made>) -> Vec<Left> {
        self.remove_all(clients, discarded).await;
        if discarded.is_empty() {
            self.status.send_modify(|status| (status.queue, status.subscription) = (None, None));
            tracing::info!("unsubscribed");
        }
        let left = |made: Made| Left { region: self.region, queue: made.queue_name, subscription: made.subscription };
        std::mem::take(discarded).into_iter().map(left).collect()
    }
}

impl Made {
    fn exists(&self) -> bool {
        self.queue_name.is_some() || self.subscription.is_some()
    }
}
