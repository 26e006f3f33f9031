//! The services' engine on AWS, against the emulator: DynamoDB, its streaming to Kinesis read in
//! both ways, SNS. What every engine has to do is the contract's; here is what only this one has.

use std::sync::Mutex;

use futures_util::stream::StreamExt;
use nearside::aws::engine_clients::EngineClients;
use nearside::config::TopicArn;
use nearside::engine::aws::create::{Creation, OnReady};
use nearside::engine::aws::{DynamoTables, KinesisFeed, ShardReading, SnsTopic};
use nearside::engine::{
    Condition, EngineError, Feed, FeedBatch, Item, ItemKey, ItemWrite, Position, ScanSegment, ShardId, Stream, Table,
    Tables, Topic, WriteError,
};
use nearside::model::time::{Clock, Wall};

use super::emulator::{Emulator, REGIONS};

#[path = "../../src/engine/contract.rs"]
mod contract;

/// The emulator finds a subscription's stream only among the first ten of a region.
const POLLED: &str = REGIONS[0];
const PUSHED: &str = REGIONS[1];

/// A place of this test's own.
struct Place {
    clients: EngineClients,
    prefix: &'static str,
}

impl Place {
    async fn of(prefix: &'static str, region: &str) -> Self {
        let clients = Emulator::shared().sdk().engine_clients(region).await;
        Self { clients, prefix }
    }

    /// With its home tables and streams.
    async fn created(prefix: &'static str, region: &str) -> Self {
        let place = Self::of(prefix, region).await;
        place.creation(&|_, _| {}).home(Some(1)).await.unwrap();
        place
    }

    fn creation<'a>(&'a self, on_ready: &'a OnReady<'a>) -> Creation<'a> {
        Creation { clients: &self.clients, prefix: self.prefix, clock: Clock::System, on_ready }
    }

    /// Topic in the emulator's account.
    fn topic(&self) -> TopicArn {
        format!("arn:aws:sns:{POLLED}:000000000000:{}-announcements", self.prefix).parse().unwrap()
    }

    fn tables(&self) -> DynamoTables {
        DynamoTables::new(self.clients.clone(), self.prefix)
    }

    fn feed(&self, reading: ShardReading) -> KinesisFeed {
        KinesisFeed::new(self.clients.clone(), self.prefix, Stream::Changes, reading, Clock::System)
    }

    async fn put(&self, version: u64) {
        let item = Item::new(ItemKey::new("t#00", "k"), version);
        self.tables().write(vec![ItemWrite::Put(Table::Records, item, Condition::Any)]).await.unwrap();
    }

    fn stream_name(&self) -> String {
        nearside::engine::aws::stream_name(self.prefix, Stream::Changes)
    }
}

fn fan_out() -> ShardReading {
    ShardReading::FanOut { consumer: "tests".to_owned() }
}

/// The next batch that is not empty.
async fn batch(feed: &KinesisFeed, shard: &ShardId, from: Position) -> FeedBatch {
    let mut batches = feed.open(shard, from);
    loop {
        let batch = batches.next().await.unwrap().unwrap();
        if !batch.changes.is_empty() {
            return batch;
        }
    }
}

#[tokio::test]
async fn dynamodb_keeps_the_contract_of_stores() {
    let place = Place::created("stores", POLLED).await;
    contract::store(&place.tables()).await;
}

#[tokio::test]
async fn kinesis_polling_keeps_feed_contract() {
    let place = Place::created("polled", POLLED).await;
    contract::feed(&place.tables(), &place.feed(ShardReading::Polling)).await;
}

#[tokio::test]
async fn kinesis_push_keeps_feed_contract() {
    let place = Place::created("pushed", PUSHED).await;
    contract::feed(&place.tables(), &place.feed(fan_out())).await;
}

#[tokio::test]
async fn repeated_creation_changes_nothing() {
    let place = Place::of("twice", POLLED).await;
    let ready = Mutex::new(Vec::new());
    let on_ready = |what: &str, was_there: bool| ready.lock().unwrap().push((what.to_owned(), was_there));
    let topic = place.topic();
    place.creation(&on_ready).home(None).await.unwrap();
    place.creation(&on_ready).region().await.unwrap();
    place.creation(&on_ready).topic(&topic).await.unwrap();
    let first = std::mem::take(&mut *ready.lock().unwrap());
    place.put(1).await;
    place.creation(&on_ready).home(None).await.unwrap();
    place.creation(&on_ready).region().await.unwrap();
    place.creation(&on_ready).topic(&topic).await.unwrap();
    let second = ready.into_inner().unwrap();
    assert_eq!(
        first.len(),
        6 + 2 + 2 * 2 + 2 + 1,
        "tables, time to live, streams, a region's tables, a topic: {first:?}"
    );
    assert!(first.iter().all(|(_, was_there)| !was_there), "{first:?}");
    let there: Vec<_> = first.into_iter().map(|(what, _)| (what, true)).collect();
    assert_eq!(second, there);
    let kept = place.tables().get(Table::Records, &ItemKey::new("t#00", "k")).await.unwrap();
    assert_eq!(kept.map(|item| item.version), Some(1));
}

#[tokio::test]
async fn reads_shard_from_time_or_entry() {
    let place = Place::created("positions", PUSHED).await;
    let before = Wall::from_millis(Clock::System.wall().as_millis() - 60_000);
    for reading in [ShardReading::Polling, fan_out()] {
        let feed = place.feed(reading);
        let shard = feed.shards().await.unwrap().remove(0).id;
        place.put(1).await;
        let first = batch(&feed, &shard, Position::At(before)).await;
        let versions: Vec<u64> = first.changes.iter().filter_map(|it| Some(it.item.as_ref()?.version)).collect();
        assert_eq!(versions.first(), Some(&1));
        place.put(2).await;
        let second = batch(&feed, &shard, first.next).await;
        assert_eq!(second.changes[0].item.as_ref().unwrap().version, 2, "nothing comes twice");
        assert_eq!(second.changes.len(), 1);
    }
}

#[tokio::test]
async fn trimmed_position_is_reported() {
    let place = Place::created("trimmed", PUSHED).await;
    let day_ago = Clock::System.wall().as_millis() - 24 * 3_600_000;
    for reading in [ShardReading::Polling, fan_out()] {
        let feed = place.feed(reading);
        let shard = feed.shards().await.unwrap().remove(0).id;
        for from in [Position::After(format!("7@{day_ago}")), Position::At(Wall::from_millis(day_ago))] {
            let mut batches = feed.open(&shard, from.clone());
            let first = batches.next().await.unwrap();
            assert!(matches!(first, Err(EngineError::Trimmed { .. })), "{from:?}: {first:?}");
            assert!(batches.next().await.is_none(), "it ends after an error");
        }
        let first = feed.open(&shard, Position::After("made up".to_owned())).next().await.unwrap();
        assert!(matches!(first, Err(EngineError::Refused { .. })), "{first:?}");
    }
    // A subscription to such a shard is an internal error of the emulator's.
    let gone = ShardId("shardId-000000000009".to_owned());
    let first = place.feed(ShardReading::Polling).open(&gone, Position::Oldest).next().await.unwrap();
    assert!(matches!(first, Err(EngineError::Trimmed { .. })), "{first:?}");
}

#[tokio::test]
async fn split_shard_children_name_parent() {
    let place = Place::created("split", POLLED).await;
    let feed = place.feed(ShardReading::Polling);
    let parent = feed.shards().await.unwrap().remove(0);
    assert_eq!(parent.parents, []);
    let split = place.clients.kinesis.split_shard().stream_name(place.stream_name()).shard_to_split(&parent.id.0);
    split.new_starting_hash_key((u128::MAX / 2).to_string()).send().await.unwrap();
    let shards = feed.shards().await.unwrap();
    assert_eq!(shards.len(), 3);
    assert!(shards.contains(&parent));
    assert_eq!(shards.iter().filter(|shard| shard.parents == [parent.id.clone()]).count(), 2);
}

#[tokio::test]
async fn foreign_record_is_counted_and_skipped() {
    let place = Place::created("skipped", POLLED).await;
    let feed = place.feed(ShardReading::Polling);
    let shard = feed.shards().await.unwrap().remove(0).id;
    let data = aws_sdk_kinesis::primitives::Blob::new("somebody else's");
    let put = place.clients.kinesis.put_record().stream_name(place.stream_name()).partition_key("p").data(data);
    put.send().await.unwrap();
    place.put(1).await;
    assert_eq!(batch(&feed, &shard, Position::Oldest).await.changes.len(), 1);
    assert_eq!(feed.skipped(), 1);
}

#[tokio::test]
async fn published_batches_all_arrive() {
    let place = Place::of("published", POLLED).await;
    let topic = place.topic();
    place.creation(&|_, _| {}).topic(&topic).await.unwrap();
    let arn = topic.arn;
    let sqs = Emulator::shared().sqs(POLLED);
    let url = sqs.create_queue().queue_name("published").send().await.unwrap().queue_url.unwrap();
    let queue = arn.replace(":sns:", ":sqs:").replace("published-announcements", "published");
    place.clients.sns.subscribe().topic_arn(&arn).protocol("sqs").endpoint(queue).send().await.unwrap();
    let topic = SnsTopic::new(&place.clients, &arn);
    // Together more than one call carries.
    let sent: Vec<String> = (0..10).map(|number| format!("{number}{}", "x".repeat(30_000))).collect();
    assert_eq!(topic.publish(sent.clone()).await, Ok(Vec::new()));
    let mut arrived = Vec::new();
    while arrived.len() < sent.len() {
        let call = sqs.receive_message().queue_url(&url).max_number_of_messages(10).wait_time_seconds(5);
        for message in call.send().await.unwrap().messages.unwrap_or_default() {
            let envelope: serde_json::Value = serde_json::from_str(&message.body.unwrap()).unwrap();
            arrived.push(envelope["Message"].as_str().unwrap().to_owned());
        }
    }
    arrived.sort();
    assert_eq!(arrived, sent);
}

#[tokio::test]
async fn missing_resource_is_named() {
    let place = Place::of("missing", POLLED).await;
    let tables = place.tables();
    let key = ItemKey::new("t#00", "k");
    let [view, mapping] =
        [Table::Views, Table::Mapping].map(|table| ItemWrite::Put(table, Item::new(key.clone(), 1), Condition::Any));
    assert_eq!(missing(tables.get(Table::Records, &key).await.unwrap_err()), "missing-records");
    assert_eq!(unwritten(tables.write(vec![view.clone()]).await.unwrap_err()), "missing-views");
    assert_eq!(unwritten(tables.write(vec![view, mapping]).await.unwrap_err()), "missing-mapping, missing-views");
    assert_eq!(missing(tables.query(Table::History, "t", None, 1).await.unwrap_err()), "missing-history");
    let scan = tables.scan(Table::Contexts, ScanSegment::WHOLE, None, 1).await;
    assert_eq!(missing(scan.unwrap_err()), "missing-contexts");
    let feed = place.feed(fan_out());
    assert_eq!(missing(feed.shards().await.unwrap_err()), "missing-changes");
    let first = feed.open(&ShardId("shardId-000000000000".to_owned()), Position::Oldest).next().await.unwrap();
    assert_eq!(missing(first.unwrap_err()), "missing-changes");
    let arn = "arn:aws:sns:eu-west-1:000000000000:missing-announcements";
    let published = SnsTopic::new(&place.clients, arn).publish(vec!["{}".to_owned()]).await;
    assert_eq!(missing(published.unwrap_err()), arn);
}

/// Name of the resource that is missing.
fn missing(error: EngineError) -> String {
    match error {
        EngineError::Missing { what, .. } => what,
        other => panic!("{other}"),
    }
}

/// Names of the tables that are missing.
fn unwritten(error: WriteError) -> String {
    match error {
        WriteError::Engine(error) => missing(error),
        conflict => panic!("{conflict}"),
    }
}
