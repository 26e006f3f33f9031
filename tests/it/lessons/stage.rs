//! Stage of the lessons: regions, each with an ingester, a table that can be made to fail, nodes
//! and a balancer in front of them; a home region, which is its table of views; and the lab's
//! topics and queues.
//!
//! Nothing reads a table but for a reader or an announcement: there are no audits. Heartbeats come
//! four times a second, so that bounds are of two seconds or so. The clock can leap: what takes a
//! minute of a process's life before its answers are at their best takes a moment here.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nearside::app::services::Engine;
use nearside::app::services::region::start_node;
use nearside::app::{self, App, Overrides};
use nearside::aws::clients::Sdk;
use nearside::config::services::{EngineConfig, ServedRegion};
use nearside::config::{Config, Drain};
use nearside::engine::faulty::{FaultRates, Faults, Faulty};
use nearside::engine::memory::MemoryStore;
use nearside::engine::{Condition, Item, ItemKey, ItemWrite, Stream, Table, Tables, Topic, bucket};
use nearside::model::ids::RegionId;
use nearside::model::time::{Clock, Moment};
use nearside::protocol::event::SubscriptionState;
use nearside::protocol::limits::STRONG_LEASE;
use nearside::region::ingest::{IngestParts, Ingester, is_complete};
use nearside::region::node::{self, NodeSettings};
use nearside::sidecar::announcements::subscription::Stage as Subscription;
use nearside::tasks::Tasks;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::super::stage::{in_time, until};
use super::proxy::Proxy;
use super::readers::{Readers, Written};
use super::table::{Latency, WatchedTable};
use crate::world::World;

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
const VIEW: &str = "limits";
const HEARTBEAT_EVERY: Duration = Duration::from_millis(250);
const DRAIN_DEADLINE: Duration = Duration::from_secs(20);
/// As much as a leap may be: shorter than what looks like a pause of the process.
pub(super) const LEAP: Duration = Duration::from_secs(5);
/// For so long everybody has listened when a lesson begins: over `freshness.worst_lag`, after which
/// one region's word is enough.
const SETTLED: Duration = Duration::from_secs(75);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// A table that is down.
pub(super) const DOWN: FaultRates = FaultRates { fails: 1.0, ..HEALTHY };
pub(super) const HEALTHY: FaultRates = FaultRates {
    fails: 0.0,
    throttles: 0.0,
    loses_answers: 0.0,
    is_slow: 0.0,
    slowness: Duration::ZERO,
    repeats: 0.0,
    reorders: 0.0,
    skips: 0.0,
    splits: 0.0,
    refuses: 0.0,
};

pub(super) struct Lesson {
    /// Follows tokio's, and leaps.
    pub(super) clock: Clock,
    pub(super) regions: Vec<Region>,
    /// One per region.
    pub(super) ingesting: Vec<Ingesting>,
    pub(super) written: Arc<Written>,
    pub(super) tasks: Tasks,
    home: MemoryStore,
    world: World,
}

pub(super) struct Region {
    name: &'static str,
    topic_arn: String,
    topic: Arc<dyn Topic>,
    table: MemoryStore,
    /// Faults of the table, for every client.
    pub(super) faults: Faults,
    /// Faults of the nodes' reads.
    pub(super) read_faults: Faults,
    pub(super) latency: Latency,
    pub(super) proxy: Proxy,
}

pub(super) struct Node {
    pub(super) app: App,
    pub(super) table: Arc<WatchedTable>,
}

impl Node {
    pub(super) fn address(&self) -> SocketAddr {
        self.app.tcp.unwrap()
    }

    pub(super) fn reads(&self) -> u64 {
        self.table.reads().values().sum()
    }
}

/// Who makes views.
pub(super) struct Writer {
    home: MemoryStore,
    written: Arc<Written>,
    clock: Clock,
}

/// An ingester at work.
pub(super) struct Ingesting {
    pub(super) ingester: Arc<Ingester>,
    killed: CancellationToken,
}

impl Ingesting {
    /// Ends it in the middle of whatever it does, without a word.
    pub(super) fn kill(&self) {
        self.killed.cancel();
    }

    fn is_on(&self) -> bool {
        !self.killed.is_cancelled()
    }

    /// Messages that its topic has taken, heartbeats not counted.
    pub(super) fn announced(&self) -> u64 {
        self.ingester.publisher().counts.metrics.announced.get()
    }
}

impl Lesson {
    /// Regions that have had these keys for long, at their first version. Their ingesters run.
    pub(super) async fn begin(names: &[&'static str], keys: impl Iterator<Item = String>) -> Self {
        let (tasks, clock) = (Tasks::new(), Clock::simulated(Clock::System.wall()));
        let world = World::builder().regions(1).clock(clock.clone()).start().await.unwrap();
        let sdk = Sdk::new(Url::parse(&world.aws.base).ok());
        let engine = Engine::open(&EngineConfig::Memory, sdk, &clock).await.unwrap();
        let mut regions = Vec::new();
        for name in names {
            let topic_arn = world.aws.topics.create(name, "views").unwrap();
            let (name_of, topic) = ((*name).to_owned(), topic_arn.parse().ok());
            let served = ServedRegion { name: name_of, topic, listen: ANY, admin: ANY, ..Default::default() };
            regions.push(Region {
                name,
                topic_arn,
                topic: engine.topic(&served).await,
                table: MemoryStore::new(clock.clone()),
                faults: Faults::default(),
                read_faults: Faults::default(),
                latency: Latency::new((0..=0).into()),
                proxy: Proxy::open(&tasks).await,
            });
        }
        let home = MemoryStore::new(clock.clone());
        let mut stage = Self { clock, regions, ingesting: Vec::new(), written: Arc::default(), tasks, home, world };
        stage.seed(keys);
        stage.ingesting = (0..stage.regions.len()).map(|region| stage.ingest(region)).collect();
        for (region, ingesting) in stage.regions.iter().zip(&stage.ingesting) {
            // A node that listens from now on does not receive that it began.
            in_time("a region to be complete", async {
                while !is_complete(&region.table).await.unwrap() {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            })
            .await;
            assert_eq!(ingesting.announced(), 1, "a RELOAD of the view");
        }
        stage
    }

    fn seed(&self, keys: impl Iterator<Item = String>) {
        for key in keys {
            let item = item(&key, 1);
            self.home.tamper(Table::Views, &item.key, Some(item.clone()));
            for region in &self.regions {
                region.table.tamper(Table::Contexts, &item.key, Some(item.clone()));
            }
        }
    }

    /// The next version of a view, as the views service writes it.
    pub(super) async fn write(&self, key: &str) -> u64 {
        self.writer().write(key).await
    }

    pub(super) fn writer(&self) -> Writer {
        Writer { home: self.home.clone(), written: self.written.clone(), clock: self.clock.clone() }
    }

    /// A node of a region, with changed settings; nothing leads to it yet.
    pub(super) async fn node(&self, region: usize, change: impl Fn(&mut Config)) -> Node {
        let region = &self.regions[region];
        let settings = NodeSettings {
            region: region.name.to_owned(),
            topic: Some(region.topic_arn.clone()),
            listen: ANY,
            hosts: Vec::new(),
            admin: ANY,
            views: vec![VIEW.to_owned()],
        };
        let mut config = node::config(&settings).unwrap();
        config.drain = Drain { linger: Duration::ZERO, deadline: DRAIN_DEADLINE, ..Default::default() };
        config.announcements.endpoint_url = Url::parse(&self.world.aws.base).ok();
        config.announcements.insecure_sns_signer = Url::parse(&self.world.aws.base).ok();
        config.freshness.audit_period = Duration::ZERO;
        change(&mut config);
        let table = Faulty::new(region.table.clone(), region.faults.clone());
        let table = Faulty::new(table, region.read_faults.clone());
        let table = WatchedTable::new(table, region.latency.clone());
        let instead = Overrides { clock: self.clock.clone(), ..Overrides::default() };
        let app = start_node(config, table.clone(), Arc::new(true.into()), instead).await.unwrap();
        Node { app, table }
    }

    /// A node behind the region's balancer, for each region.
    pub(super) async fn nodes(&self, change: impl Fn(&mut Config)) -> Vec<Node> {
        let mut nodes = Vec::new();
        for region in 0..self.regions.len() {
            let node = self.node(region, &change).await;
            self.regions[region].proxy.lead_to(node.address());
            nodes.push(node);
        }
        nodes
    }

    /// A sidecar in front of all regions, with these lines in its file besides, first under
    /// `[freshness]`. It waits for long, so that a busy machine fails no request.
    pub(super) async fn sidecar(&self, lines: &str) -> App {
        let aws = &self.world.aws.base;
        let mut text = format!(
            "[service]\nname = \"contexts\"\n\
             [[service.route]]\npath = \"/v1/contexts/{{key}}/{VIEW}\"\nrecords = [\"{VIEW}:{{key}}\"]\n\
             [listen]\ntcp = \"{ANY}\"\n[admin]\nlisten = \"{ANY}\"\n[drain]\nlinger = \"0s\"\ndeadline = \"20s\"\n\
             [announcements]\nendpoint_url = \"{aws}\"\ninsecure_sns_signer = \"{aws}\"\n\
             [race]\ndeadline = \"20s\"\n[freshness]\naudit_period = \"0s\"\n{lines}"
        );
        for Region { name, topic_arn, proxy, .. } in &self.regions {
            let address = proxy.address;
            text += &format!(
                "[[service.region]]\nname = \"{name}\"\nurl = \"http://{address}\"\ntopic = \"{topic_arn}\"\n"
            );
        }
        let instead = Overrides { clock: self.clock.clone(), ..Overrides::default() };
        app::start_with(super::super::program::read(&text), instead).await.unwrap()
    }

    /// Starts a region's ingester, and heartbeats in a hurry.
    pub(super) fn ingest(&self, region: usize) -> Ingesting {
        let region = &self.regions[region];
        let own: Arc<dyn Tables> = Arc::new(Faulty::new(region.table.clone(), region.faults.clone()));
        let ingester = Ingester::new(IngestParts {
            region: region.name.to_owned(),
            home: Arc::new(self.home.clone()),
            own,
            feed: Arc::new(self.home.feed(Stream::Views)),
            topic: region.topic.clone(),
            views: None,
            clock: self.clock.clone(),
        });
        let (holder, killed) = (format!("{:032x}", fastrand::u128(..)), CancellationToken::new());
        let (running, until) = (ingester.clone().run(holder, self.tasks.stopping()), killed.clone());
        self.tasks.spawn("ingest", async move { Box::pin(until.run_until_cancelled(running)).await });
        let (beating, until, stopping) = (ingester.clone(), killed.clone(), self.tasks.stopping());
        self.tasks.spawn("beats", async move {
            let beats = async {
                loop {
                    tokio::time::sleep(HEARTBEAT_EVERY).await;
                    beat(&beating).await;
                }
            };
            stopping.run_until_cancelled(until.run_until_cancelled(beats)).await;
        });
        Ingesting { ingester, killed }
    }

    /// Resolves once all of these listen to all of their regions, and have for over a minute.
    pub(super) async fn settle(&self, apps: &[&App]) {
        for app in apps {
            for region in 0..app.sidecar.fill.shared.names.len() {
                let subscriptions = app.subscriptions().unwrap();
                let mut status = subscriptions.watch(RegionId(region as u8)).unwrap();
                let subscribed = status.wait_for(|status| status.stage == Subscription::Subscribed);
                in_time("a subscription", subscribed).await.unwrap();
            }
        }
        self.pass(SETTLED, apps).await;
    }

    /// Lets so much time pass, in leaps, between which these hear every region that is not off.
    pub(super) async fn pass(&self, span: Duration, apps: &[&App]) {
        for _ in 0..span.as_secs() / LEAP.as_secs() {
            self.clock.suspend(LEAP);
            let now = self.clock.now();
            for ingesting in self.ingesting.iter().filter(|ingesting| ingesting.is_on()) {
                beat(&ingesting.ingester).await;
            }
            for app in apps {
                until("heartbeats after a leap", || self.has_heard(app, now)).await;
            }
        }
    }

    /// True if the lease of each of its regions that is not off holds from `now` on.
    fn has_heard(&self, app: &App, now: Moment) -> bool {
        let region_views = app.sidecar.fill.shared.freshness.region_views();
        app.sidecar.fill.shared.names.iter().zip(&region_views.regions).all(|(name, region_view)| {
            let place = self.regions.iter().position(|region| region.name == name).unwrap();
            !self.ingesting[place].is_on()
                || region_view.state == SubscriptionState::Live && region_view.lease_until >= now + STRONG_LEASE
        })
    }

    pub(super) fn readers(&self, address: SocketAddr) -> Arc<Readers> {
        Readers::of(address, self.clock.clone(), self.written.clone())
    }

    pub(super) async fn end(self, apps: Vec<App>) {
        for region in &self.regions {
            region.faults.set(HEALTHY);
            region.read_faults.set(HEALTHY);
            *region.latency.lock().unwrap() = 0..=0;
        }
        futures_util::future::join_all(apps.into_iter().map(App::stop)).await;
        self.tasks.drain(Duration::from_secs(20)).await;
        self.world.stop(Duration::from_secs(2)).await;
    }
}

/// A heartbeat besides those that an ingester sends every five seconds.
async fn beat(ingester: &Ingester) {
    let through = ingester.progress().through();
    let _ = ingester.publisher().heartbeat(through).await;
}

impl Writer {
    pub(super) async fn write(&self, key: &str) -> u64 {
        let version = self.written.newest(key) + 1;
        let put = ItemWrite::Put(Table::Views, item(key, version), Condition::Any);
        self.home.write(vec![put]).await.unwrap();
        self.written.note(key, version, self.clock.now());
        version
    }
}

fn item(key: &str, version: u64) -> Item {
    let place = ItemKey::new(bucket::partition(VIEW, key), key);
    Item::new(place, version).with_body(format!("{{\"users\":{version}}}"))
}
