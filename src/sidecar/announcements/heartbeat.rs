//! Path heartbeats: `nearside heartbeat`, for services that cannot send their own. One message per
//! slot of 5 s proves the path from a topic to every sidecar (docs/freshness.md, proof of grade
//! *Path*). Its number is the slot, so any number of copies may run and agree. A number is never
//! ahead of the wall clock of its publisher.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::aws::clients::{Clients, Sdk};
use crate::aws::failure::{CallFailure, CallFault};
use crate::config::TopicArn;
use crate::model::time::{Clock, Moment, Wall};
use crate::telemetry::rate_limiter::RateLimiter;

pub const SLOT: Duration = Duration::from_secs(5);

/// Prefix of the name of a path heartbeat's publisher; who runs it follows.
pub const PUBLISHER: &str = "path:";

/// The number of a heartbeat published at `now`: whole slots since 1970.
pub const fn slot(now: Wall) -> u64 {
    now.as_millis() / (SLOT.as_millis() as u64)
}

/// A publisher of path heartbeats on one topic.
pub struct Heartbeat {
    clients: Clients,
    topic: TopicArn,
    publisher: String,
    clock: Clock,
    /// Offset in a slot at which this copy publishes. Copies spread out, and each keeps its offset.
    offset: Duration,
}

impl Heartbeat {
    /// A publisher for `topic`, with this machine's name or a random one.
    pub async fn new(sdk: &Sdk, topic: TopicArn, clock: Clock) -> Self {
        let clients = sdk.clients(&topic.region).await;
        let name: String = std::env::var("HOSTNAME")
            .ok()
            .filter(|host| !host.is_empty())
            .unwrap_or_else(|| (0..12).map(|_| fastrand::alphanumeric()).collect());
        let offset = SLOT.mul_f64(fastrand::f64() / 5.0);
        Self { clients, topic, publisher: format!("{PUBLISHER}{name}"), clock, offset }
    }

    /// Publishes one heartbeat; returns its number.
    ///
    /// # Errors
    /// Any [`CallFailure`].
    pub async fn publish(&self) -> Result<u64, CallFailure> {
        let slot = slot(self.clock.wall());
        let body = body(&self.publisher, slot);
        let sent = self.clients.sns.publish().topic_arn(&self.topic.arn).message(body).send().await;
        sent.map(|_| slot).map_err(|error| CallFailure::of("Publish", &error))
    }

    /// Publishes one heartbeat per slot until `stopping`, the first at once. A failure is logged
    /// and not retried: the next slot's heartbeat proves more.
    pub async fn run(&self, stopping: CancellationToken) {
        let mut lines = HeartbeatLines::default();
        loop {
            match self.publish().await {
                Ok(slot) if !lines.has_begun => {
                    (lines.has_begun, lines.is_failing) = (true, false);
                    let (topic, publisher) = (&self.topic.arn, &self.publisher);
                    tracing::info!(slot, topic, publisher, "the first heartbeat is published, one follows every 5 s");
                }
                published => lines.log(&self.topic.arn, &published, self.clock.now()),
            }
            if stopping.run_until_cancelled(tokio::time::sleep(self.until_next())).await.is_none() {
                return;
            }
        }
    }

    /// The time until this copy's offset in the next slot.
    fn until_next(&self) -> Duration {
        let now = self.clock.wall();
        let next = Wall::from_millis((slot(now) + 1) * SLOT.as_millis() as u64) + self.offset;
        next.since(now)
    }
}

/// Rations of what SNS that fails, or comes and goes, has said.
#[derive(Default)]
struct HeartbeatLines {
    has_begun: bool,
    is_failing: bool,
    failures: RateLimiter,
    again: RateLimiter,
}

impl HeartbeatLines {
    fn log(&mut self, topic: &str, published: &Result<u64, CallFailure>, now: Moment) {
        match published {
            Ok(slot) if self.is_failing => {
                if let Some(suppressed) = self.again.admit(now) {
                    tracing::info!(slot, suppressed, "heartbeats are published again");
                }
            }
            Ok(slot) => tracing::debug!(slot, "heartbeat"),
            Err(failure) => {
                if let Some(suppressed) = self.failures.admit(now) {
                    tracing::warn!(topic, %failure, advice = advice(failure), suppressed, "no heartbeat");
                }
            }
        }
        self.is_failing = published.is_err();
    }
}

fn advice(failure: &CallFailure) -> &'static str {
    match failure.fault {
        CallFault::Denied(_) => "allow this process's role sns:Publish on the topic",
        _ => failure.advice(),
    }
}

/// Proto3 JSON, where a 64-bit number is a string.
fn body(publisher: &str, slot: u64) -> String {
    serde_json::json!({"kind": "HEARTBEAT", "publisher": publisher, "sequence": slot.to_string()}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::limits::RATIONED_LINES;
    use crate::telemetry::scripted::CountedLines;

    #[test]
    fn flapping_topic_fills_no_log() {
        let (counted, mut lines) = (CountedLines::start(), HeartbeatLines::default());
        let refused = Err(CallFailure { call: "Publish", fault: CallFault::Refused("no".to_owned()) });
        for number in 0..100 {
            lines.log("a topic", &refused, Moment::default());
            lines.log("a topic", &Ok(number), Moment::default());
        }
        let most = RATIONED_LINES.0 as usize;
        assert_eq!((counted.with("no heartbeat"), counted.with("published again")), (most, most));
    }

    #[test]
    fn slot_is_five_wall_clock_seconds() {
        assert_eq!(slot(Wall::from_millis(4_999)), 0);
        assert_eq!(slot(Wall::from_millis(5_000)), 1);
        assert_eq!(slot(Wall::from_millis(1_795_240_036_425)), 359_048_007);
    }

    #[test]
    fn heartbeat_json_is_numbered_by_slot() {
        let said: serde_json::Value = serde_json::from_str(&body("path:host", 359_048_007)).unwrap();
        assert_eq!(said["kind"], "HEARTBEAT");
        assert_eq!(said["publisher"], "path:host");
        assert_eq!(said["sequence"], "359048007");
    }
}
