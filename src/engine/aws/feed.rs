//! The changes of a streamed table, out of Kinesis: shards, and a stream of batches for each.
//!
//! Shards are pushed (enhanced fan-out), so that the regions do not compete for the five reads a
//! second that a shard allows. An emulator that cannot push well is polled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, BoxStream, StreamExt};

use super::super::{EngineError, Feed, FeedBatch, FeedShard, Position, ShardId, Stream};
use super::names::stream_name;
use crate::aws::engine_clients::EngineClients;
use crate::model::time::Clock;
use crate::telemetry::rate_limiter::RateLimiter;
use fan_out::Subscription;
use polling::Poll;
use shared::Shared;

mod fan_out;
mod polling;
mod progress;
mod shared;
mod start;

pub use shared::ShardReading;

/// One stream; clones share their connections and count together.
#[derive(Clone)]
pub struct KinesisFeed {
    shared: Arc<Shared>,
}

impl KinesisFeed {
    pub fn new(clients: EngineClients, prefix: &str, stream: Stream, reading: ShardReading, clock: Clock) -> Self {
        let name = stream_name(prefix, stream);
        let (skipped, skipped_lines) = (AtomicU64::new(0), RateLimiter::new());
        Self { shared: Arc::new(Shared { clients, name, reading, clock, skipped, skipped_lines }) }
    }

    /// Number of records that were no changes of ours and were skipped.
    pub fn skipped(&self) -> u64 {
        self.shared.skipped.load(Ordering::Relaxed)
    }
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
    use aws_sdk_kinesis::error::{ErrorMetadata, SdkError};
    use aws_sdk_kinesis::operation::subscribe_to_shard::SubscribeToShardError;
    use aws_sdk_kinesis::primitives::Blob;
    use aws_sdk_kinesis::types::{ChildShard, HashKeyRange, Record};

    use super::*;
    use crate::aws::clients::tests::nowhere;

    pub(super) const SHARD: &str = "shardId-000000000000";

    /// A feed that never calls.
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
    async fn unreachable_feed_names_call_and_ends() {
        let feed = feed().await;
        let mut batches = feed.open(&ShardId(SHARD.to_owned()), Position::Oldest);
        let error = batches.next().await.unwrap().unwrap_err();
        assert!(error.is_transient(), "{error}");
        assert!(error.to_string().starts_with("kinesis:DescribeStreamSummary on p-changes: "), "{error}");
        assert!(batches.next().await.is_none());
    }

    #[tokio::test]
    async fn unknown_shard_or_number_is_trimmed() {
        let shared = feed().await.shared;
        let (gone, invalid) = ("ResourceNotFoundException", "InvalidArgumentException");
        let number = "StartingSequenceNumber 4 used in GetShardIterator on shard shardId-000000000000 in stream \
                      p-changes under account 1 is invalid because it did not come from this stream.";
        for (code, message, word) in [
            (gone, "Shard shardId-000000000009 in stream p-changes under account 1 does not exist", "trimmed"),
            (gone, "Stream p-changes under account 1 not found.", "missing"),
            (invalid, number, "trimmed"),
            (invalid, "The timestampInMillis parameter cannot be greater than the current", "refused"),
            ("ResourceInUseException", "another subscription is active", "unavailable"),
        ] {
            let error = ErrorMetadata::builder().code(code).message(message).build();
            let error = SdkError::service_error(SubscribeToShardError::generic(error), ());
            assert_eq!(shared.not_opened("kinesis:SubscribeToShard", &error).into_str(), word, "{message}");
        }
    }
}
