//! A pretend service for tests of the sidecar: catalogue, regions that ingest late and announce, on
//! the lab's topics and queues, with all that can go wrong at a region's port. One process, on
//! loopback only and all in memory, so a new one is clean. The way of a change:
//!
//! ```text
//! catalogue -> ingest (lag) -> region -> publisher -> topic -> queue or HTTP post -> the sidecar
//!                                 ^                                                      |
//!                                 +--------------- GET (latency, chaos) ----------------+
//! ```
//!
//! A built world answers on every port that it names; a stopped or dropped one answers nowhere.

pub(crate) mod catalogue;
mod held;
mod ingest;
pub(crate) mod records;
mod region;

use std::sync::Arc;
use std::time::Duration;

use nearside::model::time::Clock;
use nearside::tasks::Tasks;
use nearside_lab::aws::Aws;
use nearside_lab::aws::publisher::TopicPublisher;
use nearside_lab::chaos_server::chaos::{ChaosOrder, Latency, Mode};
use nearside_lab::chaos_server::knobs::Knobs;
use nearside_lab::chaos_server::port::Port;
use nearside_lab::{LabError, REGION_NAMES, TOPIC};

use catalogue::WorldCatalogue;
pub(crate) use held::HeldReplies;
use region::{RegionParts, WorldRegion};

/// Default interval of a publisher's heartbeats.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(crate) struct Builder {
    clock: Clock,
    regions: Vec<(Latency, Duration)>,
    records: usize,
    heartbeat: Duration,
}

impl Default for Builder {
    fn default() -> Self {
        let region = (Latency::millis(0, 0), Duration::ZERO);
        Self { clock: Clock::System, regions: vec![region; 3], records: 0, heartbeat: HEARTBEAT_EVERY }
    }
}

impl Builder {
    /// Sets the number of regions, 1 to 16, under [`REGION_NAMES`]; the default is 3.
    #[must_use]
    pub(crate) fn regions(mut self, count: usize) -> Self {
        let first = self.regions.first().copied().unwrap_or((Latency::millis(0, 0), Duration::ZERO));
        self.regions.resize(count.clamp(1, REGION_NAMES.len()), first);
        self
    }

    /// Sets the latency of every region.
    #[must_use]
    pub(crate) fn latency(mut self, latency: Latency) -> Self {
        self.regions.iter_mut().for_each(|region| region.0 = latency);
        self
    }

    /// Latency and lag of the region at `index`, if there is one.
    #[must_use]
    pub(crate) fn region(mut self, index: usize, latency: Latency, lag: Duration) -> Self {
        if let Some(region) = self.regions.get_mut(index) {
            *region = (latency, lag);
        }
        self
    }

    /// The catalogue starts with `tenant-1` ... `tenant-{count}` at version 1.
    #[must_use]
    pub(crate) fn records(mut self, count: usize) -> Self {
        self.records = count;
        self
    }

    /// Sets the publishers' heartbeat interval; the default is 5 s.
    #[must_use]
    pub(crate) fn heartbeat(mut self, every: Duration) -> Self {
        self.heartbeat = every;
        self
    }

    #[must_use]
    pub(crate) fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    pub(crate) async fn start(self) -> Result<World, LabError> {
        let tasks = Tasks::new();
        let catalogue = Arc::new(WorldCatalogue::new(self.clock.clone()));
        catalogue.seed("tenant-", self.records).expect("a test's records fit");
        let aws = Aws::start(Port::hold_for(0, "the AWS endpoint")?, &self.clock, &tasks)?;
        let mut regions = Vec::new();
        for (index, (latency, lag)) in self.regions.iter().enumerate() {
            let knobs = Knobs { mode: Mode::Healthy, latency: *latency, lag: *lag, held: false };
            let parts = RegionParts {
                name: REGION_NAMES[index].to_owned(),
                port: Port::hold_for(0, REGION_NAMES[index])?,
                publisher: self.publisher(REGION_NAMES[index], &aws),
                catalogue: catalogue.clone(),
                clock: self.clock.clone(),
                knobs,
            };
            regions.push(self.run(parts, &tasks)?);
        }
        Ok(World { catalogue, regions: regions.into(), aws, tasks })
    }

    fn publisher(&self, region: &str, aws: &Aws) -> TopicPublisher {
        // A new world has room for its own topics, so creating them cannot fail.
        let topic = aws.topics.create(region, TOPIC).unwrap_or_default();
        let process = format!("{region}/{:016x}", fastrand::u64(..));
        TopicPublisher::new(process, topic, aws.topics.clone(), self.clock.clone())
    }

    fn run(&self, parts: RegionParts, tasks: &Tasks) -> Result<Arc<WorldRegion>, LabError> {
        let listener = parts.port.listen_for(&parts.name)?;
        let region = Arc::new(WorldRegion::new(parts));
        tasks.spawn("region", region.clone().run(listener, tasks.clone()));
        tasks.spawn("ingest", ingest::follow(region.clone(), self.clock.clone(), self.heartbeat, tasks.stopping()));
        Ok(region)
    }
}

pub(crate) struct World {
    /// The source of truth.
    pub(crate) catalogue: Arc<WorldCatalogue>,
    /// The regions, in the order of [`REGION_NAMES`].
    pub(crate) regions: Arc<[Arc<WorldRegion>]>,
    pub(crate) aws: Aws,
    tasks: Tasks,
}

impl World {
    pub(crate) fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn region(&self, index: usize) -> &Arc<WorldRegion> {
        &self.regions[index]
    }

    /// Carries out `order` for the named region and its topic; returns `false` if there is none.
    pub(crate) async fn obey(&self, name: &str, order: ChaosOrder) -> bool {
        let Some(region) = self.regions.iter().find(|region| region.name == name) else { return false };
        self.aws.topics.set_faults(region.publisher.topic(), |faults| faults.obey(order));
        region.obey(order).await;
        true
    }

    /// Holds every region's replies until the handle is dropped or released.
    pub(crate) async fn hold(&self) -> HeldReplies {
        for region in self.regions.iter() {
            region.turn(|knobs| knobs.held = true).await;
        }
        HeldReplies::new(self.regions.clone())
    }

    /// Resolves once every region has ingested and announced everything that is in the catalogue
    /// now.
    pub(crate) async fn ingested(&self) {
        let end = *self.catalogue.end().borrow();
        while self.regions.iter().any(|region| region.cursor() < end) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Ends everything within `deadline`.
    pub(crate) async fn stop(self, deadline: Duration) {
        self.tasks.drain(deadline).await;
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.tasks.stopping().cancel();
    }
}

#[cfg(test)]
mod says;
#[cfg(test)]
mod tests;
