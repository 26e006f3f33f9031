//! How a region announces (docs/publishing.md): every message under the next number, sent again
//! under its number until SNS has it, and nothing after it before that. Heartbeats wait their
//! turn, so trouble with the topic shows as silence, never as a promise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

use super::limits;
use crate::engine::limits::{PUBLISH_BATCH, PUBLISH_BYTES};
use crate::engine::{EngineError, Topic, retry_delay};
use crate::model::time::{Clock, Wall};
use crate::protocol::announcement::encode_json;
use crate::protocol::announcement::message::{Announcement, AnnouncementKind, Numbered};

/// What is said of a record, before it has a number.
#[derive(Clone, PartialEq, Eq)]
pub struct Said {
    pub record_type: String,
    /// Empty with a RELOAD of the type.
    pub key: String,
    pub kind: AnnouncementKind,
}

/// One publisher of a region at a time; its name is new with each start.
pub struct RegionPublisher {
    region: String,
    topic: Arc<dyn Topic>,
    clock: Clock,
    numbering: Mutex<Numbering>,
    pub counts: PublishCounts,
}

/// For metrics.
#[derive(Debug, Default)]
pub struct PublishCounts {
    /// Messages that SNS has taken, heartbeats not counted.
    pub announced: AtomicU64,
    pub heartbeats: AtomicU64,
    /// Calls to SNS, failed ones too.
    pub calls: AtomicU64,
    /// Messages that were sent again.
    pub repeated: AtomicU64,
    /// Names that were given up because a number could not be published.
    pub renamed: AtomicU64,
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

    /// Returns once SNS has all of it, however long that takes. Dropping it leaves a hole in the
    /// numbers, which every sidecar notices.
    pub async fn announce(&self, said: Vec<Said>) {
        for said in said.chunks(PUBLISH_BATCH) {
            // Heartbeats come in between.
            let mut numbering = self.numbering.lock().await;
            while !self.announce_under(&mut numbering, said).await {
                self.counts.renamed.fetch_add(1, Ordering::Relaxed);
                tracing::error!(
                    publisher = numbering.name,
                    "SNS refuses a message: its publisher ends, and another one says it again"
                );
                *numbering = Numbering::new(&self.region);
            }
        }
    }

    /// Whether SNS has all of it.
    async fn announce_under(&self, numbering: &mut Numbering, said: &[Said]) -> bool {
        let ingested_at = self.clock.wall();
        let mut waiting = Vec::with_capacity(said.len());
        for one in said {
            numbering.last += 1;
            waiting.push(encode_json(&Announcement {
                record_type: one.record_type.clone(),
                key: one.key.clone(),
                kind: one.kind,
                numbered: Some(Numbered { publisher: numbering.name.clone(), sequence: numbering.last }),
                ingested_at: Some(ingested_at),
            }));
        }
        let (mut attempts, mut refusals) = (0, 0);
        while !waiting.is_empty() {
            let sent = fitting(&waiting);
            match self.publish(waiting[..sent].to_vec()).await {
                Ok(refused) => {
                    self.counts.announced.fetch_add((sent - refused.len()) as u64, Ordering::Relaxed);
                    let rest = waiting.split_off(sent);
                    let again = waiting.into_iter().enumerate().filter(|(place, _)| refused.contains(place));
                    waiting = again.map(|(_, message)| message).chain(rest).collect();
                    if refused.is_empty() {
                        continue;
                    }
                    refusals += 1;
                }
                Err(error) => {
                    refusals += u32::from(matches!(error, EngineError::Refused { .. }));
                    tracing::warn!(%error, "announcements could not be published; trying again");
                }
            }
            if refusals > limits::PUBLISH_ATTEMPTS {
                return false;
            }
            attempts += 1;
            self.counts.repeated.fetch_add(waiting.len() as u64, Ordering::Relaxed);
            tokio::time::sleep(retry_delay(attempts)).await;
        }
        true
    }

    /// Says that this publisher lives, and through when it has announced everything. One attempt:
    /// the next heartbeat says more.
    pub async fn heartbeat(&self, ingested_through: Option<Wall>) -> Result<(), EngineError> {
        self.beat(ingested_through, false).await
    }

    /// The last message: from now on silence is expected.
    pub async fn sign_off(&self, ingested_through: Option<Wall>) {
        let said = tokio::time::timeout(limits::SIGN_OFF_WAIT, self.beat(ingested_through, true)).await;
        if !matches!(said, Ok(Ok(()))) {
            tracing::warn!("the publisher could not sign off; sidecars notice its silence");
        }
    }

    async fn beat(&self, ingested_through: Option<Wall>, signing_off: bool) -> Result<(), EngineError> {
        let numbering = self.numbering.lock().await;
        let beat = Announcement {
            record_type: String::new(),
            key: String::new(),
            kind: AnnouncementKind::Heartbeat { ingested_through, signing_off },
            numbered: Some(Numbered { publisher: numbering.name.clone(), sequence: numbering.last }),
            ingested_at: None,
        };
        let refused = self.publish(vec![encode_json(&beat)]).await?;
        if refused.is_empty() {
            self.counts.heartbeats.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn publish(&self, messages: Vec<String>) -> Result<Vec<usize>, EngineError> {
        self.counts.calls.fetch_add(1, Ordering::Relaxed);
        self.topic.publish(messages).await
    }
}

/// How many of the first messages fit into one call.
fn fitting(messages: &[String]) -> usize {
    let mut bytes = 0;
    let fits = |message: &&String| {
        bytes += message.len();
        bytes <= PUBLISH_BYTES
    };
    messages.iter().take(PUBLISH_BATCH).take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests;
