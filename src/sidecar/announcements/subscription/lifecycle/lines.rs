//! Lines of a subscription's life, each kind rationed: AWS may fail, and come and go, without end.

use std::time::Duration;

use super::removal::Made;
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
        if let Some(left_out) = self.lost.take(now) {
            tracing::warn!(why, ?wait, left_out, "the subscription was lost; making it anew");
        }
    }

    pub(super) fn anew(&self, now: Moment) {
        if let Some(left_out) = self.anew.take(now) {
            tracing::info!(left_out, "making the subscription anew: no proof came through this one");
        }
    }

    pub(super) fn refused(&self, now: Moment, topic: &str, failure: &CallFailure, wait: Duration) {
        if let Some(left_out) = self.refused.take(now) {
            tracing::warn!(%failure, topic, ?wait, left_out, "not subscribed; {}", failure.advice());
        }
    }

    pub(super) fn made(&self, now: Moment, topic: &str, queue: Option<&str>) {
        if let Some(left_out) = self.made.take(now) {
            tracing::info!(topic, queue, left_out, "subscribed");
        }
    }

    pub(super) fn unfit(&self, now: Moment, why: &str) {
        if let Some(left_out) = self.unfit.take(now) {
            tracing::warn!(why, left_out, "a subscription that was there before is unfit; ending it");
        }
    }

    pub(super) fn untagged(&self, now: Moment, failure: &CallFailure) {
        if let Some(left_out) = self.untagged.take(now) {
            let advice = failure.advice();
            tracing::warn!(%failure, advice, left_out, "the queue could not be tagged as alive");
        }
    }

    pub(super) fn waits(&self, now: Moment) {
        if let Some(left_out) = self.waits.take(now) {
            tracing::info!(left_out, "no new subscription is made while AWS fails");
        }
    }

    pub(super) fn left(&self, now: Moment, made: &Made) {
        if let Some(left_out) = self.left.take(now) {
            tracing::warn!(queue = made.queue_name, left_out, "could not be removed; left to the janitor");
        }
    }

    pub(super) fn kept_subscription(&self, now: Moment, subscription: &str, failure: &CallFailure) {
        if let Some(left_out) = self.kept_subscriptions.take(now) {
            tracing::warn!(%failure, subscription, left_out, "a subscription could not be removed");
        }
    }

    pub(super) fn kept_queue(&self, now: Moment, queue: &str, failure: &CallFailure) {
        if let Some(left_out) = self.kept_queues.take(now) {
            tracing::warn!(%failure, queue, left_out, "a queue could not be removed");
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
    fn aws_that_comes_and_goes_fills_no_log() {
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
            lines.left(now, &Made::default());
            lines.kept_subscription(now, "subscription", &failure);
            lines.kept_queue(now, "queue", &failure);
        }
        let most = RATIONED_LINES.0 as usize;
        assert_eq!((counted.most().0, counted.with("left_out=0")), (most, 10 * most));
        lines.refused(now + RATIONED_LINES.1, "topic", &failure, wait);
        assert_eq!(counted.with("left_out=90"), 1, "what was left out is counted");
    }
}
