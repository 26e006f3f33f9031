//! Owns the making of a world: its ports, its parts, and the tasks that run them.
//!
//! Before it: `nearside dev` or a test says what it wants. After it: [`World`] is the handle to all of it. Invariant:
//! a world that was built answers on every port it names; a stopped or dropped one answers nowhere.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::aws::Aws;
use super::catalogue::{Catalogue, Refused};
use super::chaos::{Latency, Mode, Order};
use super::held::Held;
use super::port::{self, Port};
use super::publisher::Publisher;
use super::queue::Queues;
use super::region::{Knobs, Parts, Region};
use super::reply::Habits;
use super::seal::Seal;
use super::topic::{Standing, Topics};
use super::{control, ingest};
use crate::lab::limits;
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
/// The topic of each region.
pub const TOPIC: &str = "context-changes";
/// The region's first port when ports are fixed; the others follow.
pub const REGION_PORT: u16 = 8711;
/// The AWS endpoint's port when ports are fixed.
pub const AWS_PORT: u16 = 8720;
/// The control endpoint's port when ports are fixed.
pub const CONTROL_PORT: u16 = 8730;

/// Which ports a world takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ports {
    /// [`REGION_PORT`] and so on; another one, with a note, where one is taken.
    Fixed,
    /// Any that are free.
    #[default]
    Ephemeral,
}

/// Why there is no world. The machine's fault; another try may help.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// No loopback port.
    #[error("no loopback port for {what}: {source}")]
    Port {
        /// Who wanted it.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// No HTTP client for deliveries.
    #[error("no HTTP client: {0}")]
    Client(#[from] reqwest::Error),
    /// More records than the catalogue holds.
    #[error(transparent)]
    Records(#[from] Refused),
}

/// What a world is to be.
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
    /// So many regions, 1 to 16, under [`REGION_NAMES`]; 3 otherwise.
    #[must_use]
    pub fn regions(mut self, count: usize) -> Self {
        let first = self.regions.first().copied().unwrap_or((Latency::millis(0, 0), Duration::ZERO));
        self.regions.resize(count.clamp(1, REGIONS), first);
        self
    }

    /// Every region answers in this time.
    #[must_use]
    pub fn latency(mut self, latency: Latency) -> Self {
        self.regions.iter_mut().for_each(|region| region.0 = latency);
        self
    }

    /// Every region ingests this late.
    #[must_use]
    pub fn lag(mut self, lag: Duration) -> Self {
        self.regions.iter_mut().for_each(|region| region.1 = lag);
        self
    }

    /// The region at `index` (if there is one) answers and ingests so.
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

    /// How often publishers send heartbeats: 5 s otherwise.
    #[must_use]
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.heartbeat = every;
        self
    }

    /// Replies state no versions.
    #[must_use]
    pub fn without_versions(mut self) -> Self {
        self.versions = false;
        self
    }

    /// Each region has ETags of its own.
    #[must_use]
    pub fn own_etags(mut self) -> Self {
        self.own_etags = true;
        self
    }

    /// Which ports.
    #[must_use]
    pub fn ports(mut self, ports: Ports) -> Self {
        self.ports = ports;
        self
    }

    /// Whose time it is.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Builds it and starts it.
    pub async fn start(self) -> Result<World, WorldError> {
        let mut notes = Vec::new();
        let tasks = Tasks::new();
        let catalogue = Arc::new(Catalogue::new(self.clock.clone()));
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
            // Held for as long as it is listened on.
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
        // Loopback only, so no proxy and no roots: an image without CA certificates runs it too.
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tls_certs_only([])
            .build()?;
        let queues = Arc::new(Queues::new(self.clock.clone()));
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
        catalogue: &Arc<Catalogue>,
        aws: &Aws,
        tasks: &Tasks,
    ) -> Result<Arc<Region>, WorldError> {
        let name = REGION_NAMES[index];
        // A world has room for its own topics.
        let topic = aws.topics.create(name, TOPIC).unwrap_or_default();
        let process = format!("{name}/{}", super::deliver::uuid());
        let publisher = Publisher::new(process, topic, aws.topics.clone(), self.clock.clone());
        let listener = listen(&port, name)?;
        let parts = Parts {
            name: name.to_owned(),
            port,
            publisher,
            catalogue: catalogue.clone(),
            clock: self.clock.clone(),
            knobs,
        };
        let region = Arc::new(Region::new(parts));
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

/// A running world.
pub struct World {
    /// The time in it.
    pub clock: Clock,
    /// The source of truth.
    pub catalogue: Arc<Catalogue>,
    /// The regions, in the order of [`REGION_NAMES`].
    pub regions: Arc<[Arc<Region>]>,
    /// Topics and queues.
    pub aws: Aws,
    /// Where `nearside dev put` and `chaos` reach it.
    pub control: SocketAddr,
    /// What a person should know: ports that were taken.
    pub notes: Vec<String>,
    pub(crate) tasks: Tasks,
}

impl World {
    /// Says what it is to be.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The region at `index`.
    pub fn region(&self, index: usize) -> &Arc<Region> {
        &self.regions[index]
    }

    /// Carries out `order` for the region of that name; false when there is none.
    pub async fn obey(&self, region: &str, order: Order) -> bool {
        obey(&self.regions, &self.aws.topics, region, order).await
    }

    /// Holds every region's replies until the handle is dropped or released.
    pub async fn hold(&self) -> Held {
        for region in self.regions.iter() {
            region.turn(|knobs| knobs.held = true).await;
        }
        Held::new(self.regions.clone())
    }

    /// How the topic of the region at `index` stands.
    pub fn topic(&self, index: usize) -> Standing {
        self.aws.topics.standing(self.regions[index].publisher.topic())
    }

    /// Resolves once every region has ingested and announced all that is in the catalogue now.
    pub async fn ingested(&self) {
        let end = *self.catalogue.end().borrow();
        while self.regions.iter().any(|region| region.cursor() < end) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// When the copies of messages published at or after `since` were taken, per region; `None` where one still is not.
    pub fn taken_since(&self, since: Moment) -> Vec<Option<Moment>> {
        let last = |region: &Arc<Region>| {
            let sent = self.aws.topics.sent(region.publisher.topic());
            let taken = sent.iter().filter(|sent| sent.published >= since).map(|sent| sent.taken.get().copied());
            taken.reduce(|one, other| Some(one?.max(other?))).flatten()
        };
        self.regions.iter().map(last).collect()
    }

    /// Ends everything, within `deadline`.
    pub async fn stop(self, deadline: Duration) {
        self.tasks.drain(deadline).await;
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.tasks.stopping().cancel();
    }
}

/// Carries out `order` for the region of that name, and for its topic; false when there is none.
pub(crate) async fn obey(regions: &[Arc<Region>], topics: &Topics, name: &str, order: Order) -> bool {
    let Some(region) = regions.iter().find(|region| region.name == name) else { return false };
    topics.set_faults(region.publisher.topic(), |faults| match order {
        Order::Mute(mute) => faults.mute = mute,
        Order::Delay(delay) => faults.delay = delay,
        Order::Duplicate(duplicate) => faults.duplicate = duplicate,
        Order::Reset => *faults = super::chaos::Delivery::default(),
        Order::Mode(_) | Order::Lag(_) | Order::Latency(_) => {}
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
        let state = control::ask(second.control, &control::Command::State).await.unwrap();
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
