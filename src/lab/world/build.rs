//! Builds a world: its ports, its parts, and the tasks that run them. [`World`] is the handle to
//! all of it. A built world answers on every port that it names; a stopped or dropped one answers
//! nowhere.

use std::io;
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
use crate::model::time::Clock;
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
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    pub async fn start(self) -> Result<World, WorldError> {
        let tasks = Tasks::new();
        let catalogue = Arc::new(WorldCatalogue::new(self.clock.clone()));
        catalogue.seed("tenant-", self.records)?;
        let aws = start_aws(hold(0, "the AWS endpoint")?, &self.clock, &tasks)?;
        let mut regions = Vec::new();
        for (index, (latency, lag)) in self.regions.iter().enumerate() {
            let own_etags = self.own_etags.then_some(index as u8);
            let habits = Habits { versions: self.versions, own_etags };
            let knobs = Knobs { mode: Mode::Healthy, latency: *latency, lag: *lag, habits, held: false };
            let port = hold(0, REGION_NAMES[index])?;
            regions.push(self.region_at(index, port, knobs, &catalogue, &aws, &tasks)?);
        }
        Ok(World { clock: self.clock, catalogue, regions: regions.into(), aws, tasks })
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
}

/// Serves SNS and SQS at `held` until the tasks stop.
pub(in crate::lab) fn start_aws(held: Port, clock: &Clock, tasks: &Tasks) -> Result<Aws, WorldError> {
    let base = format!("http://{}", held.address());
    // Deliveries go to loopback only, so no proxy and no root certificates are needed, and it
    // works in an image without CA certificates.
    let http = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .tls_certs_only([])
        .build()?;
    let queues = Arc::new(WorldQueues::new(clock.clone()));
    let seal = Seal::generate(clock.wall());
    let topics = Arc::new(Topics::new(clock.clone(), tasks.clone(), queues.clone(), seal, http));
    topics.serve_at(base.clone());
    let aws = Aws { topics, queues, base: base.into() };
    let listener = listen(&held, "the AWS endpoint")?;
    let (answering, serving) = (aws.clone(), tasks.clone());
    tasks.spawn("aws", async move {
        // Holds the port for as long as it is listened on.
        let _held = held;
        port::serve(listener, serving, "aws-connection", move |request| answering.clone().answer(request)).await;
    });
    Ok(aws)
}

/// Port `number` on loopback; 0 is any.
pub(in crate::lab) fn hold(number: u16, what: &str) -> Result<Port, WorldError> {
    Port::hold(number).map_err(|source| WorldError::Port { what: what.to_owned(), source })
}

pub(in crate::lab) fn listen(port: &Port, what: &str) -> Result<tokio::net::TcpListener, WorldError> {
    port.listen().map_err(|source| WorldError::Port { what: what.to_owned(), source })
}

pub struct World {
    pub clock: Clock,
    /// The source of truth.
    pub catalogue: Arc<WorldCatalogue>,
    /// The regions, in the order of [`REGION_NAMES`].
    pub regions: Arc<[Arc<WorldRegion>]>,
    pub aws: Aws,
    pub(crate) tasks: Tasks,
}

impl World {
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub fn region(&self, index: usize) -> &Arc<WorldRegion> {
        &self.regions[index]
    }

    /// Carries out `order` for the named region and its topic; returns `false` if there is none.
    pub async fn obey(&self, name: &str, order: ChaosOrder) -> bool {
        let Some(region) = self.regions.iter().find(|region| region.name == name) else { return false };
        self.aws.topics.set_faults(region.publisher.topic(), |faults| faults.obey(order));
        region.obey(order).await;
        true
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stopped_world_answers_nowhere() {
        let world = World::builder().regions(2).start().await.unwrap();
        let addresses = [world.region(0).address(), world.region(1).address()];
        world.stop(Duration::from_secs(2)).await;
        for address in addresses {
            assert!(tokio::net::TcpStream::connect(address).await.is_err(), "{address}");
        }
    }
}
