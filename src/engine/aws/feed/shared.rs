//! A stream in Kinesis, as all readers of its shards share it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_kinesis::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_kinesis::types::{ChildShard, Record};

use super::start::Start;
use crate::aws::engine_clients::EngineClients;
use crate::engine::aws::change::decode;
use crate::engine::aws::errors::Asked;
use crate::engine::{Change, EngineError, FeedShard, Position, ShardId};
use crate::model::time::Clock;
use crate::telemetry::rate_limiter::RateLimiter;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardReading {
    /// Enhanced fan-out, under a consumer of this name, which is registered when it is missing.
    /// Each reader of the stream needs a name of its own.
    FanOut { consumer: String },
    /// For emulators: all readers of a shard share five reads a second.
    Polling,
}

pub(super) struct Shared {
    pub(super) clients: EngineClients,
    pub(super) name: String,
    pub(super) reading: ShardReading,
    pub(super) clock: Clock,
    pub(super) skipped: AtomicU64,
    pub(super) skipped_lines: RateLimiter,
}

/// Facts about a stream, gathered before it is read.
pub(super) struct StreamFacts {
    pub(super) arn: String,
    pub(super) retention: Duration,
}

impl Shared {
    pub(super) fn asked(&self, action: &'static str) -> Asked<'_> {
        Asked { action, resource: &self.name }
    }

    pub(super) async fn list_shards(&self) -> Result<Vec<FeedShard>, EngineError> {
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

    pub(super) async fn facts(&self) -> Result<StreamFacts, EngineError> {
        let asked = self.asked("kinesis:DescribeStreamSummary");
        let answer = self.clients.kinesis.describe_stream_summary().stream_name(&self.name).send().await;
        let answer = answer.map_err(|error| asked.failed(&error))?;
        let summary = answer.stream_description_summary.ok_or_else(|| asked.unavailable("an empty answer"))?;
        let hours = u64::try_from(summary.retention_period_hours).unwrap_or_default();
        Ok(StreamFacts { arn: summary.stream_arn, retention: Duration::from_hours(hours) })
    }

    /// Kinesis itself is silent about a position that is too old: it goes on with what it still
    /// has, or with nothing. So it is this that says so.
    pub(super) fn start(&self, from: &Position, facts: &StreamFacts) -> Result<Start, EngineError> {
        let asked = self.asked("kinesis:GetRecords");
        let start = Start::of(from).ok_or_else(|| asked.refused("a position that it never gave"))?;
        if start.is_trimmed(self.clock.wall(), facts.retention) { Err(self.trimmed()) } else { Ok(start) }
    }

    pub(super) fn trimmed(&self) -> EngineError {
        EngineError::Trimmed { what: self.name.clone() }
    }

    /// Error for a shard that cannot be opened.
    pub(super) fn not_opened<E, R>(&self, action: &'static str, error: &SdkError<E, R>) -> EngineError
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

    pub(super) fn changes(&self, records: &[Record]) -> Vec<Change> {
        records.iter().filter_map(|record| self.change(record.data.as_ref())).collect()
    }

    pub(super) fn change(&self, data: &[u8]) -> Option<Change> {
        let change = decode(data);
        if change.is_none() {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            if let Some(suppressed) = self.skipped_lines.admit(self.clock.now()) {
                let bytes = data.len();
                tracing::warn!(
                    stream = self.name,
                    bytes,
                    suppressed,
                    "a record that is no change of ours was skipped"
                );
            }
        }
        change
    }
}

pub(super) fn children(shards: Vec<ChildShard>) -> Vec<FeedShard> {
    shards
        .into_iter()
        .map(|shard| FeedShard {
            id: ShardId(shard.shard_id),
            parents: shard.parent_shards.into_iter().map(ShardId).collect(),
        })
        .collect()
}
