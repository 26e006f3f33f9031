//! A shard that is pushed: enhanced fan-out under a registered consumer. Kinesis ends a
//! subscription after five minutes; the stream ends with it, and its reader opens the next.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_kinesis::operation::subscribe_to_shard::SubscribeToShardOutput;
use aws_sdk_kinesis::types::{
    ConsumerStatus, ShardIteratorType, StartingPosition, SubscribeToShardEvent, SubscribeToShardEventStream,
};

use super::progress::Progress;
use super::shared::{Shared, StreamFacts, children};
use super::start::{self, Start};
use crate::engine::{Change, EngineError, FeedBatch, FeedShard, Position, ShardId, limits};
use crate::model::time::{Moment, Wall};

const SUBSCRIBE: &str = "kinesis:SubscribeToShard";

pub(super) struct Subscription {
    /// Its event stream, whose type cannot be named.
    answer: SubscribeToShardOutput,
    reached: Reached,
}

/// Progress of a subscription.
struct Reached {
    shared: Arc<Shared>,
    progress: Progress,
    place: Start,
}

impl Subscription {
    pub(super) async fn open(
        shared: &Arc<Shared>,
        consumer: &str,
        shard: ShardId,
        from: &Position,
    ) -> Result<Self, EngineError> {
        let facts = shared.facts().await?;
        let place = shared.start(from, &facts)?;
        let consumer = consumer_arn(shared, consumer, &facts).await?;
        let now = shared.clock.now();
        let call = shared.clients.subscriptions.subscribe_to_shard().consumer_arn(consumer).shard_id(shard.0);
        let call = call.starting_position(starting_position(shared, &place)?);
        // It returns with the first event.
        let answer = tokio::time::timeout(limits::SUBSCRIBE_WAIT, call.send()).await;
        let answer = answer.map_err(|_| shared.asked(SUBSCRIBE).unavailable("no event in time"))?;
        let answer = answer.map_err(|error| shared.not_opened(SUBSCRIBE, &error))?;
        let progress = Progress::subscribing(now, place.through());
        Ok(Self { answer, reached: Reached { shared: shared.clone(), progress, place } })
    }

    /// `None` at the subscription's end.
    pub(super) async fn next(&mut self) -> Option<Result<FeedBatch, EngineError>> {
        let shared = self.reached.shared.clone();
        let asked = shared.asked(SUBSCRIBE);
        let began = shared.clock.now();
        self.reached.progress.waits(began);
        loop {
            let event = tokio::select! {
                biased;
                // Dropping this call loses nothing: it takes an event out of the stream in one step.
                event = self.answer.event_stream.recv() => event,
                () = tokio::time::sleep(limits::QUIET) => {
                    let now = shared.clock.now();
                    self.reached.progress.nothing_came(now);
                    if self.reached.progress.is_dead() {
                        return Some(Err(asked.unavailable("the subscription has gone silent")));
                    }
                    if now.since(began) >= limits::FEED_IDLE {
                        return Some(Ok(self.reached.batch(Vec::new(), None)));
                    }
                    continue;
                }
            };
            return match event {
                Ok(Some(SubscribeToShardEventStream::SubscribeToShardEvent(event))) => {
                    let (now, wall) = (shared.clock.now(), shared.clock.wall());
                    Some(Ok(self.reached.came(event, now, wall)))
                }
                Ok(Some(_)) => continue,
                Ok(None) => None,
                Err(error) => Some(Err(asked.failed(&error))),
            };
        }
    }
}

impl Reached {
    fn came(&mut self, event: SubscribeToShardEvent, now: Moment, wall: Wall) -> FeedBatch {
        let behind = Duration::from_millis(event.millis_behind_latest.try_into().unwrap_or(0));
        let newest = event.records.last().and_then(|record| record.approximate_arrival_timestamp);
        let newest = newest.and_then(|time| time.to_millis().ok()?.try_into().ok()).map(Wall::from_millis);
        let through = self.progress.came(now, wall, behind, newest);
        self.place = self.place.moved(Some(&event.continuation_sequence_number), through);
        let ended = event.child_shards.filter(|shards| !shards.is_empty()).map(children);
        let changes = self.shared.changes(&event.records);
        self.batch(changes, ended)
    }

    fn batch(&self, changes: Vec<Change>, ended: Option<Vec<FeedShard>>) -> FeedBatch {
        // From the oldest on, nothing is known before the first event.
        let through = Some(self.progress.through()).filter(|through| *through > Wall::default());
        FeedBatch { changes, next: self.place.position(), through, ended }
    }
}

fn starting_position(shared: &Shared, start: &Start) -> Result<StartingPosition, EngineError> {
    let position = StartingPosition::builder();
    match start {
        Start::RegionViews => position.r#type(ShardIteratorType::TrimHorizon),
        Start::At(wall) => position.r#type(ShardIteratorType::AtTimestamp).timestamp(start::date_time(*wall)),
        Start::After { sequence, .. } => {
            position.r#type(ShardIteratorType::AfterSequenceNumber).sequence_number(sequence)
        }
    }
    .build()
    .map_err(|_| shared.asked(SUBSCRIBE).refused("a position without a type"))
}

/// The consumer's ARN, once it is active; it is registered when it is missing.
async fn consumer_arn(shared: &Shared, consumer: &str, facts: &StreamFacts) -> Result<String, EngineError> {
    let kinesis = &shared.clients.kinesis;
    let asked = shared.asked("kinesis:DescribeStreamConsumer");
    let registering = shared.asked("kinesis:RegisterStreamConsumer");
    let deadline = shared.clock.now() + limits::CREATE_WAIT;
    while shared.clock.now() < deadline {
        let call = kinesis.describe_stream_consumer().stream_arn(&facts.arn).consumer_name(consumer);
        match call.send().await {
            Ok(answer) => {
                let found = answer.consumer_description.ok_or_else(|| asked.unavailable("an empty answer"))?;
                if found.consumer_status == ConsumerStatus::Active {
                    return Ok(found.consumer_arn);
                }
            }
            Err(error) => match asked.failed(&error) {
                EngineError::Missing { .. } => {
                    let call = kinesis.register_stream_consumer().stream_arn(&facts.arn).consumer_name(consumer);
                    call.send().await.map_err(|error| registering.failed(&error))?;
                }
                error => return Err(error),
            },
        }
        tokio::time::sleep(limits::CREATE_LOOK).await;
    }
    Err(registering.unavailable("the consumer does not become active"))
}

#[cfg(test)]
mod tests {
    use aws_sdk_kinesis::types::ChildShard;

    use super::super::tests::{SHARD, change, child, feed, given};
    use super::*;

    fn event() -> aws_sdk_kinesis::types::builders::SubscribeToShardEventBuilder {
        SubscribeToShardEvent::builder().set_records(Some(Vec::new())).continuation_sequence_number("12")
    }

    async fn reached() -> Reached {
        let progress = Progress::subscribing(Moment::from_nanos(5_000_000_000), Wall::from_millis(0));
        Reached { shared: feed().await.shared, progress, place: Start::RegionViews }
    }

    #[tokio::test]
    async fn event_yields_changes_and_next_position() {
        let event = event().millis_behind_latest(0).records(given(b"?")).records(given(change())).build().unwrap();
        let mut reached = reached().await;
        let batch = reached.came(event, Moment::from_nanos(6_000_000_000), Wall::from_millis(6_000));
        assert_eq!((batch.changes.len(), batch.ended), (1, None));
        assert_eq!(
            (batch.next, batch.through),
            (Position::After("12@4000".to_owned()), Some(Wall::from_millis(4_000)))
        );
        assert_eq!(reached.shared.skipped.load(std::sync::atomic::Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn last_event_names_child_shards() {
        let last = event().millis_behind_latest(0).set_child_shards(Some(vec![child()])).build().unwrap();
        let ended = reached().await.came(last, Moment::ZERO, Wall::from_millis(0)).ended;
        assert_eq!(
            ended,
            Some(vec![FeedShard { id: ShardId("c".to_owned()), parents: vec![ShardId(SHARD.to_owned())] }])
        );
        let none: Option<Vec<ChildShard>> = Some(Vec::new());
        let other = event().millis_behind_latest(0).set_child_shards(none).build().unwrap();
        assert_eq!(reached().await.came(other, Moment::ZERO, Wall::from_millis(0)).ended, None);
    }
}
