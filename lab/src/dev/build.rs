//! Builds the world of `nearside-lab dev`: the services on one embedded engine, as each runs in
//! production, but in one process, and the lab's parts around them. The node and the ingester of a
//! region are two services, so that nothing is announced before somebody listens.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use nearside::app::services::{
    self, Contents, Engine, RegionDuties, RunningService, ServiceOverrides, ServiceProcess, ServiceStartError,
};
use nearside::aws::clients::Sdk;
use nearside::catalogue::limits::BATCH_RECORDS;
use nearside::config::scope::Origins;
use nearside::config::services::{
    AccessMode, CatalogueConfig, EngineConfig, RecordTypeConfig, ServedRegion, ServicesConfig, ViewsConfig,
};
use nearside::config::{Drain, Log};
use nearside::engine::{Condition, EngineError, Item, ItemKey, ItemWrite, Stream, Table, WriteError};
use nearside::model::time::{Clock, Wall};
use nearside::tasks::Tasks;
use url::Url;

use super::access::{self, DevIssuer};
use super::behind::NodeBehind;
use super::catalogue::{CatalogueClient, NotWritten};
use super::contents::{self, LIMITS, PROFILE, TENANT};
use super::control::Desk;
use super::late::LateFeed;
use super::ports::{AWS_PORT, CATALOGUE_PORT, CONTROL_PORT, Ports, REGION_PORT};
use super::region::{DevRegion, count};
use crate::aws::Aws;
use crate::chaos_server::ChaosServer;
use crate::chaos_server::chaos::{Latency, Mode};
use crate::chaos_server::knobs::Knobs;
use crate::chaos_server::port;
use crate::limits;
use crate::names::{LabError, REGION_NAMES, TOPIC};

/// Latency and lag of the three regions, as they are from Europe.
const REGIONS: [(Latency, Duration); 3] = [
    (Latency::millis(20, 5), Duration::from_millis(20)),
    (Latency::millis(80, 10), Duration::from_millis(60)),
    (Latency::millis(190, 20), Duration::from_millis(150)),
];
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Longest wait for the first views.
const FIRST_VIEWS: Duration = Duration::from_secs(60);
/// Longest wait for the first grants.
const FIRST_GRANTS: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Why the world could not be built.
#[derive(Debug, thiserror::Error)]
pub enum DevWorldError {
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error("a service did not start: {0}")]
    Service(#[from] ServiceStartError),
    #[error(transparent)]
    Catalogue(#[from] NotWritten),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("what was written first could not be marked: {0}")]
    Mark(#[from] WriteError),
    #[error("no HTTP client: {0}")]
    Client(#[from] reqwest::Error),
    #[error("the files of the world's issuer cannot be written below TMPDIR: {0}")]
    Issuer(io::Error),
    #[error("waited {waited:?} for {what}")]
    Late { what: &'static str, waited: Duration },
}

pub struct DevWorld {
    pub clock: Clock,
    pub engine: Engine,
    pub catalogue: CatalogueClient,
    /// Signs its callers' tokens.
    pub issuer: Arc<DevIssuer>,
    pub regions: Arc<[Arc<DevRegion>]>,
    pub aws: Aws,
    /// The address of the control endpoint, for `nearside-lab dev put` and `chaos`.
    pub control: SocketAddr,
    /// Notes for a person, such as ports that were taken.
    pub notes: Vec<String>,
    /// Place of the records, in a few words.
    pub lies: String,
    pub(super) tasks: Tasks,
    config: ServicesConfig,
    contents: Contents,
    services: Vec<RunningService>,
    /// Node of each region.
    nodes: Vec<RunningService>,
    /// Everything before this is in the regions' first scans.
    seeded: Wall,
}

impl DevWorld {
    /// Starts everything but what ingests. Records lie in `data`, or in memory.
    pub async fn start(ports: Ports, data: Option<PathBuf>, mode: AccessMode) -> Result<Self, DevWorldError> {
        let (clock, tasks, mut notes) = (Clock::System, Tasks::new(), Vec::new());
        let aws = Aws::start(ports.hold(AWS_PORT, "the AWS endpoint", &mut notes)?, &clock, &tasks)?;
        let lies = data.as_ref().map_or_else(|| "in memory".to_owned(), |path| format!("in {}", path.display()));
        let engine = data.map_or(EngineConfig::Memory, |directory| EngineConfig::Embedded { directory });
        let issuer = Arc::new(DevIssuer::create(clock.clone()).map_err(DevWorldError::Issuer)?);
        let config = ServicesConfig { access: issuer.config(mode), ..settings(engine, ports, &mut notes) };
        let engine = Engine::open(&config.engine, Sdk::new(Url::parse(&aws.base).ok()), &clock).await?;
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build()?;
        let mut world = Self {
            catalogue: CatalogueClient::new(http.clone(), ANY, Some(issuer.clone())),
            issuer,
            regions: Arc::new([]),
            control: ANY,
            seeded: Wall::from_millis(0),
            contents: contents::contents(),
            services: Vec::new(),
            nodes: Vec::new(),
            clock,
            engine,
            aws,
            notes,
            lies,
            tasks,
            config,
        };
        match world.start_services(ports, &http).await {
            Ok(()) => Ok(world),
            Err(error) => {
                world.stop().await;
                Err(error)
            }
        }
    }

    async fn start_services(&mut self, ports: Ports, http: &reqwest::Client) -> Result<(), DevWorldError> {
        let catalogue = self.start_service(ServiceProcess::Catalogue, ServiceOverrides::default()).await?;
        let (address, issuer) = (catalogue.listen.unwrap_or(ANY), Some(self.issuer.clone()));
        self.catalogue = CatalogueClient::new(http.clone(), address, issuer);
        self.services.push(catalogue);
        let views = self.start_service(ServiceProcess::Views, ServiceOverrides::default()).await?;
        self.services.push(views);
        self.grant().await?;
        self.seed().await?;
        let mut regions = Vec::new();
        for (index, (latency, lag)) in REGIONS.into_iter().enumerate() {
            let name = REGION_NAMES[index];
            let knobs = Knobs { mode: Mode::Healthy, latency, lag, held: false };
            let number = REGION_PORT + index as u16;
            regions.push(Arc::new(self.start_region(name, knobs, number, ports, http).await?));
        }
        self.regions = regions.into();
        let held = ports.hold(CONTROL_PORT, "the control endpoint", &mut self.notes)?;
        self.control = held.address();
        let listener = held.listen_for("the control endpoint")?;
        let (desk, tasks) = (self.desk(http.clone()), self.tasks.clone());
        self.tasks.spawn("control", async move {
            // Holds the port for as long as it is listened on.
            let _held = held;
            port::serve(listener, tasks, "control-connection", move |request| desk.clone().answer(request)).await;
        });
        Ok(())
    }

    fn desk(&self, http: reqwest::Client) -> Desk {
        Desk {
            catalogue: self.catalogue.clone(),
            engine: self.engine.clone(),
            regions: self.regions.clone(),
            aws: self.aws.clone(),
            clock: self.clock.clone(),
            issuer: self.issuer.clone(),
            http,
        }
    }

    async fn start_service(
        &self,
        process: ServiceProcess,
        instead: ServiceOverrides,
    ) -> Result<RunningService, ServiceStartError> {
        let instead = ServiceOverrides {
            engine: Some(self.engine.clone()),
            topics: Url::parse(&self.aws.base).ok(),
            clock: self.clock.clone(),
            ..instead
        };
        let (config, contents) = (self.config.clone(), self.contents.clone());
        // On the heap: it is large, and so is whatever waits for it.
        Box::pin(services::start(process, config, contents, &Origins::default(), instead)).await
    }

    /// True if callers without a grant are refused.
    pub fn enforces(&self) -> bool {
        self.config.access.mode == AccessMode::Enforce
    }

    /// Writes the world's own grants, unless they are as they should be, and waits until they hold.
    async fn grant(&self) -> Result<(), DevWorldError> {
        let own = access::grants();
        if self.catalogue.grants().await?.as_ref() != Some(&own) {
            self.catalogue.put_grants(&own).await?;
        }
        let end = self.clock.now() + FIRST_GRANTS;
        while !self.catalogue.is_writable().await? {
            if self.clock.now() >= end {
                return Err(DevWorldError::Late { what: "the first grants", waited: FIRST_GRANTS });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Replaces a region's node by one that checks callers so. Requests that are under way end at the
    /// old one.
    pub async fn replace_node(&mut self, index: usize, mode: AccessMode) -> Result<(), DevWorldError> {
        self.config.access.mode = mode;
        let region = self.regions[index].clone();
        let node = self.start_node(&region.served).await?;
        region.behind.point_at(node.listen.unwrap_or(ANY));
        std::mem::replace(&mut self.nodes[index], node).stop().await;
        Ok(())
    }

    async fn start_node(&self, served: &ServedRegion) -> Result<RunningService, ServiceStartError> {
        let duties = RegionDuties { ingest: false, node: true };
        let node = ServiceProcess::Region(Box::new(served.clone()), duties);
        self.start_service(node, ServiceOverrides::default()).await
    }

    /// Writes the first records, unless that was done, and waits for their views. Who is stopped
    /// meanwhile goes on the next time: what is there is left alone, and the mark comes last.
    async fn seed(&mut self) -> Result<(), DevWorldError> {
        let (home, mark) = (self.engine.home(), ItemKey::new("dev", "seeded"));
        if home.get(Table::Mapping, &mark).await?.is_some() {
            return Ok(());
        }
        let records: Vec<_> = contents::seed().collect();
        for batch in records.chunks(BATCH_RECORDS) {
            self.catalogue.create_missing(batch).await?;
        }
        let end = self.clock.now() + FIRST_VIEWS;
        while !self.has_first_views().await? {
            if self.clock.now() >= end {
                return Err(DevWorldError::Late { what: "the first views", waited: FIRST_VIEWS });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.seeded = self.clock.wall();
        let mark = Item::new(mark, self.seeded.as_millis());
        home.write(vec![ItemWrite::Put(Table::Mapping, mark, Condition::Any)]).await?;
        Ok(())
    }

    /// Somebody may have written more, if this is not the first start.
    async fn has_first_views(&self) -> Result<bool, EngineError> {
        let made = self.count(Table::Views).await?;
        Ok([LIMITS, PROFILE].iter().all(|view| made.get(*view) >= Some(&contents::TENANTS)))
    }

    /// Returns the number of items of each record type or view in the home region's `table`.
    pub async fn count(&self, table: Table) -> Result<std::collections::BTreeMap<String, usize>, EngineError> {
        count(&self.engine, table, 0).await
    }

    async fn start_region(
        &mut self,
        name: &str,
        knobs: Knobs,
        number: u16,
        ports: Ports,
        http: &reqwest::Client,
    ) -> Result<DevRegion, DevWorldError> {
        // A new world has room for its own topics, so creating them cannot fail.
        let topic = self.aws.topics.create(name, TOPIC).unwrap_or_default();
        let served = ServedRegion {
            name: name.to_owned(),
            topic: topic.parse().ok(),
            listen: ANY,
            admin: ANY,
            ..Default::default()
        };
        let node = self.start_node(&served).await?;
        let (behind, node_admin) = (NodeBehind::new(http.clone(), node.listen.unwrap_or(ANY)), node.admin);
        self.nodes.push(node);
        let port = ports.hold(number, name, &mut self.notes)?;
        let listener = port.listen_for(name)?;
        let server = Arc::new(ChaosServer::new(name.to_owned(), port, self.clock.clone(), knobs));
        let asked = behind.clone();
        let serving = server.clone().run(listener, self.tasks.clone(), move |request| asked.clone().reply(request));
        self.tasks.spawn("region", serving);
        Ok(DevRegion { server, topic, ingest_admin: std::sync::OnceLock::new(), node_admin, served, behind })
    }

    /// Starts what ingests and announces, and waits until every region answers.
    pub async fn ingest(&mut self) -> Result<(), DevWorldError> {
        for region in self.regions.clone().iter() {
            let feed = LateFeed {
                feed: self.engine.feed(Stream::Views, &region.server.name),
                knobs: region.server.watch(),
                clock: self.clock.clone(),
                not_before: self.seeded,
            };
            let duties = RegionDuties { ingest: true, node: false };
            let process = ServiceProcess::Region(Box::new(region.served.clone()), duties);
            let instead = ServiceOverrides { feed: Some(Arc::new(feed)), ..ServiceOverrides::default() };
            let ingester = self.start_service(process, instead).await?;
            // It is set once, here.
            let _ = region.ingest_admin.set(ingester.admin);
            self.services.push(ingester);
        }
        Ok(())
    }

    pub fn region(&self, index: usize) -> &ChaosServer {
        &self.regions[index].server
    }

    /// Ends everything. Its users have stopped before.
    pub async fn stop(self) {
        join_all(self.services.into_iter().chain(self.nodes).map(RunningService::stop)).await;
        self.tasks.drain(Duration::from_secs(2)).await;
    }
}

fn settings(engine: EngineConfig, ports: Ports, notes: &mut Vec<String>) -> ServicesConfig {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, ports.free(CATALOGUE_PORT, "the catalogue", notes)));
    ServicesConfig {
        engine,
        catalogue: CatalogueConfig {
            listen,
            admin: ANY,
            max_connections: limits::LAB_CONNECTIONS,
            types: [TENANT, contents::SHARD]
                .map(|name| RecordTypeConfig { name: name.to_owned(), schema: None })
                .into(),
            ..Default::default()
        },
        views: ViewsConfig { admin: ANY, ..Default::default() },
        regions: Vec::new(),
        access: Default::default(),
        drain: Drain { linger: Duration::ZERO, deadline: Duration::from_secs(5), ..Default::default() },
        log: Log { filter: "error".to_owned(), ..Default::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev::control;
    use nearside::catalogue::{Author, Catalogue, Preconditions, RecordWrite};
    use nearside::engine::bucket;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn second_world_reports_other_ports() {
        let first = DevWorld::start(Ports::Fixed, None, AccessMode::Enforce).await.unwrap();
        let second = DevWorld::start(Ports::Fixed, None, AccessMode::Enforce).await.unwrap();
        assert_eq!(second.notes.len(), 6, "{:?}", second.notes);
        assert!(second.notes[0].starts_with("port 8720 is in use: the AWS endpoint is on "));
        assert_ne!(first.control, second.control);
        let state = control::ask(second.control, &control::ControlCommand::State).await.unwrap();
        assert!(state.contains(&second.region(0).url()));
        first.stop().await;
        second.stop().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn partial_seed_is_completed_without_replacing() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let written = {
            let config = EngineConfig::Embedded { directory: data.clone() };
            let engine = Engine::open(&config, Sdk::new(None), &Clock::System).await.unwrap();
            let types = contents::contents().types;
            let catalogue = Catalogue::new(engine.home(), Clock::System, types);
            let record = RecordWrite {
                record_type: TENANT.to_owned(),
                key: "tenant-1".to_owned(),
                body: Some(r#"{"plan":"mine"}"#.into()),
                only_if: Preconditions::none(),
            };
            catalogue.write(record, None, &Author::anonymous()).await.unwrap().0.version
        };
        let world = DevWorld::start(Ports::Ephemeral, Some(data.clone()), AccessMode::Enforce).await.unwrap();
        assert_eq!(world.count(Table::Records).await.unwrap()[TENANT], contents::TENANTS);
        assert_eq!(tenant(&world).await.version, written, "what was there is as it was");
        world.catalogue.delete(TENANT, "tenant-1").await.unwrap();
        world.stop().await;

        let world = DevWorld::start(Ports::Ephemeral, Some(data), AccessMode::Enforce).await.unwrap();
        assert!(tenant(&world).await.body.is_none(), "what was deleted later does not come back");
        world.stop().await;
    }

    async fn tenant(world: &DevWorld) -> Item {
        let place = ItemKey::new(bucket::partition(TENANT, "tenant-1"), "tenant-1");
        world.engine.home().get(Table::Records, &place).await.unwrap().unwrap()
    }
}
