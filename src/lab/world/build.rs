//! Builds a world: its ports, its parts, and the tasks that run them. [`World`] is the handle to
//! all of it. A built world answers on every port that it names; a stopped or dropped one answers
//! nowhere.

pub(crate) mod control;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::aws::Aws;
use super::catalogue::{PutRefused, WorldCatalogue};
use super::chaos::{ChaosOrder, Latency, Mode};
use super::held::HeldReplies;
use super::ingest;
use super::port::{self, Port};
use super::publisher::WorldPublisher;
use super::queue::WorldQueues;
use super::region::{RegionParts, WorldRegion};
use super::reply::Habits;
use super::seal::Seal;
use super::topic::{SubscriptionStanding, Topics};
use crate::lab::limits;
use crate::lab::world::knobs::Knobs;
use crate::model::time::{Clock, Moment};
use crate::protocol::limits::REGIONS;
use crate::tasks::Tasks;

/// Names of regions, in the order in which worlds use them.
pub const REGION_NAMES: [&str; REGIONS] = [
    "eu-west-1",
    "us-east-1",
    "ap-southeast-2",
    "us-west-2",
    "eu-central-1",
    "ap-northeast-1",
    "sa-east-1",
    "ca-central-1",
    "eu-north-1",
    "ap-south-1",
    "af-south-1",
    "me-south-1",
    "eu-west-2",
    "eu-west-3",
    "us-east-2",
    "us-west-1",
];
/// The name of each region's topic.
pub const TOPIC: &str = "context-changes";
/// The first region's port when ports are fixed; the other regions follow.
pub const REGION_PORT: u16 = 8711;
/// The AWS endpoint's port when ports are fixed.
pub const AWS_PORT: u16 = 8720;
/// The control endpoint's port when ports are fixed.
pub const CONTROL_PORT: u16 = 8730;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ports {
    /// [`REGION_PORT`] and so on; a taken port is replaced by a free one, with a note.
    Fixed,
    /// Any free ports.
    #[default]
    Ephemeral,
}

/// Why a world could not be built. The fault is the machine's; another attempt may help.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    #[error("no loopback port for {what}: {source}")]
    Port { what: String, source: io::Error },
    /// The HTTP client for deliveries could not be built.
    #[error("no HTTP client: {0}")]
    Client(#[from] reqwest::Error),
    /// More records than the catalogue holds.
    #[error(transparent)]
    Records(#[from] PutRefused),
}

#[derive(Clone, Debug)]
pub struct Builder {
    clock: Clock,
    ports: Ports,
    regions: Vec<(Latency, Duration)>,
    records: usize,
    heartbeat: Duration,
    versions: bool,
    own_etags: bool,
}

impl Default for Builder {
    fn default() -> Self {
        let region = (Latency::millis(0, 0), Duration::ZERO);
        Self {
            clock: Clock::System,
            ports: Ports::Ephemeral,
            regions: vec![region; 3],
            records: 0,
            heartbeat: limits::HEARTBEAT_EVERY,
            versions: true,
            own_etags: false,
        }
    }
}

impl Builder {
    /// How many regions, 1 to 16, under [`REGION_NAMES`]; the default is 3.
    #[must_use]
    pub fn regions(mut self, count: usize) -> Self {
        let first = self.regions.first().copied().unwrap_or((Latency::millis(0, 0), Duration::ZERO));
        self.regions.resize(count.clamp(1, REGIONS), first);
        self
    }

    /// How long every region takes to answer.
    #[must_use]
    pub fn latency(mut self, latency: Latency) -> Self {
        self.regions.iter_mut().for_each(|region| region.0 = latency);
        self
    }

    /// How late every region ingests.
    #[must_use]
    pub fn lag(mut self, lag: Duration) -> Self {
        self.regions.iter_mut().for_each(|region| region.1 = lag);
        self
    }

    /// Latency and lag of the region at `index`, if there is one.
    #[must_use]
    pub fn region(mut self, index: usize, latency: Latency, lag: Duration) -> Self {
        if let Some(region) = self.regions.get_mut(index) {
            *region = (latency, lag);
        }
        self
    }

    /// The catalogue starts with `tenant-1` ... `tenant-{count}` at version 1.
    #[must_use]
    pub fn records(mut self, count: usize) -> Self {
        self.records = count;
        self
    }

    /// How often publishers send heartbeats; the default is 5 s.
    #[must_use]
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.heartbeat = every;
        self
    }

    /// Each region has ETags of its own.
    #[must_use]
    pub fn own_etags(mut self) -> Self {
        self.own_etags = true;
        self
    }

    #[must_use]
    pub fn ports(mut self, ports: Ports) -> Self {
        self.ports = ports;
        self
    }

    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    pub async fn start(self) -> Result<World, WorldError> {
        let mut notes = Vec::new();
        let tasks = Tasks::new();
        let catalogue = Arc::new(WorldCatalogue::new(self.clock.clone()));
        catalogue.seed("tenant-", self.records)?;
        let aws = self.aws(&tasks, &mut notes)?;
        let mut regions = Vec::new();
        for (index, (latency, lag)) in self.regions.iter().enumerate() {
            let own_etags = self.own_etags.then_some(index as u8);
            let habits = Habits { versions: self.versions, own_etags };
            let knobs = Knobs { mode: Mode::Healthy, latency: *latency, lag: *lag, habits, held: false };
            let port = self.port(REGION_PORT + index as u16, REGION_NAMES[index], &mut notes)?;
            regions.push(self.region_at(index, port, knobs, &catalogue, &aws, &tasks)?);
        }
        let held = self.port(CONTROL_PORT, "the control endpoint", &mut notes)?;
        let world = World {
            clock: self.clock,
            catalogue,
            regions: regions.into(),
            aws,
            control: held.address(),
            tasks,
            notes,
        };
        let listener = listen(&held, "the control endpoint")?;
        let desk = control::Desk::new(&world);
        let answering = async move {
            // Holds the port for as long as it is listened on.
            let _held = held;
            port::serve(listener, desk.tasks.clone(), "control-connection", move |request| {
                desk.clone().answer(request)
            })
            .await;
        };
        world.tasks.spawn("control", answering);
        Ok(world)
    }

    fn aws(&self, tasks: &Tasks, notes: &mut Vec<String>) -> Result<Aws, WorldError> {
        let held = self.port(AWS_PORT, "the AWS endpoint", notes)?;
        let base = format!("http://{}", held.address());
        // Deliveries go to loopback only, so no proxy and no root certificates are needed, and it
        // works in an image without CA certificates.
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tls_certs_only([])
            .build()?;
        let queues = Arc::new(WorldQueues::new(self.clock.clone()));
        let seal = Seal::generate(self.clock.wall());
        let topics = Arc::new(Topics::new(self.clock.clone(), tasks.clone(), queues.clone(), seal, http));
        topics.serve_at(base.clone());
        let aws = Aws { topics, queues, base: base.into() };
        let listener = listen(&held, "the AWS endpoint")?;
        let (answering, serving) = (aws.clone(), tasks.clone());
        tasks.spawn("aws", async move {
            let _held = held;
            port::serve(listener, serving, "aws-connection", move |request| answering.clone().answer(request)).await;
        });
        Ok(aws)
    }

    fn region_at(
        &self,
        index: usize,
        port: Port,
        knobs: Knobs,
        catalogue: &Arc<WorldCatalogue>,
        aws: &Aws,
        tasks: &Tasks,
    ) -> Result<Arc<WorldRegion>, WorldError> {
        let name = REGION_NAMES[index];
        // A new world has room for its own topics, so creating them cannot fail.
        let topic = aws.topics.create(name, TOPIC).unwrap_or_default();
        let process = format!("{name}/{}", crate::lab::uuid::random());
        let publisher = WorldPublisher::new(process, topic, aws.topics.clone(), self.clock.clone());
        let listener = listen(&port, name)?;
        let parts = RegionParts {
            name: name.to_owned(),
            port,
            publisher,
            catalogue: catalogue.clone(),
            clock: self.clock.clone(),
            knobs,
        };
        let region = Arc::new(WorldRegion::new(parts));
        tasks.spawn("region", region.clone().run(listener, tasks.clone()));
        tasks.spawn("ingest", ingest::follow(region.clone(), self.clock.clone(), self.heartbeat, tasks.stopping()));
        Ok(region)
    }

    fn port(&self, number: u16, what: &str, notes: &mut Vec<String>) -> Result<Port, WorldError> {
        let failed = |source| WorldError::Port { what: what.to_owned(), source };
        if self.ports == Ports::Ephemeral {
            return Port::hold(0).map_err(failed);
        }
        match Port::hold(number) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let port = Port::hold(0).map_err(failed)?;
                notes.push(format!("port {number} is in use: {what} is on {} instead", port.address().port()));
                Ok(port)
            }
            outcome => outcome.map_err(failed),
        }
    }
}

fn listen(port: &Port, what: &str) -> Result<tokio::net::TcpListener, WorldError> {
    port.listen().map_err(|source| WorldError::Port { what: what.to_owned(), source })
}

pub struct World {
    pub clock: Clock,
    /// The source of truth.
    pub catalogue: Arc<WorldCatalogue>,
    /// The regions, in the order of [`REGION_NAMES`].
    pub regions: Arc<[Arc<WorldRegion>]>,
    pub aws: Aws,
    /// The address of the control endpoint, for `nearside dev put` and `chaos`.
    pub control: SocketAddr,
    /// What a person should know, such as ports that were taken.
    pub notes: Vec<String>,
    pub(crate) tasks: Tasks,
}

impl World {
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub fn region(&self, index: usize) -> &Arc<WorldRegion> {
        &self.regions[index]
    }

    /// Carries out `order` for the named region; returns `false` if there is none.
    pub async fn obey(&self, region: &str, order: ChaosOrder) -> bool {
        obey(&self.regions, &self.aws.topics, region, order).await
    }

    /// Holds every region's replies until the handle is dropped or released.
    pub async fn hold(&self) -> HeldReplies {
        for region in self.regions.iter() {
            region.turn(|knobs| knobs.held = true).await;
        }
        HeldReplies::new(self.regions.clone())
    }

    /// The current state of the topic of the region at `index`.
    pub fn topic(&self, index: usize) -> SubscriptionStanding {
        self.aws.topics.standing(self.regions[index].publisher.topic())
    }

    /// Resolves once every region has ingested and announced everything that is in the catalogue
    /// now.
    pub async fn ingested(&self) {
        let end = *self.catalogue.end().borrow();
        while self.regions.iter().any(|region| region.cursor() < end) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// For each region, when the last copy of the messages published at or after `since` was taken;
    /// `None` while one of them is still waiting.
    pub fn taken_since(&self, since: Moment) -> Vec<Option<Moment>> {
        let last = |region: &Arc<WorldRegion>| {
            let sent = self.aws.topics.sent(region.publisher.topic());
            let taken = sent.iter().filter(|sent| sent.published >= since).map(|sent| sent.taken.get().copied());
            taken.reduce(|one, other| Some(one?.max(other?))).flatten()
        };
        self.regions.iter().map(last).collect()
    }

    /// Ends everything within `deadline`.
    pub async fn stop(self, deadline: Duration) {
        self.tasks.drain(deadline).await;
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.tasks.stopping().cancel();
    }
}

/// Carries out `order` for the named region and its topic; returns `false` if there is none.
pub(crate) async fn obey(regions: &[Arc<WorldRegion>], topics: &Topics, name: &str, order: ChaosOrder) -> bool {
    let Some(region) = regions.iter().find(|region| region.name == name) else { return false };
    topics.set_faults(region.publisher.topic(), |faults| match order {
        ChaosOrder::Mute(mute) => faults.mute = mute,
        ChaosOrder::Delay(delay) => faults.delay = delay,
        ChaosOrder::Duplicate(duplicate) => faults.duplicate = duplicate,
        ChaosOrder::Reset => *faults = super::chaos::Delivery::default(),
        ChaosOrder::Mode(_) | ChaosOrder::Lag(_) | ChaosOrder::Latency(_) => {}
    });
    region.obey(order).await;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_second_world_on_fixed_ports_takes_others_and_says_so() {
        let first = World::builder().ports(Ports::Fixed).start().await.unwrap();
        let second = World::builder().ports(Ports::Fixed).start().await.unwrap();
        assert_eq!(second.notes.len(), 5, "{:?}", second.notes);
        assert!(second.notes[0].starts_with("port 8720 is in use: the AWS endpoint is on "));
        assert_ne!(first.control, second.control);
        let state = control::ask(second.control, &control::ControlCommand::State).await.unwrap();
        assert!(state.contains(&second.region(0).url()));
    }

    #[tokio::test]
    async fn a_stopped_world_answers_nowhere() {
        let world = World::builder().regions(2).start().await.unwrap();
        let addresses = [world.region(0).address(), world.region(1).address(), world.control];
        world.stop(Duration::from_secs(2)).await;
        for address in addresses {
            assert!(tokio::net::TcpStream::connect(address).await.is_err(), "{address}");
        }
    }
}
