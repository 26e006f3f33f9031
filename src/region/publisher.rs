//! Announcements of a region (docs/publishing.md): every message under the next number, sent again
//! under its number until SNS has it, and nothing after it before that. Heartbeats wait their turn,
//! so trouble with the topic shows as silence, never as a promise.
//!
//! What the topic refuses for good, while it takes other messages, is said otherwise: its whole
//! type may have changed. One message holds up no other for ever.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

use super::limits;
use crate::engine::limits::{PUBLISH_BATCH, PUBLISH_BYTES};
use crate::engine::skipped::LoggedKey;
use crate::engine::{EngineError, ItemKey, Table, Topic, bucket, retry_delay};
use crate::model::time::{Clock, Wall};
use crate::protocol::announcement::encode_json;
use crate::protocol::announcement::message::{Announcement, AnnouncementKind, Numbered};
use crate::telemetry::metrics::definition::metrics;
use crate::telemetry::rate_limiter::RateLimiter;
use prometheus_client::metrics::counter::Counter;

/// Announcement about a record, before it has a number.
#[derive(Clone, PartialEq, Eq)]
pub struct Said {
    pub record_type: String,
    /// Empty with a RELOAD of the type.
    pub key: String,
    pub kind: AnnouncementKind,
}

impl Said {
    /// Anything of this type may have changed.
    pub fn reload(record_type: impl Into<String>) -> Self {
        Self { record_type: record_type.into(), key: String::new(), kind: AnnouncementKind::Reload }
    }
}

/// One publisher of a region at a time; its name is new with each start.
pub struct RegionPublisher {
    region: String,
    topic: Arc<dyn Topic>,
    clock: Clock,
    numbering: Mutex<Numbering>,
    pub counts: PublishCounts,
}

metrics! {
    /// Metrics of a publisher.
    pub struct PublishMetrics {
        /// Announcements that the topic took.
        pub announced: Counter,
        /// Announcements that were sent again.
        pub announced_again: Counter,
        /// Calls to the topic, heartbeats too.
        pub publish_calls: Counter,
        /// Names given up over a refused message.
        pub publisher_renamed: Counter,
        /// Messages that the topic never took, nor may: a RELOAD of their type stands for them.
        pub announced_as_reload: Counter,
    }
}

/// Metrics of a publisher, and rations of its log lines.
#[derive(Debug, Default)]
pub struct PublishCounts {
    pub metrics: PublishMetrics,
    pub heartbeats: AtomicU64,
    lines: Arc<PublishLines>,
}

/// A topic that refuses or fails must not fill the log.
#[derive(Debug, Default)]
struct PublishLines {
    renamed: RateLimiter,
    reloaded: RateLimiter,
    failed: RateLimiter,
    silent: RateLimiter,
}

struct Numbering {
    name: String,
    last: u64,
}

impl Numbering {
    fn new(region: &str) -> Self {
        Self { name: format!("{region}/{:032x}", fastrand::u128(..)), last: 0 }
    }
}

impl RegionPublisher {
    pub fn new(region: &str, topic: Arc<dyn Topic>, clock: Clock) -> Self {
        let numbering = Mutex::new(Numbering::new(region));
        Self { region: region.to_owned(), topic, clock, numbering, counts: PublishCounts::default() }
    }

    /// Another publisher in this one's place, under another name. Their log lines are rationed together.
    pub(super) fn successor(&self) -> Self {
        let next = Self::new(&self.region, self.topic.clone(), self.clock.clone());
        let counts = PublishCounts { lines: self.counts.lines.clone(), ..next.counts };
        Self { counts, ..next }
    }

    /// Returns once SNS has all of it, however long that takes. Dropping it leaves a hole in the
    /// numbers, which every sidecar notices.
    pub async fn announce(&self, said: Vec<Said>) {
        for said in said.chunks(PUBLISH_BATCH) {
            // Heartbeats come in between.
            let mut numbering = self.numbering.lock().await;
            let (mut left, mut is_again) = (said.to_vec(), false);
            while let Err(refused) = self.announce_under(&mut numbering, &left).await {
                self.counts.metrics.publisher_renamed.inc();
                if let Some(suppressed) = self.counts.lines.renamed.admit(self.clock.now()) {
                    tracing::error!(
                        publisher = numbering.name,
                        suppressed,
                        "SNS refuses a message: its publisher ends, and another one says it again"
                    );
                }
                *numbering = Numbering::new(&self.region);
                // Under two names, by a topic that takes others: it will never take it.
                if is_again && self.say_beat(&numbering, None, false).await.is_ok_and(|refused| refused.is_empty()) {
                    left = self.otherwise(left, &refused);
                }
                is_again = !is_again;
            }
        }
    }

    /// Announcements in place of refused ones. Ends with nothing: a RELOAD that is refused too is
    /// of no type that anybody could have asked for.
    fn otherwise(&self, said: Vec<Said>, refused: &BTreeSet<usize>) -> Vec<Said> {
        let mut kept = Vec::with_capacity(said.len());
        for (place, one) in said.into_iter().enumerate() {
            if !refused.contains(&place) {
                kept.push(one);
                continue;
            }
            self.counts.metrics.announced_as_reload.inc();
            let key = ItemKey::new(bucket::partition(&one.record_type, &one.key), &*one.key);
            let item = LoggedKey(Table::Contexts, &key);
            let is_reload = one.kind == AnnouncementKind::Reload;
            if let Some(suppressed) = self.counts.lines.reloaded.admit(self.clock.now()) {
                tracing::error!(%item, is_reload, suppressed, "SNS never takes what is to be said of an item");
            }
            let reload = Said::reload(one.record_type);
            if !is_reload && !kept.contains(&reload) {
                kept.push(reload);
            }
        }
        kept
    }

    /// Says it, or says which of it SNS refused at last.
    async fn announce_under(&self, numbering: &mut Numbering, said: &[Said]) -> Result<(), BTreeSet<usize>> {
        let mut waiting = self.numbered(numbering, said);
        let (mut attempts, mut refusals, mut is_alone) = (0, 0, false);
        while !waiting.is_empty() {
            let sent = if is_alone { 1 } else { fitting(&waiting) };
            let messages = waiting[..sent].iter().map(|(_, message)| message.clone()).collect();
            let mut refused = BTreeSet::new();
            match self.publish(messages).await {
                Ok(places) => {
                    self.counts.metrics.announced.inc_by((sent - places.len()) as u64);
                    let rest = waiting.split_off(sent);
                    let again = waiting.into_iter().enumerate().filter(|(place, _)| places.contains(place));
                    waiting = again.map(|(_, message)| message).collect();
                    refused.extend(waiting.iter().map(|(place, _)| *place));
                    waiting.extend(rest);
                    if places.is_empty() {
                        continue;
                    }
                    refusals += 1;
                }
                Err(error) => {
                    if let Some(suppressed) = self.counts.lines.failed.admit(self.clock.now()) {
                        tracing::warn!(%error, suppressed, "announcements could not be published; trying again");
                    }
                    if matches!(error, EngineError::Refused { .. }) {
                        refusals += 1;
                        refused.extend(waiting.iter().map(|(place, _)| *place).take(sent).filter(|_| sent == 1));
                        // Then it shows which of them it is.
                        is_alone = true;
                    }
                }
            }
            if refusals > limits::PUBLISH_ATTEMPTS {
                return Err(refused);
            }
            attempts += 1;
            self.counts.metrics.announced_again.inc_by(waiting.len() as u64);
            tokio::time::sleep(retry_delay(attempts)).await;
        }
        Ok(())
    }

    /// The messages under the next numbers, each with its place.
    fn numbered(&self, numbering: &mut Numbering, said: &[Said]) -> Vec<(usize, String)> {
        let ingested_at = self.clock.wall();
        let messages = said.iter().enumerate().map(|(place, one)| {
            numbering.last += 1;
            let message = encode_json(&Announcement {
                record_type: one.record_type.clone(),
                key: one.key.clone(),
                kind: one.kind,
                numbered: Some(Numbered { publisher: numbering.name.clone(), sequence: numbering.last }),
                ingested_at: Some(ingested_at),
            });
            (place, sendable(message))
        });
        messages.collect()
    }

    /// Says that this publisher lives, and through when it has announced everything. One attempt:
    /// the next heartbeat says more.
    pub async fn heartbeat(&self, ingested_through: Option<Wall>) -> Result<(), EngineError> {
        self.beat(ingested_through, false).await
    }

    /// The last message: from now on silence is expected.
    pub async fn sign_off(&self, ingested_through: Option<Wall>) {
        let said = tokio::time::timeout(limits::SIGN_OFF_WAIT, self.beat(ingested_through, true)).await;
        if !matches!(said, Ok(Ok(())))
            && let Some(suppressed) = self.counts.lines.silent.admit(self.clock.now())
        {
            tracing::warn!(suppressed, "the publisher could not sign off; sidecars notice its silence");
        }
    }

    async fn beat(&self, ingested_through: Option<Wall>, signing_off: bool) -> Result<(), EngineError> {
        let numbering = self.numbering.lock().await;
        if self.say_beat(&numbering, ingested_through, signing_off).await?.is_empty() {
            self.counts.heartbeats.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn say_beat(
        &self,
        numbering: &Numbering,
        ingested_through: Option<Wall>,
        signing_off: bool,
    ) -> Result<Vec<usize>, EngineError> {
        let beat = Announcement {
            record_type: String::new(),
            key: String::new(),
            kind: AnnouncementKind::Heartbeat { ingested_through, signing_off },
            numbered: Some(Numbered { publisher: numbering.name.clone(), sequence: numbering.last }),
            ingested_at: None,
        };
        self.publish(vec![encode_json(&beat)]).await
    }

    async fn publish(&self, messages: Vec<String>) -> Result<Vec<usize>, EngineError> {
        self.counts.metrics.publish_calls.inc();
        self.topic.publish(messages).await
    }
}

/// Number of the first messages that fit into one call.
fn fitting(messages: &[(usize, String)]) -> usize {
    let mut bytes = 0;
    messages
        .iter()
        .take(PUBLISH_BATCH)
        .take_while(|message| {
            bytes += message.1.len();
            bytes <= PUBLISH_BYTES
        })
        .count()
        .max(1)
}

/// SNS takes the characters of XML alone. JSON escapes all others but these two, which a key may
/// have.
fn sendable(message: String) -> String {
    if message.contains(['\u{fffe}', '\u{ffff}']) {
        message.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff")
    } else {
        message
    }
}

#[cfg(test)]
mod tests;
