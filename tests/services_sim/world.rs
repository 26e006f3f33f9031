//! The world: home, the regions, what goes wrong at each, and the processes that live there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use nearside::catalogue::{Catalogue, RecordTypes};
use nearside::engine::Stream;
use nearside::engine::faulty::{Faults, Faulty};
use nearside::engine::memory::MemoryStore;
use nearside::model::time::Clock;
use nearside::region::ingest::{IngestParts, Ingester};
use nearside::tasks::TaskGroup;
use nearside::views::{self, ViewsCounters, ViewsService};

use super::check::Shared;
use super::deliveries::Deliveries;
use super::faults::Fault;
use super::gate::{Gate, Gated};
use super::made;
use super::node::Node;
use super::place::{EPOCH, Place, StreamFeed, Watched, WorldTopic};
use super::plan::{Plan, SKEW, between, seconds};
use super::readers::Stir;

/// One of the two of a role at a place; most are candidates for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Process {
    Catalogue(usize),
    Views(usize),
    Ingest(usize, usize),
    /// Both serve.
    Node(usize, usize),
}

/// Faults of one place.
#[derive(Clone, Default)]
pub(crate) struct Troubles {
    pub(crate) tables: Faults,
    /// Home's is the feed of records, a region's that of views.
    pub(crate) feed: Faults,
    pub(crate) topic: Faults,
}

/// A catalogue, and whether it lives.
type LiveCatalogue = (Arc<Catalogue>, Arc<Gate>);
type LiveNode = (Arc<Node>, Arc<Gate>);

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) clock: Clock,
    pub(crate) checker: Shared,
    pub(crate) home: MemoryStore,
    pub(crate) regions: Vec<MemoryStore>,
    pub(crate) troubles: BTreeMap<Place, Troubles>,
    pub(crate) splits: [Arc<Mutex<Option<u64>>>; 2],
    pub(crate) gates: Mutex<BTreeMap<Process, Arc<Gate>>>,
    pub(crate) catalogues: Mutex<BTreeMap<usize, LiveCatalogue>>,
    /// Nodes by region and number.
    pub(crate) nodes: Mutex<BTreeMap<(usize, usize), LiveNode>>,
    /// Deliveries of each region's topic.
    pub(crate) deliveries: Vec<Arc<Deliveries>>,
    pub(crate) requests: Mutex<TaskGroup<()>>,
    pub(crate) next_request: AtomicU64,
    pub(crate) is_calm: AtomicBool,
    /// The definition is out: the second candidate has it, and when all is calm the first too.
    pub(crate) is_defined: AtomicBool,
}

impl World {
    /// Makes a world that sends its views' events to `stir`.
    pub(crate) fn new(plan: Plan, stir: UnboundedSender<Stir>, tells: bool) -> Arc<Self> {
        let clock = Clock::simulated(EPOCH);
        let places = (0..plan.regions).map(Place::Region).chain([Place::Home]);
        Arc::new(Self {
            checker: Shared::new(clock.clone(), &plan, stir, tells),
            home: MemoryStore::new(clock.clone()),
            regions: (0..plan.regions).map(|_| MemoryStore::new(clock.clone())).collect(),
            troubles: places.map(|place| (place, Troubles::default())).collect(),
            splits: Default::default(),
            gates: Mutex::default(),
            catalogues: Mutex::default(),
            nodes: Mutex::default(),
            deliveries: (0..plan.regions).map(|_| Arc::default()).collect(),
            requests: Mutex::default(),
            next_request: AtomicU64::new(1),
            is_calm: AtomicBool::new(false),
            is_defined: AtomicBool::new(false),
            clock,
            plan,
        })
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.plan.faults.contains(&fault)
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::Relaxed)
    }

    pub(crate) fn definition(&self) -> u64 {
        1 + u64::from(self.is_defined.load(Ordering::Relaxed))
    }

    fn tables(&self, place: Place, gate: &Arc<Gate>) -> Arc<Gated<Faulty<Watched>>> {
        let store = match place {
            Place::Home => self.home.clone(),
            Place::Region(region) => self.regions[region].clone(),
        };
        let watched = Watched { store, place, checker: self.checker.clone() };
        Gated::new(Faulty::new(watched, self.troubles[&place].tables.clone()), gate)
    }

    fn feed(&self, place: Place, gate: &Arc<Gate>) -> Arc<Gated<Faulty<StreamFeed>>> {
        let (stream, split) = match place {
            Place::Home => (Stream::Changes, &self.splits[0]),
            Place::Region(_) => (Stream::Views, &self.splits[1]),
        };
        let feed = self.home.feed(stream);
        let feed = StreamFeed { feed, stream, checker: self.checker.clone(), split: split.clone() };
        Gated::new(Faulty::new(feed, self.troubles[&place].feed.clone()), gate)
    }

    /// A process's own clock.
    fn own_clock(&self) -> Clock {
        let clock = Clock::simulated(self.clock.wall());
        if self.has(Fault::Skewed) {
            let most = SKEW.as_millis() as i64;
            clock.step_wall(fastrand::i64(-most..=most));
        }
        clock
    }

    async fn live(self: Arc<Self>, process: Process, gate: Arc<Gate>, stopping: CancellationToken) {
        let (clock, holder) = (self.own_clock(), format!("{:x}", fastrand::u64(..)));
        let home = self.tables(Place::Home, &gate);
        match process {
            Process::Catalogue(number) => {
                let types = ["tenant", "shard", "plan"].map(|name| (name.to_owned(), true.into()));
                let types = RecordTypes::compile(types).expect("they are types");
                let catalogue = Arc::new(Catalogue::new(home, clock, types));
                self.catalogues.lock().expect("a plain store").insert(number, (catalogue, gate));
                stopping.cancelled().await;
            }
            Process::Views(number) => {
                let is_old = number == 0 && !self.is_calm();
                let definition = if is_old { 1 } else { self.definition() };
                let definitions = views::read("views.toml", &made::file(definition), None).expect("they are right");
                let service = ViewsService {
                    definitions: definitions.into_iter().map(Arc::new).collect(),
                    store: home,
                    feed: self.feed(Place::Home, &gate),
                    clock,
                    holder,
                    views_per_second: self.plan.views_per_second,
                    sweep_period: self.plan.sweep_period,
                    status: Arc::default(),
                    counters: ViewsCounters::default(),
                    progress: Arc::default(),
                };
                if let Err(error) = service.run(&stopping).await {
                    self.checker.lock().violated("Adopted", error.to_string());
                }
            }
            Process::Ingest(region, _) => {
                let place = Place::Region(region);
                let topic = WorldTopic {
                    region,
                    own: self.regions[region].clone(),
                    checker: self.checker.clone(),
                    clock: self.clock.clone(),
                    deliveries: self.deliveries[region].clone(),
                };
                let parts = IngestParts {
                    region: format!("region-{region}"),
                    home,
                    own: self.tables(place, &gate),
                    feed: self.feed(place, &gate),
                    topic: Gated::new(Faulty::new(topic, self.troubles[&place].topic.clone()), &gate),
                    views: None,
                    clock,
                };
                Ingester::sweeping(parts, self.plan.sweep_every).run(holder, stopping).await;
            }
            Process::Node(region, number) => {
                let table = self.tables(Place::Region(region), &gate);
                let node = Node::new(region, table, self.deliveries[region].queue(number), clock);
                let node = Arc::new(node);
                self.nodes.lock().expect("a plain store").insert((region, number), (node.clone(), gate.clone()));
                let _ = stopping.run_until_cancelled(node.live(&gate)).await;
            }
        }
    }

    /// Starts a process again and again, and ends it.
    pub(crate) async fn supervise(self: Arc<Self>, process: Process) {
        loop {
            let dies = self.has(Fault::KilledAfterCall) && !self.is_calm() && fastrand::bool();
            let gate = Gate::dying_after(dies.then(|| fastrand::u64(1..300)));
            self.gates.lock().expect("a plain store").insert(process, gate.clone());
            let stopping = CancellationToken::new();
            self.checker.say(|| format!("{process:?} starts"));
            let mut life = TaskGroup::new();
            life.start(self.clone().live(process, gate.clone(), stopping.clone()));
            let until = Instant::now() + between(seconds(2), seconds(60));
            let is_stopped = tokio::select! {
                biased;
                () = gate.dead() => false,
                _ = life.next() => false,
                () = self.is_wanted_dead(until) => fastrand::u8(..3) == 0,
            };
            if is_stopped {
                stopping.cancel();
                let _ = tokio::time::timeout(seconds(2), life.next()).await;
            }
            gate.kill();
            drop(life);
            if let Process::Node(region, number) = process {
                let node = self.nodes.lock().expect("a plain store").remove(&(region, number));
                if let Some((node, _)) = node {
                    node.end().await;
                }
            }
            self.checker.lock().count("processes ended");
            self.checker.say(|| format!("{process:?} ends, stopped {is_stopped}"));
            let down = if self.is_calm() { 500 } else { 8_000 };
            tokio::time::sleep(Duration::from_millis(fastrand::u64(100..down))).await;
        }
    }

    async fn is_wanted_dead(&self, at: Instant) {
        tokio::time::sleep_until(at).await;
        if !self.has(Fault::Killed) || self.is_calm() {
            std::future::pending().await
        }
    }
}
