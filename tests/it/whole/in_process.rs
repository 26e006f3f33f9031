//! All roles in this process on one engine; topics and queues are the lab's.

use std::time::Duration;

use nearside::app::services::{
    Contents, Engine, RegionDuties, RunningService, ServiceOverrides, ServiceProcess, start,
};
use nearside::app::{self, App, Overrides};
use nearside::aws::clients::Sdk;
use nearside::config::scope::Origins;
use nearside::config::services::{ServiceRole, ServicesConfig, load};
use nearside::model::time::Clock;
use tempfile::TempDir;
use url::Url;

use super::super::program::read;
use super::deployment::{Reach, service_file, sidecar_settings};
use super::{assert_all_serve, measure, tell_the_story};
use crate::world::World;

pub(super) const REGIONS: [&str; 2] = ["eu-west-1", "us-east-1"];
const CHANGES: u64 = 50;
/// Far above what it takes: 60 ms.
const PROMISED: Duration = Duration::from_secs(2);

pub(super) struct InProcess {
    services: Vec<RunningService>,
    sidecar: App,
    pub(super) reach: Reach,
    _world: World,
}

impl InProcess {
    /// With the engine that this section says; what configures it lies in the directory.
    pub(super) async fn start(directory: &TempDir, engine: &str) -> Self {
        let world = World::builder().regions(1).start().await.unwrap();
        let topics = REGIONS.map(|region| world.aws.topics.create(region, "views").unwrap());
        let aws = Url::parse(&world.aws.base).unwrap();
        let regions: Vec<_> = REGIONS.iter().zip(&topics).map(|(name, topic)| (*name, topic.as_str())).collect();
        let file = service_file(directory.path(), engine, &regions);
        let (config, origins) = load(ServiceRole::Region, Some(&file), std::iter::empty()).unwrap();
        let engine = Engine::open(&config.engine, Sdk::new(Some(aws.clone())), &Clock::System).await.unwrap();
        let both = RegionDuties { ingest: true, node: true };
        let regions = config.regions.iter().map(|region| ServiceProcess::Region(Box::new(region.clone()), both));
        let mut services = Vec::new();
        for process in [ServiceProcess::Catalogue, ServiceProcess::Views].into_iter().chain(regions) {
            services.push(one(process, &config, &origins, engine.clone(), &aws).await);
        }
        let addresses = services[2..].iter().map(|node| node.listen.unwrap().to_string());
        let nodes: Vec<_> =
            (0..2).zip(addresses).map(|(at, node)| (REGIONS[at], topics[at].as_str(), node)).collect();
        let sidecar =
            app::start_with(read(&sidecar_settings(&world.aws.base, &nodes)), Overrides::default()).await.unwrap();
        let names = ["catalogue", "views", REGIONS[0], REGIONS[1]].map(str::to_owned);
        let admins = names.into_iter().zip(services.iter().map(|service| service.admin.to_string()));
        let admins = admins.chain([("sidecar".to_owned(), sidecar.admin.to_string())]).collect();
        let catalogue = services[0].listen.unwrap().to_string();
        let nodes = nodes.into_iter().map(|(.., address)| address).collect();
        let reach = Reach::new(catalogue, sidecar.tcp.unwrap().to_string(), nodes, admins);
        reach.ready().await;
        Self { services, sidecar, reach, _world: world }
    }

    pub(super) async fn stop(self) {
        assert_eq!(self.sidecar.stop().await.late, Vec::<&str>::new());
        for service in self.services.into_iter().rev() {
            assert_eq!(service.stop().await.late, Vec::<&str>::new());
        }
    }
}

async fn one(
    process: ServiceProcess,
    config: &ServicesConfig,
    origins: &Origins,
    engine: Engine,
    aws: &Url,
) -> RunningService {
    let contents = Contents::read(config).unwrap();
    let instead = ServiceOverrides {
        engine: Some(engine),
        topics: Some(aws.clone()),
        feed: None,
        ..ServiceOverrides::default()
    };
    start(process, config.clone(), contents, origins, instead).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn record_changes_reach_sidecars_caller() {
    let directory = tempfile::tempdir().unwrap();
    let whole = Box::pin(InProcess::start(&directory, "kind = \"memory\"")).await;
    tell_the_story(&whole.reach).await;
    assert_all_serve(&whole.reach).await;
    let slowest = measure(&whole.reach, "memory", CHANGES).await;
    assert!(slowest < PROMISED, "{slowest:?}");
    whole.stop().await;
}
