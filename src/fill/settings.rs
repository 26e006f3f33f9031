//! State that fills share: [`Shared`] for as long as the process runs, [`Settings`] under one
//! reading of the configuration.
//!
//! A reload makes new settings over the same shared state. A fill ends with the settings that it
//! began with. Whatever lives longer asks for [`Settings::newest`].

use std::sync::{Arc, OnceLock, Weak};

use super::ask::Ask;
use super::auditor::Auditor;
use super::files::{Files, SettingsError};
use super::flights::Fills;
use super::log_limits::LogLimits;
use super::memory::MemoryPressure;
use crate::cache::capacity::Memory;
use crate::cache::key::HashKey;
use crate::cache::store::Store;
use crate::config::{Config, Route};
use crate::credentials::{MintDeps, Minters};
use crate::http::bodies::ByteBudget;
use crate::http::exchange::Origin;
use crate::migration::candidate::{self, Upstreams};
use crate::migration::comparison::Comparisons;
use crate::model::ids::{RecordId, RouteId, RouteIndex};
use crate::model::time::Clock;
use crate::protocol::event::Action;
use crate::protocol::{Freshness, RecordCapacity};
use crate::race::region::Regions;
use crate::race::upstream::Upstream;
use crate::routing::keyed_hashes::KeyedHashes;
use crate::routing::router::Router;
use crate::shape::shapes::Shapes;
use crate::tasks::Tasks;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::observed::Observed;

/// Takes the actions that are carried out outside fills: [`Action::Resubscribe`] and
/// [`Action::HeartbeatSeen`].
pub type Effects = Box<dyn Fn(Action) + Send + Sync>;

/// State that outlives every reading of the configuration.
pub struct Shared {
    pub clock: Clock,
    pub tasks: Tasks,
    pub metrics: Arc<Metrics>,
    /// Facts that mean something only when two sources are compared.
    pub observed: Arc<Observed>,
    pub(crate) log_limits: LogLimits,
    /// The regions' names, by [`RegionId`](crate::model::ids::RegionId).
    pub names: Vec<String>,
    pub keyed_hashes: Arc<KeyedHashes>,
    /// Key for the hashes of representations.
    pub hash_key: HashKey,
    pub store: Arc<Store>,
    pub freshness: Arc<Freshness>,
    pub memory: MemoryPressure,
    pub fills: Fills,
    /// Compares what is stored with the regions now and then (R17).
    pub auditor: Auditor,
    /// Findings of comparisons of two upstreams.
    pub comparisons: Arc<Comparisons>,
    pub(crate) links: Links,
}

/// References that are set once, when the process is wired up.
#[derive(Default)]
pub(crate) struct Links {
    /// Mainly subscriptions; set by `app`.
    pub(crate) effects: OnceLock<Effects>,
    pub(crate) newest: OnceLock<Weak<dyn Newest>>,
}

/// Keeps the settings of the newest configuration.
pub(crate) trait Newest: Send + Sync {
    fn newest(&self) -> Arc<Settings>;
}

/// One reading of the configuration.
pub struct Settings {
    pub shared: Arc<Shared>,
    pub config: Config,
    /// Number of reloads before these settings were made.
    pub reading: u64,
    pub router: Router,
    pub regions: Arc<Regions>,
    /// Upstreams of each route.
    pub(crate) upstreams: Vec<Arc<Upstreams>>,
    /// Shapes that the callers of each route may ask for besides the regions' bytes.
    pub(crate) shapes: Vec<Option<Arc<Shapes>>>,
    /// Those who mint the sidecar's own credentials.
    pub minters: Arc<Minters>,
    pub(crate) follow_up: FollowUp,
}

/// Background work after a fill or an announcement.
pub(crate) enum Later<'a> {
    /// Entry that `ask` filled, if it is provisional.
    Recheck(&'a Ask),
    /// Stored entries of a record.
    Refetch(RecordId),
}

/// Begins it ([`super::background::begin`], which stands above).
pub(crate) type FollowUp = fn(&Arc<Settings>, Later<'_>);

/// Dependencies of settings on the outside world.
pub struct Parts {
    pub clock: Clock,
    pub origin: Arc<dyn Origin>,
    pub tasks: Tasks,
    /// The hash key of representations: random, except in a simulation.
    pub hash_key: HashKey,
    /// Number of records without an entry that are remembered:
    /// [`crate::protocol::limits::FLOOR_SLOTS`], except in a simulation.
    pub floor_slots: usize,
    /// Memory of this machine, except in a simulation.
    pub memory: Memory,
    /// Limits the bytes of bodies held at once, of requests and of replies.
    pub bodies: Arc<ByteBudget>,
}

impl Shared {
    fn new(config: &Config, metrics: Arc<Metrics>, names: Vec<String>, parts: Parts) -> Self {
        let Parts { clock, tasks, hash_key, floor_slots, memory, .. } = parts;
        let capacity = config.cache.max_bytes.unwrap_or_else(|| memory.capacity());
        let room = RecordCapacity::new(floor_slots, capacity);
        let freshness = Arc::new(Freshness::new(&config.freshness.protocol(), names.len(), room, clock.now()));
        let released = freshness.clone();
        Self {
            store: Arc::new(Store::new(capacity, move |record| released.release(record))),
            freshness,
            clock,
            tasks,
            metrics,
            observed: Arc::new(Observed::new(names.len())),
            log_limits: LogLimits::new(names.len()),
            keyed_hashes: Arc::new(KeyedHashes::new(&config.service, hash_key)),
            hash_key,
            fills: Fills::new(memory.races(), memory.remembered_errors()),
            memory: MemoryPressure::new(memory),
            auditor: Auditor::default(),
            comparisons: Arc::default(),
            links: Links::default(),
            names,
        }
    }

    /// Carries `effects` out from now on; returns whether nobody did so before, for then it stays so.
    pub fn set_effects(&self, effects: Effects) -> bool {
        self.links.effects.set(effects).is_ok()
    }
}

impl Settings {
    /// The settings that a process starts with.
    pub(crate) fn first(config: Config, parts: Parts, files: Files, follow_up: FollowUp) -> Arc<Self> {
        let names: Vec<String> = config.service.regions.iter().map(|region| region.name.clone()).collect();
        let metrics = Arc::new(Metrics::new(&names));
        let permits = parts.memory.permits();
        let (origin, bodies) = (parts.origin.clone(), parts.bodies.clone());
        let regions = Regions::new(&config, origin, parts.clock.clone(), metrics.clone(), permits, bodies);
        let shared = Arc::new(Shared::new(&config, metrics, names, parts));
        let router = Router::new(&config.service);
        let upstreams = upstreams(&config, &regions, &files, None);
        let Files { shapes, minters, .. } = files;
        Arc::new(Self { shared, reading: 0, router, regions, upstreams, shapes, minters, follow_up, config })
    }

    /// Other settings over the same shared state. The regions are asked through `origin`; they are
    /// the same, in the same order.
    ///
    /// # Errors
    /// When only a restart helps. Then nothing has changed.
    pub(crate) fn renewed(
        &self,
        config: Config,
        origin: Arc<dyn Origin>,
        files: Files,
    ) -> Result<Arc<Self>, SettingsError> {
        let Self { shared, follow_up, .. } = self;
        let router = self.router.renewed(&config.service).ok_or(SettingsError::Routes)?;
        shared.keyed_hashes.learn(&config.service, shared.clock.now())?;
        let regions = self.regions.renewed(&config.race, origin);
        let upstreams = upstreams(&config, &regions, &files, Some(self));
        shared.fills.lent.keep(|route| router.index_of(route).is_some());
        shared.comparisons.tally.keep(|candidate| router.candidate(candidate).is_some());
        let (shared, follow_up) = (shared.clone(), *follow_up);
        let reading = self.reading + 1;
        let Files { shapes, minters, .. } = files;
        Ok(Arc::new(Self { shared, reading, router, regions, upstreams, shapes, minters, follow_up, config }))
    }

    /// The settings of the newest configuration; these where nobody keeps any.
    pub fn newest(self: &Arc<Self>) -> Arc<Self> {
        self.kept_newest().unwrap_or_else(|| self.clone())
    }

    /// Returns whether no reload has replaced them.
    pub fn is_newest(&self) -> bool {
        self.kept_newest().is_none_or(|newest| newest.reading == self.reading)
    }

    fn kept_newest(&self) -> Option<Arc<Self>> {
        self.shared.links.newest.get().and_then(Weak::upgrade).map(|keeper| keeper.newest())
    }

    /// Capacity of the store in bytes.
    pub fn capacity(&self) -> u64 {
        self.config.cache.max_bytes.unwrap_or_else(|| self.shared.memory.memory.capacity())
    }

    pub(crate) fn route_at(&self, index: RouteIndex) -> &Route {
        &self.config.service.routes[index.0]
    }

    /// The upstream that this id is of; `None` when its route is gone.
    pub(crate) fn upstream(&self, route: RouteId) -> Option<&Upstream> {
        let index = self.router.index_of(route)?;
        let upstreams = &self.upstreams[index.0];
        Some(upstreams.candidate.as_ref().filter(|_| self.is_candidate(route)).unwrap_or(&upstreams.current))
    }

    /// Returns whether it is the id of a route's candidate.
    pub(crate) fn is_candidate(&self, route: RouteId) -> bool {
        self.router.candidate(route).is_some()
    }

    /// Lets so many requests be under way at once to each region of each upstream.
    pub fn permit(&self, permits: usize) {
        let tasks = &self.shared.tasks;
        self.regions.permit(permits, tasks);
        let candidates = self.upstreams.iter().filter_map(|upstreams| upstreams.candidate.as_ref());
        candidates.for_each(|candidate| candidate.regions.permit(permits, tasks));
    }

    /// Rereads credentials when their files change, and mints those that are minted, for as long as
    /// these settings are in use.
    pub fn watch_credentials(&self) {
        let Shared { clock, tasks, metrics, .. } = &*self.shared;
        let metrics = metrics.credentials.clone();
        self.minters.start(&MintDeps { clock: clock.clone(), tasks: tasks.clone(), metrics });
        self.upstreams.iter().for_each(|upstreams| candidate::watch_credentials(upstreams, tasks));
    }
}

fn upstreams(
    config: &Config,
    regions: &Arc<Regions>,
    files: &Files,
    before: Option<&Settings>,
) -> Vec<Arc<Upstreams>> {
    let before = before.map(|before| (&before.config, &before.upstreams[..]));
    let held = candidate::Held {
        credentials: &files.credentials,
        candidates: &files.candidates,
        codings: &files.codings,
        shapes: &files.shapes,
    };
    candidate::upstreams(config, regions, &held, before)
}
