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
use nearside::sidecar::announcements::subscription::{Edges, Pace, Stage, SubscriptionStatus, Subscriptions};
use nearside::sidecar::announcements::{Intake, Receipt};
use nearside::tasks::Tasks;
use nearside::tasks::supervision::FailingTask;
use nearside::telemetry::metrics::Metrics;
use serde_json::Value;
use tokio::sync::mpsc;
use url::Url;

use super::emulator::{Emulator, REGIONS};

/// Longest wait for anything: far beyond what it takes, so that it only ends a test that has
/// failed.
const PATIENCE: Duration = Duration::from_secs(60);

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
    /// How many notifications are not applied at first.
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
    fn take(&self, region: RegionId, raw: Bytes, queued: Option<Wall>) -> BoxFuture<'static, Receipt> {
        let (verifier, taken, retries) = (self.verifier.clone(), self.taken.clone(), self.retries.clone());
        Box::pin(async move {
            let receipt = match verifier.verify(region, &raw).await.expect("the emulator signs what it sends") {
                Verified::Confirmation { token, .. } => Receipt::Confirm { token },
                Verified::Unsubscribed { published } => Receipt::Unsubscribed { published },
                Verified::Notification { .. } | Verified::Copy => {
                    let fewer = |left: usize| left.checked_sub(1);
                    match retries.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer) {
                        Ok(_) => Receipt::Retry,
                        Err(_) => Receipt::Acknowledge,
                    }
                }
            };
            let envelope = serde_json::from_slice(&raw).unwrap();
            let _test_ended = taken.send(Taken { region, envelope, queued });
            receipt
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

/// In a hurry, so that a loss is noticed within a test.
fn hurried() -> Pace {
    let short = Duration::from_millis(200);
    Pace {
        attest: short,
        attest_again: short,
        tag: short,
        again: (short, short * 5),
        confirm: PATIENCE,
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

    /// The same, with something that is called with every event first.
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
        let edges = Edges {
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
        let subscriptions = Subscriptions::start(&config, pace, &edges).unwrap();
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
        tokio::time::timeout(PATIENCE, all).await.expect("all regions are subscribed in time");
    }

    /// Other events go on all the time: the bound is on the whole wait.
    async fn until(&mut self, awaited: Event) {
        let came = async { while self.events.recv().await.unwrap() != awaited {} };
        tokio::time::timeout(PATIENCE, came).await.unwrap_or_else(|_| panic!("{awaited:?} comes in time"));
    }

    async fn publish(&self, region: usize, message: &str) {
        let topic = &self.topics[region];
        self.emulator.sns(&topic.region).publish().topic_arn(&topic.arn).message(message).send().await.unwrap();
    }

    async fn next(&mut self) -> Taken {
        tokio::time::timeout(PATIENCE, self.taken.recv()).await.expect("an envelope comes in time").unwrap()
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
        assert_eq!(self.subscriptions.shutdown(PATIENCE).await, []);
        assert_eq!(self.tasks.drain(PATIENCE).await, Vec::<&str>::new());
        for region in 0..self.topics.len() {
            assert_eq!(self.subscriptions_of(region).await, Vec::<String>::new());
        }
    }
}

fn config(service: &str, topics: &[TopicArn], transport: Transport) -> Config {
    let region = |topic: &TopicArn| config::RegionConfig {
        name: topic.region.clone(),
        url: Url::parse("http://127.0.0.1:1").unwrap(),
        topic: Some(topic.clone()),
        tls: config::RegionTls::default(),
    };
    let second = Duration::from_secs(1);
    Config {
        service: config::Service {
            name: service.to_owned(),
            regions: topics.iter().map(region).collect(),
            routes: Vec::new(),
            version_header: http::HeaderName::from_static("x-record-version"),
            authoritative: false,
        },
        listen: config::Listen {
            tcp: None,
            unix: None,
            allowed_hosts: Vec::new(),
            refuse_forwarded: false,
            allow_cross_site: false,
            fast: true,
            token_file: None,
            max_connections: 1,
        },
        admin: config::Admin { listen: "127.0.0.1:0".parse().unwrap(), unix: None, token_file: None },
        cache: config::Cache {
            ttl: second,
            negative_ttl: second,
            soft_ttl: second,
            max_bytes: Some(1),
            unrouted: nearside::config::Unrouted::Pass,
            stale_if_error: second,
        },
        race: config::RaceConfig { mode: config::RaceMode::All, deadline: second, primary: 0, permits: 1 },
        freshness: config::FreshnessConfig {
            heartbeats: config::Heartbeats::Auto,
            worst_lag: second,
            grace: Duration::ZERO,
            max_jump: 1,
            strict: false,
            audit_period: Duration::from_secs(600),
            state_file: None,
        },
        announcements: config::AnnouncementsConfig {
            transport,
            endpoint_url: Some(Emulator::shared().url()),
            insecure_sns_signer: Some(Emulator::shared().url()),
            queues: config::QueuesConfig::default(),
        },
        drain: config::Drain { linger: Duration::ZERO, deadline: second },
        log: config::Log { json: false, filter: "info".to_owned() },
    }
}

#[tokio::test]
async fn over_sqs_what_three_regions_publish_arrives_once_applied_is_deleted_and_shutdown_removes_all() {
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
    tokio::time::timeout(PATIENCE, empty).await.expect("what was acknowledged is deleted");
}

#[tokio::test]
async fn a_message_that_could_not_be_applied_stays_in_the_queue_and_comes_again() {
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
async fn a_poll_and_a_sound_look_at_the_attributes_are_reported_as_the_two_halves_of_weak_proof() {
    let mut world = World::over_sqs("weak", 0).await;
    world.subscribed().await;
    world.until(Event::Attested(RegionId(2))).await;
    world.publish(2, "ends the poll").await;
    world.until(Event::Polled(RegionId(2))).await;
    assert!(world.status(2).attested.is_some());
    world.shut_down().await;
}

#[tokio::test]
async fn a_queue_that_is_deleted_behind_our_back_is_lost_and_replaced() {
    // Only the poll can notice: no look and no tag comes in time.
    let pace = Pace { attest: PATIENCE * 10, tag: PATIENCE * 10, ..hurried() };
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
async fn a_subscription_that_is_deleted_behind_our_back_is_noticed_by_its_attributes_and_replaced() {
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
async fn a_filter_that_somebody_set_ends_the_subscription() {
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
async fn a_queue_whose_policy_no_longer_lets_its_topic_send_is_lost_and_replaced() {
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
async fn a_resubscription_that_freshness_asks_for_makes_a_new_queue_and_removes_the_old_one() {
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

#[tokio::test]
async fn the_janitor_removes_what_a_dead_sidecar_left_and_shows_it_first() {
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
    let of_ours = |report: &janitor::JanitorReport, fate: Fate| {
        let ours = |name: &str| name.contains(":janitor:") || name == dead;
        let mut found: Vec<What> = Vec::new();
        found.extend(report.findings.iter().filter(|one| one.fate == fate && ours(&one.name)).map(|one| one.what));
        found
    };
    let dry = janitor::sweep(&emulator.sdk(), &places, now, nearside::sidecar::limits::ABANDONED, true).await;
    assert!(dry.is_clean(), "{:?}", dry.failures);
    assert_eq!(of_ours(&dry, Fate::Doomed), [What::Queue, What::Subscription, What::Subscription]);
    assert_eq!(world.subscriptions_of(0).await.len(), 3, "a dry run removes nothing");

    let swept = janitor::sweep(&emulator.sdk(), &places, now, nearside::sidecar::limits::ABANDONED, false).await;
    assert!(swept.is_clean(), "{:?}", swept.failures);
    assert_eq!(of_ours(&swept, Fate::Removed), [What::Queue, What::Subscription, What::Subscription]);
    assert_eq!(world.subscriptions_of(0).await, [world.status(0).subscription.unwrap()], "what lives is kept");
    assert!(world.queue_url(0).await.is_some());
    let asked = sqs.get_queue_attributes().queue_url(made.queue_url.unwrap()).send().await;
    assert!(asked.unwrap_err().into_service_error().is_queue_does_not_exist());
    world.shut_down().await;
}

#[tokio::test]
async fn a_queue_is_tagged_as_alive_again_and_again() {
    let mut world = World::over_sqs("alive", 0).await;
    world.subscribed().await;
    // Not where the janitor sweeps in another test.
    let (sqs, url) = (world.emulator.sqs(REGIONS[1]), world.queue_url(1).await.unwrap());
    sqs.tag_queue().queue_url(&url).tags("alive", "5").send().await.unwrap();
    let retagged =
        async { while sqs.list_queue_tags().queue_url(&url).send().await.unwrap().tags.unwrap()["alive"] == "5" {} };
    tokio::time::timeout(PATIENCE, retagged).await.expect("the lifecycle tags its queue again");
    world.shut_down().await;
}

#[tokio::test]
async fn a_path_heartbeat_arrives_with_the_slot_it_was_published_in() {
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

/// The http transport on a port that is free now: `public_url` must name it before it is bound.
fn posted() -> Transport {
    let listen = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    Transport::Http { listen, public_url: Url::parse(&format!("http://{listen}/in")).unwrap() }
}

#[tokio::test]
async fn over_http_sns_confirms_through_the_sdk_and_posts_what_three_regions_publish() {
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
async fn over_http_an_unsubscription_that_we_did_not_ask_for_is_a_loss_and_mended() {
    // Only what SNS posts can tell: no look comes in time.
    let pace = Pace { attest: PATIENCE * 10, ..hurried() };
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
async fn a_subscription_that_panics_takes_its_queue_over() {
    let panicked = AtomicBool::new(false);
    let notice = move |event: &Event| {
        let is_subscribed = *event == Event::Subscribed(RegionId(1));
        assert!(!is_subscribed || panicked.swap(true, Ordering::SeqCst), "on purpose");
    };
    let mut world = World::start_noticing("panics", Transport::Sqs, 0, hurried(), notice).await;
    let mut status = world.subscriptions.watch(RegionId(1)).unwrap();
    let failed = status.wait_for(|status| status.failure.is_some());
    let failed = tokio::time::timeout(PATIENCE, failed).await.expect("it says so in time").unwrap().clone();
    assert!(failed.failure.unwrap().saw.contains("panicked"), "named for the region");
    assert_eq!(world.tasks.failing(), [FailingTask { name: "subscription", panics: 1 }]);
    world.subscribed().await;
    let again = status.wait_for(|status| status.stage == Stage::Subscribed && status.failure.is_none());
    let again = tokio::time::timeout(PATIENCE, again).await.expect("it is subscribed again").unwrap().clone();
    assert_eq!((again.queue, again.subscription), (failed.queue, failed.subscription), "nothing is made twice");
    assert_eq!(world.tasks.panics()["subscription"], 1);
    assert_eq!(world.subscriptions_of(1).await.len(), 1);
    world.publish(1, "still heard").await;
    assert_eq!(world.next_notification().await.envelope["Message"], "still heard");
    world.shut_down().await;
}

#[tokio::test]
async fn a_start_without_aws_does_not_wait_for_it_says_what_to_check_and_names_what_may_be_left() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let emulator = Emulator::shared();
    let topics = topics("unreachable").await;
    let config = config("unreachable", &topics, Transport::Sqs);
    let nowhere = emulator.config_at(&format!("http://{closed}"));
    let edges = Edges {
        tasks: Tasks::new(),
        clock: Clock::System,
        events: Arc::new(|_| {}),
        speaks: Arc::new(|_| false),
        is_live: Arc::new(|_| false),
        intake: Arc::new(Recorder::new(&config, mpsc::unbounded_channel().0, 0)),
        metrics: Arc::new(Metrics::default()),
        sdk: nearside::aws::clients::Sdk::given(nowhere),
    };
    let subscriptions = Subscriptions::start(&config, hurried(), &edges).unwrap();
    let mut status = subscriptions.watch(RegionId(2)).unwrap();
    let failed = status.wait_for(|status| status.failure.is_some());
    let failure = tokio::time::timeout(PATIENCE, failed).await.unwrap().unwrap().failure.clone().unwrap();
    assert!(failure.saw.contains("CreateQueue") && failure.advice.contains("endpoint_url"), "{failure:?}");
    // Whether CreateQueue was heard cannot be known, so it is named rather than forgotten.
    let left = subscriptions.shutdown(PATIENCE).await;
    assert!(left.iter().all(|left| left.subscription.is_none()));
    assert_eq!(left.len(), 3);
}
