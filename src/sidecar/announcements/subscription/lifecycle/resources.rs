//! Resources that one subscription made in AWS.

use crate::aws::sqs::Queue;
use crate::model::time::Wall;

/// A subscription and its queue, as far as they exist in AWS or may.
#[derive(Default)]
pub(super) struct Resources {
    /// Drawn before CreateQueue is called, so that a call whose answer was lost can be repeated or
    /// undone.
    pub(super) queue_name: Option<String>,
    pub(super) queue: Option<Queue>,
    pub(super) subscription: Option<String>,
    /// Time of the last call of Subscribe: SNS's words from before that are about an earlier
    /// subscription.
    pub(super) since: Wall,
}

impl Resources {
    pub(super) fn exists(&self) -> bool {
        self.queue_name.is_some() || self.subscription.is_some()
    }
}
