//! Removal of what a subscription leaves in AWS.

use super::resources::Resources;
use super::{Lifecycle, Transported};
use crate::aws::clients::{self, Clients};
use crate::aws::sqs;
use crate::sidecar::announcements::subscription::status::Left;
use crate::sidecar::limits;

impl Lifecycle {
    /// Puts aside what was in use. An http subscription is only ended when another replaces it:
    /// subscribing the same endpoint again finds or revives it.
    pub(super) fn discard(
        &self,
        transport: &mut Transported,
        resources: &mut Resources,
        discarded: &mut Vec<Resources>,
    ) {
        let old = std::mem::take(resources);
        match transport {
            Transported::Posted { .. } => resources.subscription = old.subscription,
            Transported::Queue => discarded.push(old),
        }
        while discarded.len() > limits::DISCARDED {
            let forgotten = discarded.remove(0);
            self.lines.left(self.deps.clock.now(), &forgotten);
        }
    }

    /// Removes what `resources` still names; what cannot be removed stays in it.
    async fn remove(&self, clients: &Clients, resources: &mut Resources) {
        if let Some(subscription) = &resources.subscription {
            match clients::unsubscribe(&clients.sns, subscription).await {
                Ok(()) => resources.subscription = None,
                Err(failure) => self.lines.kept_subscription(self.deps.clock.now(), subscription, &failure),
            }
        }
        let Some(name) = &resources.queue_name else { return };
        let removed = match &resources.queue {
            Some(queue) => sqs::delete(&clients.sqs, &queue.url).await,
            None => match sqs::find(&clients.sqs, name, None).await {
                Ok(Some(url)) => sqs::delete(&clients.sqs, &url).await,
                Ok(None) => Ok(()),
                Err(failure) => Err(failure),
            },
        };
        match removed {
            Ok(()) => (resources.queue, resources.queue_name) = (None, None),
            Err(failure) => self.lines.kept_queue(self.deps.clock.now(), name, &failure),
        }
    }

    pub(super) async fn remove_all(&self, clients: &Clients, discarded: &mut Vec<Resources>) {
        for resources in discarded.iter_mut() {
            self.remove(clients, resources).await;
        }
        discarded.retain(Resources::exists);
    }

    pub(super) async fn finish(&self, clients: &Clients, discarded: &mut Vec<Resources>) -> Vec<Left> {
        self.remove_all(clients, discarded).await;
        if discarded.is_empty() {
            self.status.send_modify(|status| (status.queue, status.subscription) = (None, None));
            tracing::info!("unsubscribed");
        }
        std::mem::take(discarded)
            .into_iter()
            .map(|resources| Left {
                region: self.region,
                queue: resources.queue_name,
                subscription: resources.subscription,
            })
            .collect()
    }
}
