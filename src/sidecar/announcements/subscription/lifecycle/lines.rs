//! Lines of a subscription's life, each kind rationed: AWS may fail, and come and go, without end.

use std::time::Duration;

use super::resources::Resources;
use crate::aws::failure::CallFailure;
use crate::model::time::Moment;
use crate::telemetry::rate_limiter::RateLimiter;

/// Rations of one subscription, which outlive every run of its task.
#[derive(Debug, Default)]
pub(crate) struct LifecycleLines {
    lost: RateLimiter,
    anew: RateLimiter,
    refused: RateLimiter,
    made: RateLimiter,
    unfit: RateLimiter,
    untagged: RateLimiter,
    waits: RateLimiter,
    left: RateLimiter,
    kept_subscriptions: RateLimiter,
    kept_queues: RateLimiter,
}

impl LifecycleLines {
    pub(super) fn lost(&self, now: Moment, why: &str, wait: Duration) {
        if let Some(suppressed) = self.lost.admit(now) {
            tracing::warn!(why, ?wait, suppressed, "the subscription was lost; making it anew");
        }
    }

    pub(super) fn anew(&self, now: Moment) {
        if let Some(suppressed) = self.anew.admit(now) {
            tracing::info!(suppressed, "making the subscription anew: no proof came through this one");
        }
    }

    pub(super) fn refused(&self, now: Moment, topic: &str, failure: &CallFailure, wait: Duration) {
        if let Some(suppressed) = self.refused.admit(now) {
            tracing::warn!(%failure, topic, ?wait, suppressed, "not subscribed; {}", failure.advice());
        }
    }

    pub(super) fn made(&self, now: Moment, topic: &str, queue: Option<&str>) {
        if let Some(suppressed) = self.made.admit(now) {
            tracing::info!(topic, queue, suppressed, "subscribed");
        }
    }

    pub(super) fn unfit(&self, now: Moment, why: &str) {
        if let Some(suppressed) = self.unfit.admit(now) {
            tracing::warn!(why, suppressed, "a subscription that was there before is unfit; ending it");
        }
    }

    pub(super) fn untagged(&self, now: Moment, failure: &CallFailure) {
        if let Some(suppressed) = self.untagged.admit(now) {
            let advice = failure.advice();
            tracing::warn!(%failure, advice, suppressed, "the queue could not be tagged as alive");
        }
    }

    pub(super) fn waits(&self, now: Moment) {
        if let Some(suppressed) = self.waits.admit(now) {
            tracing::info!(suppressed, "no new subscription is made while AWS fails");
        }
    }

    pub(super) fn left(&self, now: Moment, resources: &Resources) {
        if let Some(suppressed) = self.left.admit(now) {
            tracing::warn!(queue = resources.queue_name, suppressed, "could not be removed; left to the janitor");
        }
    }

    pub(super) fn kept_subscription(&self, now: Moment, subscription: &str, failure: &CallFailure) {
        if let Some(suppressed) = self.kept_subscriptions.admit(now) {
            tracing::warn!(%failure, subscription, suppressed, "a subscription could not be removed");
        }
    }

    pub(super) fn kept_queue(&self, now: Moment, queue: &str, failure: &CallFailure) {
        if let Some(suppressed) = self.kept_queues.admit(now) {
            tracing::warn!(%failure, queue, suppressed, "a queue could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::failure::CallFault;
    use crate::telemetry::limits::RATIONED_LINES;
    use crate::telemetry::scripted::CountedLines;

    #[test]
    fn flapping_aws_fills_no_log() {
        let (counted, lines, now) = (CountedLines::start(), LifecycleLines::default(), Moment::default());
        let failure = CallFailure { call: "Subscribe", fault: CallFault::Refused("no".to_owned()) };
        let wait = Duration::from_secs(1);
        for _ in 0..100 {
            lines.refused(now, "topic", &failure, wait);
            lines.made(now, "topic", Some("queue"));
            lines.lost(now, "queue", wait);
            lines.anew(now);
            lines.unfit(now, "filter");
            lines.untagged(now, &failure);
            lines.waits(now);
            lines.left(now, &Resources::default());
            lines.kept_subscription(now, "subscription", &failure);
            lines.kept_queue(now, "queue", &failure);
        }
        let most = RATIONED_LINES.0 as usize;
        assert_eq!((counted.most().0, counted.with("suppressed=0")), (most, 10 * most));
        lines.refused(now + RATIONED_LINES.1, "topic", &failure, wait);
        assert_eq!(counted.with("suppressed=90"), 1, "what was left out is counted");
    }
}
