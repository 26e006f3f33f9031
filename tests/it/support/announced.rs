//! Owns a sidecar in front of three regions that listens to the emulator's topics: what the tests
//! of the announcement path share.
//!
//! Invariant: the sidecar is the one that runs in production, configured by text; only how hurried
//! its subscriptions are (and, where a test says so, its clock) is the test's.

use std::time::Duration;

use futures_util::future::join_all;
use nearside::app::{self, App, Overrides};
use nearside::config::TopicArn;
use nearside::model::ids::RegionId;
use nearside::model::time::Clock;
use nearside::protocol::region_views::RegionView;
use nearside::sidecar::announcements::subscription::{Pace, Stage, SubscriptionStatus};
use nearside_lab::chaos_server::port::Port;
use serde_json::Value;
use url::Url;

use super::emulator::{Emulator, REGIONS};
use crate::world::World;
use crate::world::records::StoredRecord;

/// Longest wait for anything: far beyond what it takes, so that it only ends a test that has
/// failed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// Between two looks at something that is waited for.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Settings that a test may choose.
pub(crate) struct Wish {
    /// The service's and the topics' name: a test's own.
    pub(crate) name: &'static str,
    /// `sqs` or `http`.
    pub(crate) transport: &'static str,
    /// Who signs; the emulator unless the test does itself.
    pub(crate) signer: Option<Url>,
    pub(crate) clock: Clock,
    /// Lines of `[freshness]`.
    pub(crate) freshness: String,
}

impl Wish {
    pub(crate) fn over(transport: &'static str, name: &'static str) -> Self {
        Self { name, transport, signer: None, clock: Clock::System, freshness: String::new() }
    }
}

/// Answer to one request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    /// `X-Record-Version`, 0 when there is none.
    pub(crate) version: u64,
    /// `Cache-Status`
    pub(crate) label: String,
}

impl Seen {
    pub(crate) fn is_hit(&self) -> bool {
        self.label.contains("; hit")
    }
}

/// Three regions, three topics, one sidecar.
pub(crate) struct Announced {
    pub(crate) world: World,
    pub(crate) topics: Vec<TopicArn>,
    pub(crate) app: App,
    pub(crate) client: reqwest::Client,
    sns: Vec<aws_sdk_sns::Client>,
    /// Port that SNS posts to: held, so that nobody else is given it before the sidecar listens
    /// there.
    _posted_to: Port,
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

impl Announced {
    /// Starts all of it; nothing is subscribed yet.
    pub(crate) async fn start(wish: Wish) -> Self {
        let emulator = Emulator::shared();
        let world = World::builder().start().await.unwrap();
        let mut topics = Vec::new();
        for (region, signature) in REGIONS.into_iter().zip([1, 2, 2]) {
            topics.push(emulator.topic(region, wish.name, signature).await);
        }
        let port = Port::hold(0).unwrap();
        let config = crate::program::read(&settings(&wish, &world, &topics, &port));
        let instead = Overrides { clock: wish.clock, pace: Some(hurried()), ..Overrides::default() };
        let app = app::start_with(config, instead).await.unwrap();
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let sns = REGIONS.into_iter().map(|region| emulator.sns(region)).collect();
        Self { world, topics, app, client, sns, _posted_to: port }
    }

    /// Starts, and waits until every region is subscribed.
    pub(crate) async fn subscribed(wish: Wish) -> Self {
        let announced = Self::start(wish).await;
        for region in 0..3 {
            announced.until_subscribed(region).await;
        }
        announced
    }

    pub(crate) async fn until_subscribed(&self, region: usize) {
        let subscriptions = self.app.subscriptions().unwrap();
        let mut status = subscriptions.watch(RegionId(region as u8)).unwrap();
        let subscribed = status.wait_for(|status| status.stage == Stage::Subscribed);
        tokio::time::timeout(TIMEOUT, subscribed).await.expect("a region is subscribed in time").unwrap();
    }

    /// Stores a record in all three regions at once.
    pub(crate) fn put(&self, key: &str, version: u64) {
        for region in self.world.regions.iter() {
            let value = Some(format!("{{\"n\":{version}}}").into());
            region.ingest(key.into(), StoredRecord { version, value });
        }
    }

    /// Publishes on one region's topic.
    pub(crate) async fn publish(&self, region: usize, message: &str) {
        let topic = &self.topics[region].arn;
        self.sns[region].publish().topic_arn(topic).message(message).send().await.unwrap();
    }

    /// Publishes on all topics at once.
    pub(crate) async fn publish_everywhere(&self, message: &str) {
        join_all((0..3).map(|region| self.publish(region, message))).await;
    }

    /// Asks the sidecar as a caller would.
    pub(crate) async fn read(&self, key: &str) -> Seen {
        let url = format!("http://{}/v1/contexts/{key}", self.app.tcp.unwrap());
        let response = self.client.get(url).send().await.unwrap();
        let [version, label] = ["x-record-version", "cache-status"]
            .map(|name| response.headers().get(name).map_or("", |value| value.to_str().unwrap()).to_owned());
        let (status, version) = (response.status().as_u16(), version.parse().unwrap_or_default());
        response.bytes().await.unwrap();
        Seen { status, version, label }
    }

    /// Content of `/readyz`: the word, and the reasons as one text.
    pub(crate) async fn ready(&self) -> (String, String) {
        let said: Value = serde_json::from_str(&self.page("readyz").await).unwrap();
        (said["state"].as_str().unwrap().to_owned(), lines(&said["reasons"]))
    }

    /// Warnings of `/status` although the sidecar is fresh, as one text.
    pub(crate) async fn warnings(&self) -> String {
        let said: Value = serde_json::from_str(&self.page("status").await).unwrap();
        lines(&said["warnings"])
    }

    pub(crate) async fn page(&self, name: &str) -> String {
        let url = format!("http://{}/{name}", self.app.admin);
        self.client.get(url).send().await.unwrap().text().await.unwrap()
    }

    /// Announcements of all regions that `/metrics` counts under `outcome`.
    pub(crate) async fn counted(&self, outcome: &str) -> u64 {
        let page = self.page("metrics").await;
        let label = format!("outcome=\"{outcome}\"}} ");
        let announced = page.lines().filter(|line| line.starts_with("nearside_announcements_total{"));
        announced.filter_map(|line| line.split_once(&label)?.1.parse::<u64>().ok()).sum()
    }

    /// Waits until so many have been counted.
    pub(crate) async fn until_counted(&self, outcome: &str, count: u64) {
        until(&format!("{count} {outcome}"), async || self.counted(outcome).await >= count).await;
    }

    pub(crate) fn region_view(&self, region: usize) -> RegionView {
        self.app.sidecar.fill.shared.freshness.region_views().regions[region]
    }

    pub(crate) fn status(&self, region: usize) -> SubscriptionStatus {
        let all = self.app.subscriptions().unwrap().status();
        all.into_iter().find(|status| status.region.index() == region).unwrap()
    }

    /// Requests that the regions got for this record.
    pub(crate) fn asked(&self, key: &str) -> u64 {
        self.world.regions.iter().map(|region| region.traffic.to(&format!("/v1/contexts/{key}"))).sum()
    }

    pub(crate) async fn queue_url(&self, region: usize) -> String {
        let name = self.status(region).queue.unwrap();
        let asked = Emulator::shared().sqs(REGIONS[region]).get_queue_url().queue_name(name).send().await;
        asked.unwrap().queue_url.unwrap()
    }

    /// Stops it in order; nothing is left behind.
    pub(crate) async fn stop(self) {
        let stopped = self.app.stop().await;
        assert_eq!((stopped.late, stopped.left_behind), (Vec::new(), 0));
        self.world.stop(TIMEOUT).await;
    }
}

fn lines(said: &Value) -> String {
    let lines = said.as_array().unwrap().iter().map(|line| line.as_str().unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

/// The announcement of a publisher that knows nothing but record and version.
pub(crate) fn changed(key: &str, version: u64) -> String {
    format!("{{\"recordType\":\"context\",\"key\":\"{key}\",\"version\":{version}}}")
}

/// A message of the topic that concerns no route: a proof of the path.
pub(crate) const NOTHING: &str = "{\"recordType\":\"elsewhere\",\"key\":\"x\",\"version\":1}";

/// Waits until `condition` holds.
pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let holds = async {
        while !condition().await {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(TIMEOUT, holds).await.unwrap_or_else(|_| panic!("in time: {what}"));
}

/// Waits until the queue at `url` holds no message, visible or hidden.
pub(crate) async fn emptied(sqs: &aws_sdk_sqs::Client, url: &str) {
    use aws_sdk_sqs::types::QueueAttributeName::{
        ApproximateNumberOfMessages as Waiting, ApproximateNumberOfMessagesNotVisible as Hidden,
    };
    until("the queue is empty", async || {
        let asked = sqs.get_queue_attributes().queue_url(url).attribute_names(Waiting).attribute_names(Hidden);
        let counts = asked.send().await.unwrap().attributes.unwrap();
        counts[&Waiting] == "0" && counts[&Hidden] == "0"
    })
    .await;
}

/// Only a test that asks for audits has requests that no caller made.
fn freshness(wish: &Wish) -> String {
    let audits = if wish.freshness.contains("audit_period") { "" } else { "audit_period = \"0s\"\n" };
    format!("[freshness]\n{audits}{}", wish.freshness)
}

fn settings(wish: &Wish, world: &World, topics: &[TopicArn], port: &Port) -> String {
    let mut text = format!("service.name = \"{}\"\n", wish.name);
    for (region, topic) in world.regions.iter().zip(topics) {
        let (name, url, topic) = (&topic.region, region.url(), &topic.arn);
        text += &format!("[[service.region]]\nname = \"{name}\"\nurl = \"{url}\"\ntopic = \"{topic}\"\n");
    }
    let aws = Emulator::shared().url();
    let signer = wish.signer.as_ref().unwrap_or(&aws);
    text += &format!(
        "[[service.route]]\npath = \"/v1/contexts/{{key}}\"\nrecords = [\"context:{{key}}\"]\n\
         [listen]\ntcp = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [drain]\nlinger = \"0s\"\ndeadline = \"20s\"\n{}\n\
         [announcements]\ntransport = \"{}\"\nendpoint_url = \"{aws}\"\ninsecure_sns_signer = \"{signer}\"\n",
        freshness(wish),
        wish.transport
    );
    if wish.transport == "http" {
        let listen = port.address();
        text += &format!("http_listen = \"{listen}\"\nhttp_public_url = \"http://{listen}/in\"\n");
    }
    text
}
