//! Answers of a topic about itself.

use std::sync::Arc;

use nearside::model::time::Moment;

use super::queue::Taken;
use crate::chaos_server::chaos::Delivery;

/// One message on its way to one subscriber.
#[derive(Clone, Debug)]
pub struct SentMessage {
    pub id: String,
    /// The ARN of the subscription.
    pub subscription: String,
    pub message: Arc<str>,
    pub published: Moment,
    /// Moment at which its reader had applied and acknowledged it.
    pub taken: Taken,
}

/// The state of a topic, for `/state` and the story.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionStanding {
    pub published: u64,
    /// Copies that were lost on purpose, refused by a queue, or beyond a limit.
    pub lost: u64,
    pub subscriptions: usize,
    /// Copies in flight: published, and neither acknowledged nor lost.
    pub open: usize,
    pub faults: Delivery,
}
