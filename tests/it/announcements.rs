//! The transports against SNS and SQS as the emulator speaks them, in three regions: subscribe,
//! receive, acknowledge, lose, resubscribe, remove; the janitor; path heartbeats.
//!
//! Every envelope is verified as in production, with the emulator for a signer; what it says is not
//! applied but passed to the test.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName::Policy;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use nearside::aws::certificate::fetch::Fetcher;
use nearside::aws::verify::{Verified, Verifier};
use nearside::config::{self, Config, TopicArn, Transport};
use nearside::model::ids::RegionId;
use nearside::model::time::{Clock, Wall};
use nearside::protocol::event::Event;
use nearside::sidecar::announcements::heartbeat::{self, Heartbeat};
use nearside::sidecar::announcements::janitor::{self, Fate, JanitorTarget, What};
use nearside::sidecar::announcements::subscription::{
    Pace, Stage, SubscriptionDeps, SubscriptionStatus, Subscriptions,
};
use nearside::sidecar::announcements::{Disposition, Intake};
use nearside::tasks::FailingTask;
use nearside::tasks::Tasks;
use nearside::telemetry::metrics::Metrics;
use serde_json::Value;
use tokio::sync::mpsc;
use url::Url;

use super::emulator::{Emulator, REGIONS};

/// Longest wait for anything: far beyond what it takes, so that it only ends a test that has
/// failed.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An envelope that was taken.
struct Taken {
    region: RegionId,
    envelope: Value,
    queued: Option<Wall>,
}

/// Verifies, and gives the receipts that the test asks for.
struct Recorder {
    verifier: Arc<Verifier>,
    taken: mpsc::UnboundedSender<Taken>,
    /// Number of notifications that are not applied at first.
    retries: Arc<AtomicUsize>,
}

impl Recorder {
    fn new(config: &Config, taken: mpsc::UnboundedSender<Taken>, retries: usize) -> Self {
        let signer = config.announcements.insecure_sns_signer.as_ref();
        let fetcher = Fetcher::network(signer.is_some()).unwrap();
        let verifier = Verifier::new(&config.service.regions, signer, Clock::System, fetcher);
        Self { verifier: Arc::new(verifier), taken, retries: Arc::new(retries.into()) }
    }
}

impl Intake for Recorder {
    fn take(&self, region: RegionId, raw: Bytes, queued: Option<Wall>) -> BoxFuture<'static, Disposition> {
        let (verifier, taken, retries) = (self.verifier.clone(), self.taken.clone(), self.retries.clone());
        Box::pin(async move {
            let disposition = match verifier.verify(region, &raw).await.expect("the emulator signs what it sends") {
                Verified::Confirmation { token, .. } => Disposition::Confirm { token },
                Verified::Unsubscribed { published } => Disposition::Unsubscribed { published },
                Verified::Notification { .. } | Verified::Copy => {
                    match retries.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
                        Ok(_) => Disposition::Retry,
                        Err(_) => Disposition::Acknowledge,
                    }
                }
            };
            let envelope = serde_json::from_slice(&raw).unwrap();
            let _test_ended = taken.send(Taken { region, envelope, queued });
            disposition
        })
    }
}

/// Three topics in three regions and a sidecar's subscriptions to them.
struct World {
    emulator: &'static Emulator,
    topics: Vec<TopicArn>,
    subscriptions: Subscriptions,
    taken: mpsc::UnboundedReceiver<Taken>,
    events: mpsc::UnboundedReceiver<Event>,
    tasks: Tasks,
}

/// Short intervals, so that a loss is noticed within a test.
fn hurried() -> Pace {
    let short = Duration::from_millis(200);
    Pace {
        attest: short,
        attest_again: short,
        tag: short,
        again: (short, short * 5),
        confirm: TIMEOUT,
        visibility: Duration::from_secs(1),
    }
}

async fn topics(name: &str) -> Vec<TopicArn> {
    let mut topics = Vec::new();
    for (region, signature) in REGIONS.into_iter().zip([1, 2, 2]) {
        topics.push(Emulator::shared().topic(region, name, signature).await);
    }
    topics
}

impl World {
    async fn over_sqs(name: &str, retries: usize) -> Self {
        Self::start(name, Transport::Sqs, retries, hurried()).await
    }

    async fn start(name: &str, transport: Transport, retries: usize, pace: Pace) -> Self {
        Self::start_noticing(name, transport, retries, pace, |_| {}).await
    }

    /// Starts with a callback that is called with every event first.
    async fn start_noticing(
        name: &str,
        transport: Transport,
        retries: usize,
        pace: Pace,
        notice: impl Fn(&Event) + Send + Sync + 'static,
    ) -> Self {
        let emulator = Emulator::shared();
        let topics = topics(name).await;
        let (record, taken) = mpsc::unbounded_channel();
        let (emit, events) = mpsc::unbounded_channel();
        let tasks = Tasks::new();
        let config = config(name, &topics, transport);
        let deps = SubscriptionDeps {
            tasks: tasks.clone(),
            clock: Clock::System,
            events: Arc::new(move |event| {
                notice(&event);
                drop(emit.send(event));
            }),
            speaks: Arc::new(|_| false),
            is_live: Arc::new(|_| false),
            intake: Arc::new(Recorder::new(&config, record, retries)),
            metrics: Arc::new(Metrics::default()),
            sdk: emulator.sdk(),
        };
        let subscriptions = Subscriptions::start(&config, pace, &deps).unwrap();
        Self { emulator, topics, subscriptions, taken, events, tasks }
    }

    async fn subscribed(&mut self) {
        let mut waiting: Vec<u8> = (0..self.topics.len() as u8).collect();
        let all = async {
            while !waiting.is_empty() {
                if let Some(Event::Subscribed(region)) = self.events.recv().await {
                    waiting.retain(|id| *id != region.0);
                }
            }
        };
        tokio::time::timeout(TIMEOUT, all).await.expect("all regions are subscribed in time");
    }

    /// Other events go on all the time: the bound is on the whole wait.
    async fn until(&mut self, awaited: Event) {
        let came = async { while self.events.recv().await.unwrap() != awaited {} };
        tokio::time::timeout(TIMEOUT, came).await.unwrap_or_else(|_| panic!("{awaited:?} comes in time"));
    }

    async fn publish(&self, region: usize, message: &str) {
        let topic = &self.topics[region];
        self.emulator.sns(&topic.region).publish().topic_arn(&topic.arn).message(message).send().await.unwrap();
    }

    async fn next(&mut self) -> Taken {
        tokio::time::timeout(TIMEOUT, self.taken.recv()).await.expect("an envelope comes in time").unwrap()
    }

    async fn next_notification(&mut self) -> Taken {
        loop {
            let taken = self.next().await;
            if taken.envelope["Type"] == "Notification" {
                return taken;
            }
        }
    }

    fn status(&self, region: u8) -> SubscriptionStatus {
        self.subscriptions.status().into_iter().find(|status| status.region == RegionId(region)).unwrap()
    }

    async fn queue_url(&self, region: u8) -> Option<String> {
        let name = self.status(region).queue?;
        self.emulator.sqs(REGIONS[usize::from(region)]).get_queue_url().queue_name(name).send().await.ok()?.queue_url
    }

    async fn subscriptions_of(&self, region: usize) -> Vec<String> {
        let topic = &self.topics[region];
        let listed =
            self.emulator.sns(&topic.region).list_subscriptions_by_topic().topic_arn(&topic.arn).send().await;
        listed.unwrap().subscriptions().iter().map(|one| one.subscription_arn().unwrap().to_owned()).collect()
    }

    async fn shut_down(&self) {
        assert_eq!(self.subscriptions.shutdown(TIMEOUT).await, []);
        assert_eq!(self.tasks.drain(TIMEOUT).await, Vec::<&str>::new());
        for region in 0..self.topics.len() {
            assert_eq!(self.subscriptions_of(region).await, Vec::<String>::new());
        }
    }
}

fn config(service: &str, topics: &[TopicArn], transport: Transport) -> Config {
    let second = Duration::from_secs(1);
    Config {
        access: config::PermitsConfig::default(),
        service: config::Service {
            name: service.to_owned(),
            regions: topics
                .iter()
                .map(|topic| config::RegionConfig {
                    name: topic.region.clone(),
                    url: Url::parse("http://127.0.0.1:1").unwrap(),
                    topic: Some(topic.clone()),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        },
        listen: config::Listen { tcp: None, max_connections: 1, ..Default::default() },
        admin: config::Admin { listen: "127.0.0.1:0".parse().unwrap(), ..Default::default() },
        cache: config::Cache {
            ttl: second,
            negative_ttl: second,
            soft_ttl: second,
            max_bytes: Some(1),
            stale_if_error: second,
            ..Default::default()
        },
        race: config::RaceConfig { deadline: second, permits: 1, ..Default::default() },
        freshness: config::FreshnessConfig { worst_lag: second, max_jump: 1, ..Default::default() },
        announcements: config::AnnouncementsConfig {
            transport,
            endpoint_url: Some(Emulator::shared().url()),
            insecure_sns_signer: Some(Emulator::shared().url()),
            ..Default::default()
        },
        drain: config::Drain { linger: Duration::ZERO, deadline: second, ..Default::default() },
        log: Default::default(),
    }
}

#[tokio::test]
async fn sqs_delivers_once_shutdown_removes_all() {
    let mut world = World::over_sqs("arrives", 0).await;
    world.subscribed().await;
    for region in 0..3 {
        world.publish(region, &format!("from {region}")).await;
    }
    let mut said = HashMap::new();
    for _ in 0..3 {
        let taken = world.next().await;
        assert!(taken.queued.is_some(), "SentTimestamp comes along");
        assert_eq!(taken.envelope["TopicArn"], world.topics[taken.region.index()].arn);
        assert!(taken.envelope["Signature"].is_string(), "raw delivery is off");
        said.insert(taken.region, taken.envelope["Message"].as_str().unwrap().to_owned());
    }
    assert_eq!(said, (0u8..3).map(|region| (RegionId(region), format!("from {region}"))).collect());
    for region in 0..3 {
        // A poll that follows the deletion: the message is gone, not hidden.
        let url = world.queue_url(region).await.unwrap();
        emptied(&world.emulator.sqs(REGIONS[usize::from(region)]), &url).await;
    }
    let urls: Vec<String> = {
        let mut urls = Vec::new();
        for region in 0..3 {
            urls.push(world.queue_url(region).await.unwrap());
        }
        urls
    };
    world.shut_down().await;
    for (region, url) in REGIONS.into_iter().zip(urls) {
        let asked = world.emulator.sqs(region).get_queue_attributes().queue_url(url).send().await;
        assert!(asked.unwrap_err().into_service_error().is_queue_does_not_exist());
    }
    assert_eq!(world.status(0).stage, Stage::Stopped);
}

/// Waits until the queue holds no message, visible or hidden.
async fn emptied(sqs: &aws_sdk_sqs::Client, url: &str) {
    use aws_sdk_sqs::types::QueueAttributeName::{
        ApproximateNumberOfMessages as Waiting, ApproximateNumberOfMessagesNotVisible as Hidden,
    };
    let empty = async {
        loop {
            let asked = sqs.get_queue_attributes().queue_url(url).attribute_names(Waiting).attribute_names(Hidden);
            let counts = asked.send().await.unwrap().attributes.unwrap();
            if counts[&Waiting] == "0" && counts[&Hidden] == "0" {
                return;
            }
        }
    };
    tokio::time::timeout(TIMEOUT, empty).await.expect("what was acknowledged is deleted");
}

#[tokio::test]
async fn unapplied_message_stays_and_is_redelivered() {
    let mut world = World::over_sqs("again", 1).await;
    world.subscribed().await;
    world.publish(1, "patient").await;
    let first = world.next().await;
    let second = world.next().await;
    assert_eq!(first.envelope["MessageId"], second.envelope["MessageId"]);
    emptied(&world.emulator.sqs(REGIONS[1]), &world.queue_url(1).await.unwrap()).await;
    world.shut_down().await;
}

#[tokio::test]
async fn poll_and_attestation_report_weak_proof() {
    let mut world = World::over_sqs("weak", 0).await;
    world.subscribed().await;
    world.until(Event::Attested(RegionId(2))).await;
    world.publish(2, "ends the poll").await;
    world.until(Event::Polled(RegionId(2))).await;
    assert!(world.status(2).attested.is_some());
    world.shut_down().await;
}

#[tokio::test]
async fn deleted_queue_is_replaced() {
    // Only the poll can notice: no look and no tag comes in time.
    let pace = Pace { attest: TIMEOUT * 10, tag: TIMEOUT * 10, ..hurried() };
    let mut world = World::start("queue", Transport::Sqs, 0, pace).await;
    world.subscribed().await;
    let (url, old) = (world.queue_url(0).await.unwrap(), world.status(0));
    world.emulator.sqs(REGIONS[0]).delete_queue().queue_url(url).send().await.unwrap();
    world.until(Event::Lost(RegionId(0))).await;
    world.until(Event::Subscribing(RegionId(0))).await;
    world.until(Event::Subscribed(RegionId(0))).await;
    assert_ne!(world.status(0).queue, old.queue);
    world.publish(0, "through the new one").await;
    assert_eq!(world.next().await.envelope["Message"], "through the new one");
    world.shut_down().await;
}

#[tokio::test]
async fn deleted_subscription_is_noticed_and_replaced() {
    let mut world = World::over_sqs("deleted", 0).await;
    world.subscribed().await;
    let old = world.status(1);
    let arn = old.subscription.as_deref().unwrap();
    world.emulator.sns(REGIONS[1]).unsubscribe().subscription_arn(arn).send().await.unwrap();
    world.until(Event::Lost(RegionId(1))).await;
    world.until(Event::Subscribed(RegionId(1))).await;
    world.publish(1, "again").await;
    assert_eq!(world.next().await.region, RegionId(1));
    assert_eq!(world.status(1).losses, 1);
    world.shut_down().await;
}

#[tokio::test]
async fn foreign_filter_ends_subscription() {
    let mut world = World::over_sqs("filter", 0).await;
    world.subscribed().await;
    let set = world.emulator.sns(REGIONS[2]).set_subscription_attributes();
    let set = set.subscription_arn(world.status(2).subscription.unwrap()).attribute_name("FilterPolicy");
    set.attribute_value(r#"{"store":["nowhere"]}"#).send().await.unwrap();
    world.until(Event::Lost(RegionId(2))).await;
    world.until(Event::Subscribed(RegionId(2))).await;
    world.publish(2, "unfiltered").await;
    assert_eq!(world.next().await.envelope["Message"], "unfiltered");
    world.shut_down().await;
}

/// R14: an empty poll proves nothing when nothing may be sent.
#[tokio::test]
async fn queue_closed_to_topic_is_replaced() {
    let mut world = World::over_sqs("policy", 0).await;
    world.subscribed().await;
    let (url, old) = (world.queue_url(1).await.unwrap(), world.status(1));
    let sqs = world.emulator.sqs(REGIONS[1]);
    let policy = sqs.get_queue_attributes().queue_url(&url).attribute_names(Policy).send().await.unwrap();
    let ours = policy.attributes.unwrap()[&Policy].clone();
    let others = ours.replace(&world.topics[1].arn, &world.topics[0].arn);
    assert_ne!(others, ours);
    sqs.set_queue_attributes().queue_url(&url).attributes(Policy, others).send().await.unwrap();
    world.until(Event::Lost(RegionId(1))).await;
    world.until(Event::Subscribed(RegionId(1))).await;
    let new = world.status(1);
    assert_eq!((new.losses, new.lost.map(|(_, why)| why)), (1, Some("policy")));
    assert_ne!(new.queue, old.queue);
    world.publish(1, "heard").await;
    assert_eq!(world.next_notification().await.envelope["Message"], "heard");
    world.shut_down().await;
}

#[tokio::test]
async fn requested_resubscription_replaces_queue() {
    let mut world = World::over_sqs("asked", 0).await;
    world.subscribed().await;
    let old = world.queue_url(0).await.unwrap();
    world.subscriptions.resubscribe(RegionId(0), Duration::from_millis(10));
    world.until(Event::Subscribing(RegionId(0))).await;
    world.until(Event::Subscribed(RegionId(0))).await;
    world.publish(0, "to the new one").await;
    assert_eq!(world.next().await.envelope["Message"], "to the new one");
    assert_ne!(world.queue_url(0).await.unwrap(), old);
    assert_eq!(world.subscriptions_of(0).await.len(), 1);
    let asked = world.emulator.sqs(REGIONS[0]).get_queue_attributes().queue_url(old).send().await;
    assert!(asked.unwrap_err().into_service_error().is_queue_does_not_exist());
    world.shut_down().await;
}

/// Findings with this fate that are of the janitor's test.
fn found_by_janitor(report: &janitor::JanitorReport, fate: Fate, dead: &str) -> Vec<What> {
    let ours = report.findings.iter().filter(|one| one.name.contains(":janitor:") || one.name == dead);
    ours.filter(|one| one.fate == fate).map(|one| one.what).collect()
}

#[tokio::test]
async fn janitor_lists_before_removing_leftovers() {
    let emulator = Emulator::shared();
    let world = {
        let mut world = World::over_sqs("janitor", 0).await;
        world.subscribed().await;
        world
    };
    let (region, topic) = (REGIONS[0], &world.topics[0]);
    let (sns, sqs) = (emulator.sns(region), emulator.sqs(region));
    let now = Clock::System.wall();
    let dead = "nearside-janitor-dead";
    let long_ago = (now.as_millis() / 1000 - 25 * 3600).to_string();
    let made =
        sqs.create_queue().queue_name(dead).tags("nearside", "1").tags("alive", long_ago).send().await.unwrap();
    let account = &topic.account;
    for queue in [dead, "nearside-janitor-gone"] {
        let arn = format!("arn:aws:sqs:{region}:{account}:{queue}");
        sns.subscribe().topic_arn(&topic.arn).protocol("sqs").endpoint(arn).send().await.unwrap();
    }
    assert_eq!(world.subscriptions_of(0).await.len(), 3);

    let places = JanitorTarget::of_topics([topic]);
    let dry = janitor::sweep(&emulator.sdk(), &places, now, nearside::sidecar::limits::ABANDONED, true).await;
    assert!(dry.is_clean(), "{:?}", dry.failures);
    assert_eq!(found_by_janitor(&dry, Fate::Doomed, dead), [What::Queue, What::Subscription, What::Subscription]);
    assert_eq!(world.subscriptions_of(0).await.len(), 3, "a dry run removes nothing");

    let swept = janitor::sweep(&emulator.sdk(), &places, now, nearside::sidecar::limits::ABANDONED, false).await;
    assert!(swept.is_clean(), "{:?}", swept.failures);
    assert_eq!(found_by_janitor(&swept, Fate::Removed, dead), [What::Queue, What::Subscription, What::Subscription]);
    assert_eq!(world.subscriptions_of(0).await, [world.status(0).subscription.unwrap()], "what lives is kept");
    assert!(world.queue_url(0).await.is_some());
    let asked = sqs.get_queue_attributes().queue_url(made.queue_url.unwrap()).send().await;
    assert!(asked.unwrap_err().into_service_error().is_queue_does_not_exist());
    world.shut_down().await;
}

#[tokio::test]
async fn queue_is_repeatedly_tagged_alive() {
    let mut world = World::over_sqs("alive", 0).await;
    world.subscribed().await;
    // Not where the janitor sweeps in another test.
    let (sqs, url) = (world.emulator.sqs(REGIONS[1]), world.queue_url(1).await.unwrap());
    sqs.tag_queue().queue_url(&url).tags("alive", "5").send().await.unwrap();
    let retagged =
        async { while sqs.list_queue_tags().queue_url(&url).send().await.unwrap().tags.unwrap()["alive"] == "5" {} };
    tokio::time::timeout(TIMEOUT, retagged).await.expect("the lifecycle tags its queue again");
    world.shut_down().await;
}

#[tokio::test]
async fn path_heartbeat_arrives_with_its_slot() {
    let mut world = World::over_sqs("heartbeat", 0).await;
    world.subscribed().await;
    let heart = Heartbeat::new(&world.emulator.sdk(), world.topics[1].clone(), Clock::System).await;
    let before = heartbeat::slot(Clock::System.wall());
    let published = heart.publish().await.unwrap();
    let after = heartbeat::slot(Clock::System.wall());
    assert!((before..=after).contains(&published));
    let taken = world.next().await;
    assert_eq!(taken.region, RegionId(1));
    let said: Value = serde_json::from_str(taken.envelope["Message"].as_str().unwrap()).unwrap();
    assert_eq!(said["kind"], "HEARTBEAT");
    assert_eq!(said["sequence"], published.to_string());
    assert!(said["publisher"].as_str().unwrap().starts_with(heartbeat::PUBLISHER));
    world.shut_down().await;
}

/// The http transport: `public_url` must name its port before it is bound.
fn posted() -> Transport {
    let listen = nearside_lab::loopback::address().unwrap();
    Transport::Http { listen, public_url: Url::parse(&format!("http://{listen}/in")).unwrap() }
}

#[tokio::test]
async fn http_subscription_confirms_and_delivers_posts() {
    let mut world = World::start("posted", posted(), 0, hurried()).await;
    world.subscribed().await;
    for region in 0..3 {
        world.publish(region, &format!("from {region}")).await;
    }
    for _ in 0..3 {
        let taken = world.next_notification().await;
        assert_eq!(taken.envelope["TopicArn"], world.topics[taken.region.index()].arn);
        assert_eq!(taken.envelope["Message"], format!("from {}", taken.region.0));
        assert_eq!(taken.queued, None);
    }
    world.until(Event::Attested(RegionId(0))).await;
    world.shut_down().await;
}

#[tokio::test]
async fn unrequested_http_unsubscription_is_mended() {
    // Only what SNS posts can tell: no look comes in time.
    let pace = Pace { attest: TIMEOUT * 10, ..hurried() };
    let mut world = World::start("unsubscribed", posted(), 0, pace).await;
    world.subscribed().await;
    let arn = world.status(0).subscription.unwrap();
    world.emulator.sns(REGIONS[0]).unsubscribe().subscription_arn(arn).send().await.unwrap();
    world.until(Event::Lost(RegionId(0))).await;
    world.until(Event::Subscribed(RegionId(0))).await;
    world.publish(0, "mended").await;
    assert_eq!(world.next_notification().await.envelope["Message"], "mended");
    world.shut_down().await;
}

#[tokio::test]
async fn panicked_subscription_takes_over_its_queue() {
    let panicked = AtomicBool::new(false);
    let mut world = World::start_noticing("panics", Transport::Sqs, 0, hurried(), move |event: &Event| {
        let is_subscribed = *event == Event::Subscribed(RegionId(1));
        assert!(!is_subscribed || panicked.swap(true, Ordering::SeqCst), "on purpose");
    })
    .await;
    let mut status = world.subscriptions.watch(RegionId(1)).unwrap();
    let failed = status.wait_for(|status| status.failure.is_some());
    let failed = tokio::time::timeout(TIMEOUT, failed).await.expect("it says so in time").unwrap().clone();
    assert!(failed.failure.unwrap().saw.contains("panicked"), "named for the region");
    assert_eq!(world.tasks.failing(), [FailingTask { name: "subscription", panics: 1 }]);
    world.subscribed().await;
    let again = status.wait_for(|status| status.stage == Stage::Subscribed && status.failure.is_none());
    let again = tokio::time::timeout(TIMEOUT, again).await.expect("it is subscribed again").unwrap().clone();
    assert_eq!((again.queue, again.subscription), (failed.queue, failed.subscription), "nothing is made twice");
    assert_eq!(world.tasks.panics()["subscription"], 1);
    assert_eq!(world.subscriptions_of(1).await.len(), 1);
    world.publish(1, "still heard").await;
    assert_eq!(world.next_notification().await.envelope["Message"], "still heard");
    world.shut_down().await;
}

#[tokio::test]
async fn start_without_aws_warns_and_continues() {
    let closed = nearside_lab::loopback::address().unwrap();
    let emulator = Emulator::shared();
    let topics = topics("unreachable").await;
    let config = config("unreachable", &topics, Transport::Sqs);
    let nowhere = emulator.config_at(&format!("http://{closed}"));
    let deps = SubscriptionDeps {
        tasks: Tasks::new(),
        clock: Clock::System,
        events: Arc::new(|_| {}),
        speaks: Arc::new(|_| false),
        is_live: Arc::new(|_| false),
        intake: Arc::new(Recorder::new(&config, mpsc::unbounded_channel().0, 0)),
        metrics: Arc::new(Metrics::default()),
        sdk: nearside::aws::clients::Sdk::given(nowhere),
    };
    let subscriptions = Subscriptions::start(&config, hurried(), &deps).unwrap();
    let mut status = subscriptions.watch(RegionId(2)).unwrap();
    let failed = status.wait_for(|status| status.failure.is_some());
    let failure = tokio::time::timeout(TIMEOUT, failed).await.unwrap().unwrap().failure.clone().unwrap();
    assert!(failure.saw.contains("CreateQueue") && failure.advice.contains("endpoint_url"), "{failure:?}");
    // Whether CreateQueue took effect cannot be known, so it is named rather than forgotten.
    let left = subscriptions.shutdown(TIMEOUT).await;
    assert!(left.iter().all(|left| left.subscription.is_none()));
    assert_eq!(left.len(), 3);
}
