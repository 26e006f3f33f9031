//! The changes of a streamed table, out of Kinesis: shards, and a stream of batches for each.
//!
//! Shards are pushed (enhanced fan-out), so that the regions do not compete for the five reads a
//! second that a shard allows. An emulator that cannot push well is polled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_kinesis::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_kinesis::types::{ChildShard, Record};
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, BoxStream, StreamExt};

use super::super::{Change, EngineError, Feed, FeedBatch, FeedShard, Position, ShardId, Stream};
use super::change::decode;
use super::errors::Asked;
use super::stream_name;
use crate::aws::engine_clients::EngineClients;
use crate::model::time::Clock;
use crate::telemetry::rate_limiter::RateLimiter;
use fan_out::Subscription;
use polling::Poll;
use start::Start;

mod fan_out;
mod polling;
mod progress;
mod start;

/// How shards are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardReading {
    /// Enhanced fan-out, under a consumer of this name, which is registered when it is missing.
    /// Each reader of the stream needs a name of its own.
    FanOut { consumer: String },
    /// For emulators: all readers of a shard share five reads a second.
    Polling,
}

/// One stream; clones share their connections and count together.
#[derive(Clone)]
pub struct KinesisFeed {
    shared: Arc<Shared>,
}

struct Shared {
    clients: EngineClients,
    name: String,
    reading: ShardReading,
    clock: Clock,
    skipped: AtomicU64,
    skipped_lines: RateLimiter,
}

/// What there is to know of a stream before it is read.
struct StreamFacts {
    arn: String,
    retention: Duration,
}

impl KinesisFeed {
    pub fn new(clients: EngineClients, prefix: &str, stream: Stream, reading: ShardReading, clock: Clock) -> Self {
        let name = stream_name(prefix, stream);
        let (skipped, skipped_lines) = (AtomicU64::new(0), RateLimiter::new());
        Self { shared: Arc::new(Shared { clients, name, reading, clock, skipped, skipped_lines }) }
    }

    /// How many records were no changes of ours, and were passed over.
    pub fn skipped(&self) -> u64 {
        self.shared.skipped.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn asked(&self, action: &'static str) -> Asked<'_> {
        Asked { action, resource: &self.name }
    }

    async fn list_shards(&self) -> Result<Vec<FeedShard>, EngineError> {
        let asked = self.asked("kinesis:ListShards");
        let mut shards: Vec<FeedShard> = Vec::new();
        let mut call = self.clients.kinesis.list_shards().stream_name(&self.name);
        loop {
            let page = call.send().await.map_err(|error| asked.failed(&error))?;
            shards.extend(page.shards.into_iter().flatten().map(|shard| FeedShard {
                id: ShardId(shard.shard_id),
                parents:
                    shard.parent_shard_id.into_iter().chain(shard.adjacent_parent_shard_id).map(ShardId).collect(),
            }));
            match page.next_token {
                // A page after the first is asked for by its token alone.
                Some(token) => call = self.clients.kinesis.list_shards().next_token(token),
                None => break,
            }
        }
        let existing: Vec<ShardId> = shards.iter().map(|shard| shard.id.clone()).collect();
        for shard in &mut shards {
            shard.parents.retain(|parent| existing.contains(parent));
        }
        Ok(shards)
    }

    async fn facts(&self) -> Result<StreamFacts, EngineError> {
        let asked = self.asked("kinesis:DescribeStreamSummary");
        let answer = self.clients.kinesis.describe_stream_summary().stream_name(&self.name).send().await;
        let answer = answer.map_err(|error| asked.failed(&error))?;
        let summary = answer.stream_description_summary.ok_or_else(|| asked.unavailable("an empty answer"))?;
        let hours = u64::try_from(summary.retention_period_hours).unwrap_or_default();
        Ok(StreamFacts { arn: summary.stream_arn, retention: Duration::from_hours(hours) })
    }

    /// Kinesis itself is silent about a position that is too old: it goes on with what it still
    /// has, or with nothing. So it is this that says so.
    fn start(&self, from: &Position, facts: &StreamFacts) -> Result<Start, EngineError> {
        let asked = self.asked("kinesis:GetRecords");
        let start = Start::of(from).ok_or_else(|| asked.refused("a position that it never gave"))?;
        match start.is_trimmed(self.clock.wall(), facts.retention) {
            true => Err(self.trimmed()),
            false => Ok(start),
        }
    }

    fn trimmed(&self) -> EngineError {
        EngineError::Trimmed { what: self.name.clone() }
    }

    /// What it means that a shard cannot be opened.
    fn not_opened<E, R>(&self, action: &'static str, error: &SdkError<E, R>) -> EngineError
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
        R: std::fmt::Debug + 'static,
    {
        let service = error.as_service_error();
        let said = service.and_then(|error| error.message()).unwrap_or_default();
        match service.and_then(|error| error.code()) {
            // The stream was found just before: it is the shard that has gone, with all it held.
            Some("ResourceNotFoundException") if said.starts_with("Shard ") => self.trimmed(),
            // A sequence number of another stream of this name: that one was deleted.
            Some("InvalidArgumentException") if said.contains("SequenceNumber") => self.trimmed(),
            _ => self.asked(action).failed(error),
        }
    }

    fn changes(&self, records: &[Record]) -> Vec<Change> {
        records.iter().filter_map(|record| self.change(record.data.as_ref())).collect()
    }

    fn change(&self, data: &[u8]) -> Option<Change> {
        let change = decode(data);
        if change.is_none() {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            if let Some(left_out) = self.skipped_lines.take(self.clock.now()) {
                let bytes = data.len();
                tracing::warn!(stream = self.name, bytes, left_out, "a record that is no change of ours was skipped");
            }
        }
        change
    }
}

fn children(shards: Vec<ChildShard>) -> Vec<FeedShard> {
    let child = |shard: ChildShard| FeedShard {
        id: ShardId(shard.shard_id),
        parents: shard.parent_shards.into_iter().map(ShardId).collect(),
    };
    shards.into_iter().map(child).collect()
}

/// A shard being read, one way or the other.
enum Reader {
    Unopened { shard: ShardId, from: Position },
    Pushed(Box<Subscription>),
    Polled(Box<Poll>),
    Ended,
}

impl Reader {
    async fn next(mut self, shared: &Arc<Shared>) -> Option<(Result<FeedBatch, EngineError>, Self)> {
        if let Self::Unopened { shard, from } = self {
            let opened = match &shared.reading {
                ShardReading::FanOut { consumer } => Subscription::open(shared, consumer, shard, &from)
                    .await
                    .map(|subscription| Self::Pushed(Box::new(subscription))),
                ShardReading::Polling => {
                    Poll::open(shared, shard, &from).await.map(|poll| Self::Polled(Box::new(poll)))
                }
            };
            self = match opened {
                Ok(opened) => opened,
                Err(error) => return Some((Err(error), Self::Ended)),
            };
        }
        let batch = match &mut self {
            Self::Pushed(subscription) => subscription.next().await?,
            Self::Polled(poll) => poll.next().await,
            Self::Unopened { .. } | Self::Ended => return None,
        };
        let is_last = batch.as_ref().map_or(true, |batch| batch.ended.is_some());
        Some((batch, if is_last { Self::Ended } else { self }))
    }
}

impl Feed for KinesisFeed {
    fn shards(&self) -> BoxFuture<'_, Result<Vec<FeedShard>, EngineError>> {
        self.shared.list_shards().boxed()
    }

    fn open(&self, shard: &ShardId, from: Position) -> BoxStream<'static, Result<FeedBatch, EngineError>> {
        let reader = Reader::Unopened { shard: shard.clone(), from };
        stream::unfold((self.shared.clone(), reader), |(shared, reader)| async move {
            let (batch, reader) = reader.next(&shared).await?;
            Some((batch, (shared, reader)))
        })
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_kinesis::error::ErrorMetadata;
    use aws_sdk_kinesis::operation::subscribe_to_shard::SubscribeToShardError;
    use aws_sdk_kinesis::primitives::Blob;
    use aws_sdk_kinesis::types::HashKeyRange;

    use super::*;
    use crate::aws::clients::tests::nowhere;

    pub(super) const SHARD: &str = "shardId-000000000000";

    /// What never calls.
    pub(super) async fn feed() -> KinesisFeed {
        let clients = nowhere().engine_clients("eu-west-1").await;
        KinesisFeed::new(clients, "p", Stream::Changes, ShardReading::Polling, Clock::System)
    }

    pub(super) fn change() -> &'static [u8] {
        br#"{"eventName":"REMOVE","dynamodb":{"ApproximateCreationDateTime":1640276115236,
            "Keys":{"p":{"S":"t#00"},"s":{"S":"k"}}}}"#
    }

    pub(super) fn given(data: &[u8]) -> Record {
        Record::builder().sequence_number("7").partition_key("p").data(Blob::new(data)).build().unwrap()
    }

    pub(super) fn child() -> ChildShard {
        let range = HashKeyRange::builder().starting_hash_key("0").ending_hash_key("1").build().unwrap();
        ChildShard::builder().shard_id("c").parent_shards(SHARD).hash_key_range(range).build().unwrap()
    }

    #[tokio::test]
    async fn a_feed_that_cannot_be_reached_says_what_was_asked_and_ends() {
        let feed = feed().await;
        let mut batches = feed.open(&ShardId(SHARD.to_owned()), Position::Oldest);
        let error = batches.next().await.unwrap().unwrap_err();
        assert!(error.is_transient(), "{error}");
        assert!(error.to_string().starts_with("kinesis:DescribeStreamSummary on p-changes: "), "{error}");
        assert!(batches.next().await.is_none());
    }

    #[tokio::test]
    async fn a_shard_that_has_gone_and_a_number_of_another_stream_are_trimmed_positions() {
        let shared = feed().await.shared;
        let word = |code: &str, message: &str| {
            let error = ErrorMetadata::builder().code(code).message(message).build();
            let error = SdkError::service_error(SubscribeToShardError::generic(error), ());
            shared.not_opened("kinesis:SubscribeToShard", &error).word()
        };
        let (gone, invalid) = ("ResourceNotFoundException", "InvalidArgumentException");
        assert_eq!(
            word(gone, "Shard shardId-000000000009 in stream p-changes under account 1 does not exist"),
            "trimmed"
        );
        assert_eq!(word(gone, "Stream p-changes under account 1 not found."), "missing");
        let number = "StartingSequenceNumber 4 used in GetShardIterator on shard shardId-000000000000 in stream \
                      p-changes under account 1 is invalid because it did not come from this stream.";
        assert_eq!(word(invalid, number), "trimmed");
        assert_eq!(word(invalid, "The timestampInMillis parameter cannot be greater than the current"), "refused");
        assert_eq!(word("ResourceInUseException", "another subscription is active"), "unavailable");
    }
}
