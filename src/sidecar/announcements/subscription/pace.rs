//! The pace at which subscriptions are made, looked at and given up.

use std::time::Duration;

use crate::aws::limits::VISIBILITY;
use crate::sidecar::limits;

/// Intervals and waits; tests run faster than production.
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
    /// Longest wait for a confirmation.
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
