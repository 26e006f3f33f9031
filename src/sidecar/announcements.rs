//! The announcement path: subscribe, receive, verify, decode, apply, acknowledge.
//!
//! Read in this order: `crate::aws::clients` (how AWS is called), [`subscription`] (every region's
//! subscription, for `app`), its `lifecycle` (one region's, from Subscribe to removal), `attest`
//! with `crate::aws::policy` (is it still as we made it), `crate::aws::sqs` with `poll`, and
//! `endpoint` (the two ways that messages arrive), then `crate::aws::certificate`,
//! `crate::aws::verify`, `crate::protocol::announcement` and [`apply`]. Beside the path,
//! [`heartbeat`] publishes, and [`janitor`] removes what dead sidecars left.
//!
//! A transport acknowledges a message only after [`Intake::take`] said so (R12).

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::aws::verify::Rejected;
use crate::model::ids::RegionId;
use crate::model::time::Wall;
use crate::switch::{Rule, is_on};

pub mod apply;
pub mod heartbeat;
pub mod intake;
pub mod janitor;
mod key_spelling;
pub mod subscription;

/// Receiver of a transport's envelopes: verify, decode, apply.
///
/// This is the seam between the transports and the rest of the path, so that each runs without the
/// other. Outcomes are counted behind it; the transport only acts on the disposition.
pub trait Intake: Send + Sync {
    /// Takes the envelope `raw` that arrived for `region`; `queued` is the SQS `SentTimestamp` if
    /// it came through a queue. Resolves when its message is applied, or cannot be.
    fn take(&self, region: RegionId, raw: Bytes, queued: Option<Wall>) -> BoxFuture<'static, Disposition>;
}

/// Instruction to a transport for an envelope that was taken.
#[derive(Clone, PartialEq, Eq)]
pub enum Disposition {
    /// Applied, or known already: acknowledge.
    Acknowledge,
    /// Genuine, but not applied: let it come again. The sidecar's own intake applies whatever it
    /// verifies; simulations say this (R12).
    Retry,
    /// It could not be verified; the reason says whether it may come again ([`Rejected::retry`]).
    Unverified(Rejected),
    /// A verified SubscriptionConfirmation: call ConfirmSubscription with this token.
    Confirm {
        /// As good as a subscription, so it is never logged.
        token: String,
    },
    /// A verified UnsubscribeConfirmation.
    Unsubscribed {
        /// Time at which SNS sent it: a replayed one belongs to an earlier subscription.
        published: Wall,
    },
}

impl Disposition {
    /// R12: whether the transport may drop the envelope for good (delete it, answer 2xx). True
    /// unless it must come again.
    pub fn may_be_deleted(&self) -> bool {
        let again = match self {
            Self::Retry => true,
            Self::Unverified(why) => why.retry(),
            _ => false,
        };
        !again || !is_on(Rule::R12)
    }
}

impl std::fmt::Debug for Disposition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Acknowledge => "Acknowledge",
            Self::Retry => "Retry",
            Self::Unverified(why) => return f.debug_tuple("Unverified").field(why).finish(),
            Self::Confirm { .. } => "Confirm",
            Self::Unsubscribed { .. } => "Unsubscribed",
        })
    }
}
