//! The state of a subscription, as operators see it, and what one leaves behind.

use crate::aws::failure::CallFailure;
use crate::aws::verify::Rejected;
use crate::model::ids::RegionId;
use crate::model::time::Moment;

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
    /// Time at which its attributes were last seen to be sound.
    pub attested: Option<Moment>,
    pub losses: u64,
    /// Time of its last loss, and the reason in a stable word.
    pub lost: Option<(Moment, &'static str)>,
    /// Last refusal by AWS, until it no longer refuses.
    pub failure: Option<AwsTrouble>,
    /// Reason why its attributes could not be checked, until they can.
    pub unlooked: Option<AwsTrouble>,
    /// Reason of the last message from the queue that could not be verified.
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

/// Refusal by AWS, or the reason why it could not be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsTrouble {
    /// The call and its outcome.
    pub saw: String,
    /// Advice to the operator.
    pub advice: &'static str,
    /// True if AWS itself fails or cannot be reached: making something anew would not help.
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

/// Resource that could not be removed from a region; the janitor finds it later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub region: RegionId,
    pub queue: Option<String>,
    pub subscription: Option<String>,
}
