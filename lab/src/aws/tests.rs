//! Tests the endpoint with the real aws-sdk-sns and aws-sdk-sqs.

use std::time::Duration;

use aws_sdk_sns::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sns::error::ProvideErrorMetadata;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, MessageSystemAttributeName, QueueAttributeName};
use nearside::aws::certificate::fetch::Fetcher;
use nearside::aws::verify::{Verified, Verifier};
use nearside::config::TopicArn;
use nearside::model::ids::RegionId;
use nearside::model::time::{Clock, Wall};
use nearside::tasks::{TaskGroup, Tasks};

use super::Aws;
use super::publisher::{RecordChange, TopicPublisher};
use crate::chaos_server::port::{self, Port};
use crate::names::{REGION_NAMES, TOPIC};

fn sns(emulator: &Emulator, region: &'static str) -> aws_sdk_sns::Client {
    let config = aws_sdk_sns::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .region(Region::new(region))
        .endpoint_url(&*emulator.aws.base);
    aws_sdk_sns::Client::from_conf(config.build())
}

fn sqs(emulator: &Emulator, region: &'static str) -> aws_sdk_sqs::Client {
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .region(Region::new(region))
        .endpoint_url(&*emulator.aws.base);
    aws_sdk_sqs::Client::from_conf(config.build())
}

fn topic(region: &str) -> String {
    format!("arn:aws:sns:{region}:000000000000:{TOPIC}")
}

fn policy(topic: &str) -> String {
    format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":{{"Service":"sns.amazonaws.com"}},
        "Action":"sqs:SendMessage","Resource":"*","Condition":{{"ArnEquals":{{"aws:SourceArn":"{topic}"}}}}}}]}}"#
    )
}

/// The emulator with a topic in three regions, and a publisher on the first.
struct Emulator {
    aws: Aws,
    clock: Clock,
    publisher: TopicPublisher,
    tasks: Tasks,
}

impl Emulator {
    fn start() -> Self {
        let (clock, tasks) = (Clock::System, Tasks::new());
        let aws = Aws::start(Port::hold(0).unwrap(), &clock, &tasks).unwrap();
        let topics = [0, 1, 2].map(|index| aws.topics.create(REGION_NAMES[index], TOPIC).unwrap());
        let publisher = TopicPublisher::new("test".to_owned(), topics[0].clone(), aws.topics.clone(), clock.clone());
        Self { aws, clock, publisher, tasks }
    }

    fn announce(&self, version: u64, is_deleted: bool) {
        self.publisher.record(RecordChange { record_type: "context", key: "a", version, is_deleted });
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.tasks.stopping().cancel();
    }
}

/// Creates a queue in `region` and subscribes it to the topic; returns the queue's URL and ARN, and
/// the subscription's ARN.
async fn subscribed(emulator: &Emulator, region: &'static str) -> (String, String, String) {
    let (sns, sqs) = (sns(emulator, region), sqs(emulator, region));
    let url = sqs
        .create_queue()
        .queue_name("nearside-1")
        .attributes(QueueAttributeName::Policy, policy(&topic(region)))
        .attributes(QueueAttributeName::ReceiveMessageWaitTimeSeconds, "20")
        .tags("nearside", "alive")
        .send()
        .await
        .unwrap()
        .queue_url
        .unwrap();
    let arn = sqs.get_queue_attributes().queue_url(&url).attribute_names(QueueAttributeName::QueueArn).send().await;
    let arn = arn.unwrap().attributes.unwrap()[&QueueAttributeName::QueueArn].clone();
    let subscription = sns.subscribe().topic_arn(topic(region)).protocol("sqs").endpoint(&arn).send().await.unwrap();
    (url, arn, subscription.subscription_arn.unwrap())
}

/// The verifier that a sidecar would use.
fn verifier(emulator: &Emulator) -> Verifier {
    let topic = TopicArn {
        arn: topic("eu-west-1"),
        partition: "aws".to_owned(),
        region: "eu-west-1".to_owned(),
        account: "000000000000".to_owned(),
        name: TOPIC.to_owned(),
    };
    let url = url::Url::parse("http://127.0.0.1:1").unwrap();
    let regions = [nearside::config::RegionConfig {
        name: "eu-west-1".to_owned(),
        url,
        topic: Some(topic),
        ..Default::default()
    }];
    let signer = url::Url::parse(&emulator.aws.base).unwrap();
    Verifier::new(&regions, Some(&signer), emulator.clock.clone(), Fetcher::network(true).unwrap())
}

#[tokio::test]
async fn published_message_passes_through_queue() {
    let emulator = Emulator::start();
    let region = "us-east-1";
    let (sns, sqs) = (sns(&emulator, region), sqs(&emulator, region));
    let (url, arn, subscription) = subscribed(&emulator, region).await;
    assert_eq!(arn, "arn:aws:sqs:us-east-1:000000000000:nearside-1");

    let message = "{\"key\":\"a & b\"}";
    let id = sns.publish().topic_arn(topic(region)).message(message).send().await.unwrap().message_id.unwrap();
    let received = loop {
        let receive = sqs.receive_message().queue_url(&url).max_number_of_messages(10).wait_time_seconds(20);
        let got = receive.message_system_attribute_names(MessageSystemAttributeName::SentTimestamp).send().await;
        let messages = got.unwrap().messages.unwrap_or_default();
        if let Some(one) = messages.iter().find(|one| one.body().unwrap().contains(&id)) {
            break one.clone();
        }
    };
    let envelope: serde_json::Value = serde_json::from_str(received.body().unwrap()).unwrap();
    assert_eq!((&envelope["Type"], &envelope["Message"]), (&"Notification".into(), &message.into()));
    assert_eq!((&envelope["TopicArn"], &envelope["MessageId"]), (&topic(region).into(), &id.into()));
    let sent: u64 = received.attributes().unwrap()[&MessageSystemAttributeName::SentTimestamp].parse().unwrap();
    assert!(emulator.clock.wall().as_millis() - sent < 20_000);

    let entry = DeleteMessageBatchRequestEntry::builder().id("0").receipt_handle(received.receipt_handle().unwrap());
    let bad = DeleteMessageBatchRequestEntry::builder().id("1").receipt_handle("nonsense").build().unwrap();
    let deleted =
        sqs.delete_message_batch().queue_url(&url).entries(entry.build().unwrap()).entries(bad).send().await;
    let deleted = deleted.unwrap();
    assert_eq!((deleted.successful().len(), deleted.failed().len()), (1, 1));
    assert!(emulator.aws.topics.sent(&topic(region)).iter().any(|sent| sent.taken.get().is_some()));

    let stated = sns.get_subscription_attributes().subscription_arn(&subscription).send().await.unwrap();
    let stated = stated.attributes.unwrap();
    assert_eq!((stated["Endpoint"].as_str(), stated["PendingConfirmation"].as_str()), (arn.as_str(), "false"));
    let listed = sns.list_subscriptions_by_topic().topic_arn(topic(region)).send().await.unwrap();
    assert_eq!(listed.subscriptions()[0].subscription_arn(), Some(subscription.as_str()));
    sns.unsubscribe().subscription_arn(&subscription).send().await.unwrap();
    let gone = sns.get_subscription_attributes().subscription_arn(&subscription).send().await.unwrap_err();
    assert!(gone.into_service_error().is_not_found_exception());
}

#[tokio::test]
async fn queues_are_named_tagged_listed_deleted() {
    let emulator = Emulator::start();
    let sqs = sqs(&emulator, "eu-west-1");
    let (url, ..) = subscribed(&emulator, "eu-west-1").await;
    assert_eq!(sqs.get_queue_url().queue_name("nearside-1").send().await.unwrap().queue_url(), Some(url.as_str()));
    sqs.tag_queue().queue_url(&url).tags("owner", "me").send().await.unwrap();
    let tags = sqs.list_queue_tags().queue_url(&url).send().await.unwrap().tags.unwrap();
    assert_eq!((tags["nearside"].as_str(), tags["owner"].as_str()), ("alive", "me"));
    let listed = sqs.list_queues().queue_name_prefix("nearside-").send().await.unwrap();
    assert_eq!(listed.queue_urls(), std::slice::from_ref(&url));
    let elsewhere = super::tests::sqs(&emulator, "us-east-1").list_queues().send().await.unwrap();
    assert!(elsewhere.queue_urls().is_empty(), "regions are apart");
    let attributes = sqs.set_queue_attributes().queue_url(&url).attributes(QueueAttributeName::Policy, "{}");
    attributes.send().await.unwrap();

    sqs.delete_queue().queue_url(&url).send().await.unwrap();
    let gone = sqs.receive_message().queue_url(&url).send().await.unwrap_err().into_service_error();
    assert!(gone.is_queue_does_not_exist());
    assert_eq!(gone.code(), Some("AWS.SimpleQueueService.NonExistentQueue"));
    let gone = sqs.get_queue_url().queue_name("nearside-1").send().await.unwrap_err();
    assert!(gone.into_service_error().is_queue_does_not_exist());
}

async fn publish(sns: &aws_sdk_sns::Client, region: &str) {
    sns.publish().topic_arn(topic(region)).message("m").send().await.unwrap();
}

#[tokio::test]
async fn topic_faults_lose_or_duplicate_messages() {
    let emulator = Emulator::start();
    let (sns, sqs) = (sns(&emulator, "eu-west-1"), sqs(&emulator, "eu-west-1"));
    let (url, _, subscription) = subscribed(&emulator, "eu-west-1").await;
    let queue = emulator.aws.queues.find("eu-west-1", "nearside-1").unwrap();
    publish(&sns, "eu-west-1").await;
    assert_eq!(queue.len(), 1);
    emulator.aws.topics.set_faults(&topic("eu-west-1"), |faults| faults.mute = true);
    publish(&sns, "eu-west-1").await;
    assert_eq!(queue.len(), 1);
    emulator.aws.topics.set_faults(&topic("eu-west-1"), |faults| *faults = Default::default());
    let filter = sns.set_subscription_attributes().subscription_arn(&subscription).attribute_name("FilterPolicy");
    filter.clone().attribute_value("{\"a\":[\"b\"]}").send().await.unwrap();
    publish(&sns, "eu-west-1").await;
    filter.attribute_value("{}").send().await.unwrap();
    assert_eq!(queue.len(), 1);
    emulator.aws.topics.set_faults(&topic("eu-west-1"), |faults| faults.duplicate = true);
    publish(&sns, "eu-west-1").await;
    let mut bodies = Vec::new();
    while bodies.len() < 3 {
        let got = sqs.receive_message().queue_url(&url).max_number_of_messages(10).wait_time_seconds(20).send().await;
        bodies.extend(got.unwrap().messages.unwrap_or_default().into_iter().filter_map(|message| message.body));
    }
    assert_eq!(bodies[1], bodies[2], "a duplicate is the same message");
    let revoked = sqs.set_queue_attributes().queue_url(&url).attributes(QueueAttributeName::Policy, "{}");
    revoked.send().await.unwrap();
    publish(&sns, "eu-west-1").await;
    assert_eq!((queue.len(), emulator.aws.topics.standing(&topic("eu-west-1")).lost), (3, 2));
}

#[tokio::test]
async fn delayed_topic_delivers_late_to_subscribers() {
    let emulator = Emulator::start();
    let (url, ..) = subscribed(&emulator, "eu-west-1").await;
    let late = Duration::from_millis(60);
    emulator.aws.topics.set_faults(&topic("eu-west-1"), |faults| faults.delay = late);
    let before = emulator.clock.now();
    emulator.announce(1, false);
    let receive = sqs(&emulator, "eu-west-1").receive_message().queue_url(&url).wait_time_seconds(20).send().await;
    assert_eq!(receive.unwrap().messages().len(), 1);
    assert!(emulator.clock.now() - before >= late);
}

#[tokio::test]
async fn http_endpoint_confirms_before_messages() {
    let emulator = Emulator::start();
    let sns = sns(&emulator, "eu-west-1");
    let port = Port::hold(0).unwrap();
    let (posts, mut posted) = tokio::sync::mpsc::channel(8);
    let tasks = Tasks::new();
    let listener = port.listen().unwrap();
    let mut serving = TaskGroup::new();
    serving.start(port::serve(listener, tasks, "endpoint", move |request| {
        let posts = posts.clone();
        async move {
            let kind = request.headers()["x-amz-sns-message-type"].to_str().unwrap().to_owned();
            let body = http_body_util::BodyExt::collect(request.into_body()).await.unwrap().to_bytes();
            let envelope: serde_json::Value = serde_json::from_slice(&body).unwrap();
            posts.send((kind, envelope)).await.unwrap();
            http::Response::new(http_body_util::Full::<bytes::Bytes>::default())
        }
    }));
    let subscribe = sns.subscribe().topic_arn(topic("eu-west-1")).protocol("http");
    let pending = subscribe.clone().endpoint(format!("http://{}/x", port.address())).send().await.unwrap();
    assert_eq!(pending.subscription_arn(), Some("pending confirmation"));
    let (kind, envelope) = posted.recv().await.unwrap();
    assert_eq!((kind.as_str(), &envelope["Type"]), ("SubscriptionConfirmation", &"SubscriptionConfirmation".into()));
    let wrong = sns.confirm_subscription().topic_arn(topic("eu-west-1")).token("wrong").send().await.unwrap_err();
    assert!(wrong.into_service_error().is_invalid_parameter_exception());
    let token = envelope["Token"].as_str().unwrap();
    let confirmed = sns.confirm_subscription().topic_arn(topic("eu-west-1")).token(token).send().await.unwrap();
    assert!(confirmed.subscription_arn().unwrap().starts_with(&topic("eu-west-1")));
    sns.publish().topic_arn(topic("eu-west-1")).message("hello").send().await.unwrap();
    let (kind, envelope) = posted.recv().await.unwrap();
    assert_eq!((kind.as_str(), &envelope["Message"]), ("Notification", &"hello".into()));
    let outside = subscribe.endpoint("http://example.com/").send().await.unwrap_err();
    assert!(outside.into_service_error().is_invalid_parameter_exception(), "it posts to loopback only");
}

#[tokio::test]
async fn unknown_or_foreign_topic_is_refused() {
    let emulator = Emulator::start();
    let sns = sns(&emulator, "eu-west-1");
    let missing = sns.publish().topic_arn("arn:aws:sns:eu-west-1:000000000000:none").message("m").send().await;
    assert!(missing.unwrap_err().into_service_error().is_not_found_exception());
    let abroad = sns.publish().topic_arn("arn:aws:sns:us-east-1:000000000000:none").message("m").send().await;
    assert!(abroad.unwrap_err().into_service_error().is_invalid_parameter_exception());
}

#[tokio::test]
async fn announcements_ordered_heartbeat_carries_last_number() {
    let emulator = Emulator::start();
    let (url, ..) = subscribed(&emulator, "eu-west-1").await;
    for version in 1..=6 {
        emulator.announce(version, version == 6);
    }
    emulator.publisher.heartbeat(Wall::from_millis(1));
    let receive =
        sqs(&emulator, "eu-west-1").receive_message().queue_url(&url).max_number_of_messages(10).send().await;
    let messages = receive.unwrap().messages.unwrap();
    let verifier = verifier(&emulator);
    for one in &messages {
        let verified = verifier.verify(RegionId(0), one.body().unwrap().as_bytes()).await;
        assert!(matches!(verified, Ok(Verified::Notification { .. })), "{:?}", verified.err());
    }
    let says: Vec<serde_json::Value> = messages
        .iter()
        .map(|one| serde_json::from_str::<serde_json::Value>(one.body().unwrap()).unwrap())
        .map(|envelope| serde_json::from_str(envelope["Message"].as_str().unwrap()).unwrap())
        .collect();
    let facts: Vec<_> =
        says.iter().map(|one| (one["kind"].as_str().unwrap(), one["sequence"].as_str().unwrap())).collect();
    assert_eq!(facts[..5], ["1", "2", "3", "4", "5"].map(|number| ("CHANGED", number)));
    assert_eq!(facts[5..], [("DELETED", "6"), ("HEARTBEAT", "6")]);
    assert_eq!(says[5]["version"], "6");
    assert!(says[6]["ingestedThrough"].as_str().unwrap().ends_with('Z'));
    let publishers: std::collections::BTreeSet<_> =
        says.iter().map(|one| one["publisher"].as_str().unwrap()).collect();
    assert_eq!(publishers.len(), 1);
}

fn entry(id: &str, message: &str) -> aws_sdk_sns::types::PublishBatchRequestEntry {
    aws_sdk_sns::types::PublishBatchRequestEntry::builder().id(id).message(message).build().unwrap()
}

#[tokio::test]
async fn batch_entries_are_published_individually() {
    let emulator = Emulator::start();
    let (url, ..) = subscribed(&emulator, "eu-west-1").await;
    let answer = sns(&emulator, "eu-west-1")
        .publish_batch()
        .topic_arn(topic("eu-west-1"))
        .publish_batch_request_entries(entry("0", "first"))
        .publish_batch_request_entries(entry("1", &"x".repeat(300 << 10)))
        .publish_batch_request_entries(entry("2", "third"))
        .send()
        .await
        .unwrap();
    let taken: Vec<String> = answer.successful().iter().filter_map(|entry| entry.id.clone()).collect();
    let refused: Vec<String> = answer.failed().iter().map(|entry| entry.id.clone()).collect();
    assert_eq!(taken, ["0", "2"]);
    assert_eq!(refused, ["1"]);
    let received = sqs(&emulator, "eu-west-1")
        .receive_message()
        .queue_url(url)
        .max_number_of_messages(10)
        .wait_time_seconds(5)
        .send()
        .await
        .unwrap();
    let bodies: Vec<&str> = received.messages().iter().filter_map(|message| message.body()).collect();
    assert!(bodies.iter().any(|body| body.contains("first")), "{bodies:?}");
}
