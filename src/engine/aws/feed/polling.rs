//! A shard that is polled: for endpoints that cannot push.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_kinesis::operation::get_records::GetRecordsOutput;
use aws_sdk_kinesis::types::ShardIteratorType;

use super::progress;
use super::shared::{Shared, children};
use super::start::{self, Start};
use crate::engine::{EngineError, FeedBatch, Position, ShardId, limits};
use crate::model::time::Wall;

pub(super) struct Poll {
    shared: Arc<Shared>,
    iterator: String,
    reached: Start,
    /// True once a read has taken place: then the next one waits.
    has_read: bool,
}

impl Poll {
    pub(super) async fn open(shared: &Arc<Shared>, shard: ShardId, from: &Position) -> Result<Self, EngineError> {
        let start = shared.start(from, &shared.facts().await?)?;
        let call = shared.clients.kinesis.get_shard_iterator().stream_name(&shared.name).shard_id(shard.0);
        let call = match &start {
            Start::RegionViews => call.shard_iterator_type(ShardIteratorType::TrimHorizon),
            Start::At(wall) => {
                call.shard_iterator_type(ShardIteratorType::AtTimestamp).timestamp(start::date_time(*wall))
            }
            Start::After { sequence, .. } => {
                call.shard_iterator_type(ShardIteratorType::AfterSequenceNumber).starting_sequence_number(sequence)
            }
        };
        let action = "kinesis:GetShardIterator";
        let answer = call.send().await.map_err(|error| shared.not_opened(action, &error))?;
        let iterator = answer.shard_iterator.ok_or_else(|| shared.asked(action).unavailable("an empty answer"))?;
        Ok(Self { shared: shared.clone(), iterator, reached: start, has_read: false })
    }

    pub(super) async fn next(&mut self) -> Result<FeedBatch, EngineError> {
        if self.has_read {
            tokio::time::sleep(limits::POLL_EVERY).await;
        }
        self.has_read = true;
        let sent = self.shared.clock.wall();
        let call = self.shared.clients.kinesis.get_records().shard_iterator(&self.iterator);
        let asked = self.shared.asked("kinesis:GetRecords");
        let read = call.limit(limits::POLL_RECORDS).send().await.map_err(|error| asked.failed(&error))?;
        Ok(self.came(read, sent))
    }

    fn came(&mut self, read: GetRecordsOutput, sent: Wall) -> FeedBatch {
        // Who does not know how far behind it is claims nothing.
        let behind = read.millis_behind_latest.and_then(|behind| behind.try_into().ok()).map(Duration::from_millis);
        let through = behind.map(|behind| progress::read(sent, behind));
        let last = read.records.last().map(|record| record.sequence_number.as_str());
        self.reached = self.reached.moved(last, through.unwrap_or_else(|| self.reached.through()));
        let changes = self.shared.changes(&read.records);
        // Without an iterator, nothing follows.
        let ended = match read.next_shard_iterator {
            Some(iterator) => {
                self.iterator = iterator;
                None
            }
            None => Some(children(read.child_shards.unwrap_or_default())),
        };
        FeedBatch { changes, next: self.reached.position(), through, ended }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::super::FeedShard;
    use super::super::tests::{SHARD, change, child, feed, given};
    use super::*;

    async fn poll() -> Poll {
        let shared = feed().await.shared;
        Poll { shared, iterator: "first".to_owned(), reached: Start::RegionViews, has_read: false }
    }

    #[tokio::test]
    async fn read_yields_changes_and_next_position() {
        let read = GetRecordsOutput::builder().records(given(b"?")).records(given(change()));
        let read = read.millis_behind_latest(2_000).next_shard_iterator("next").build().unwrap();
        let mut poll = poll().await;
        let batch = poll.came(read, Wall::from_millis(10_000));
        assert_eq!((batch.changes.len(), batch.ended), (1, None));
        assert_eq!(
            (batch.next, batch.through),
            (Position::After("7@7000".to_owned()), Some(Wall::from_millis(7_000)))
        );
        assert_eq!(poll.iterator, "next");
    }

    #[tokio::test]
    async fn empty_reads_advance_applied_time() {
        let read = GetRecordsOutput::builder().set_records(Some(Vec::new())).next_shard_iterator("next");
        let read = read.millis_behind_latest(0).build().unwrap();
        let batch = poll().await.came(read, Wall::from_millis(10_000));
        let through = Wall::from_millis(9_000);
        assert_eq!((batch.next, batch.through), (Position::At(through), Some(through)));
    }

    #[tokio::test]
    async fn read_without_lag_claims_no_time() {
        let read = GetRecordsOutput::builder().records(given(change())).next_shard_iterator("next");
        let mut poll = poll().await;
        let known = poll.came(read.clone().millis_behind_latest(0).build().unwrap(), Wall::from_millis(10_000));
        assert_eq!(known.through, Some(Wall::from_millis(9_000)));
        let batch = poll.came(read.build().unwrap(), Wall::from_millis(20_000));
        assert_eq!((batch.next, batch.through), (Position::After("7@9000".to_owned()), None));
    }

    #[tokio::test]
    async fn last_read_names_child_shards() {
        let read = GetRecordsOutput::builder().set_records(Some(Vec::new())).child_shards(child()).build().unwrap();
        let ended = poll().await.came(read, Wall::from_millis(0)).ended;
        assert_eq!(
            ended,
            Some(vec![FeedShard { id: ShardId("c".to_owned()), parents: vec![ShardId(SHARD.to_owned())] }])
        );
    }
}
