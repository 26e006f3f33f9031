//! The request path: look up, fill, race, answer. A sidecar runs it, and a region's node will.
//! [`Core`] is what all requests share under one reading of the configuration.
//!
//! A reload makes a new one, which shares everything except what the settings determine. A request
//! finishes with the core it began with and sees nothing of the other. Whatever lives longer than a
//! request asks for [`Core::newest`].
//!
//! Building a core binds nothing, asks no region and starts at most the watch over a credentials
//! file. With a simulated clock, a scripted origin, a fixed hash key, one thread and an earlier
//! call of `fastrand::seed`, the same requests get the same answers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::{ArcSwap, Guard};

use crate::cache::capacity::{Memory, Pressure};
use crate::cache::key::HashKey;
use crate::cache::store::Store;
use crate::config::{Config, IdentityMode, Route};
use crate::core::batch::Batches;
use crate::core::churn::Churn;
use crate::core::compression::CompressionError;
use crate::core::credentials::{CredentialsError, HeldCredentials};
use crate::core::fill::Fills;
use crate::core::fill::audit::Auditor;
use crate::core::fill::comparison::Comparisons;
use crate::core::keyed_hashes::{KeyedHashes, TooManyTypes};
use crate::core::lines::CoreLines;
use crate::core::race::region::Regions;
use crate::core::router::Router;
use crate::core::shape::{Derivations, ShapeError, Shapes};
use crate::core::way::Second;
use crate::http::admission::Admission;
use crate::http::bodies::ByteBudget;
use crate::http::exchange::Origin;
use crate::http::peers::Peers;
use crate::http::token::{self, TokenError};
use crate::model::time::Clock;
use crate::payload::coding::Codings;
use crate::protocol::event::Action;
use crate::protocol::{Freshness, Room};
use crate::tasks::Tasks;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::observed::Observed;

mod actions;
pub mod answer;
pub mod batch;
pub(crate) mod beside;
pub mod caller;
mod churn;
pub mod compression;
mod credentials;
pub mod fast_path;
pub mod fill;
pub(crate) mod floors;
pub mod foreign;
mod forgotten;
pub mod limits;
mod lines;
pub mod lookup;
pub(crate) mod pass;
pub(crate) mod race;
pub mod router;
#[cfg(test)]
pub(crate) mod scripted;
pub mod serve;
pub mod shape;
mod telling;
pub(crate) mod trial;
pub mod way;
mod write;

/// The core of the newest configuration; `app` keeps it.
pub struct Current<T = Core> {
    newest: ArcSwap<T>,
    /// How often it was replaced: the only thing that a plain request looks at.
    replaced: AtomicU64,
}

impl<T> Current<T> {
    pub fn new(first: Arc<T>) -> Self {
        Self { newest: ArcSwap::new(first), replaced: AtomicU64::new(0) }
    }

    /// For as long as a request takes.
    pub fn load(&self) -> Guard<Arc<T>> {
        self.newest.load()
    }

    /// To keep.
    pub fn load_full(&self) -> Arc<T> {
        self.newest.load_full()
    }

    /// Every request read from now on is answered by `core`.
    pub fn replace(&self, core: Arc<T>) {
        self.newest.store(core);
        self.replaced.fetch_add(1, Ordering::Release);
    }

    pub fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Acquire)
    }
}

/// Takes the actions that are carried out outside the core: [`Action::Resubscribe`] and
/// [`Action::HeartbeatSeen`].
pub type Beyond = Box<dyn Fn(Action) + Send + Sync>;

/// What all requests share.
pub struct Core {
    pub config: Config,
    /// How many times the settings had been reloaded when this was made.
    pub reading: u64,
    pub admission: Arc<Admission>,
    pub router: Router,
    pub keyring: Arc<KeyedHashes>,
    /// The hash key of representations.
    pub seed: HashKey,
    /// The sidecar's own credentials, one per route.
    pub credentials: Vec<Option<HeldCredentials>>,
    /// The regions as routes ask them that have them compress; empty without such a route.
    compressed: Vec<Option<Arc<Regions>>>,
    /// The second way of each route.
    pub(crate) seconds: Vec<Option<Second>>,
    /// What comparisons of two ways have found.
    pub comparisons: Arc<Comparisons>,
    /// What the callers of each route may ask for besides the regions' bytes.
    pub(crate) shapes: Vec<Option<Arc<Shapes>>>,
    /// Some route's replies are a message.
    has_messages: bool,
    derivations: Arc<Derivations>,
    pub store: Arc<Store>,
    pub memory: Memory,
    /// Set while memory is short: background work is put off.
    pub sheds: Arc<AtomicBool>,
    pub fills: Arc<Fills>,
    pub freshness: Arc<Freshness>,
    /// Compares what is stored with the regions now and then (R17).
    pub audits: Arc<Auditor>,
    pub regions: Arc<Regions>,
    pub batches: Arc<Batches>,
    /// Notices callers that mint a token per request.
    pub churn: Arc<Churn>,
    pub clock: Clock,
    pub metrics: Arc<Metrics>,
    /// Facts that mean something only when two sources are compared.
    pub observed: Arc<Observed>,
    /// Limits what others can have logged.
    lines: Arc<CoreLines>,
    pub tasks: Tasks,
    /// The regions' names, by [`RegionId`](crate::model::ids::RegionId).
    pub names: Vec<String>,
    /// Limits the bytes of bodies held at once, of requests and of replies.
    pub bodies: Arc<ByteBudget>,
    /// The open connections of callers, and the memory that they may take besides bodies.
    pub peers: Arc<Peers>,
    /// Carries out what is outside the core, mainly subscriptions; set by `app`.
    pub beyond: Arc<OnceLock<Beyond>>,
    current: Arc<OnceLock<Weak<Current>>>,
}

/// Why a core could not be made. The operator has to fix it.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Shape(#[from] ShapeError),
    #[error(transparent)]
    Compression(#[from] CompressionError),
    /// A reload brought more record types than a process can tell apart.
    #[error("service.route: {0}; restart to use these routes")]
    Types(#[from] TooManyTypes),
    /// Reloads brought more routes than a process can tell apart.
    #[error("service.route: more than 65535 routes since the start; restart to use these")]
    Routes,
}

/// What is read from files that the configuration names.
struct Guarded {
    credentials: Vec<Option<HeldCredentials>>,
    of_seconds: Vec<Option<HeldCredentials>>,
    shapes: Vec<Option<Arc<Shapes>>>,
    codings: Vec<Option<Codings>>,
    door: Arc<Admission>,
}

impl Guarded {
    fn read(config: &Config, bodies: &Arc<ByteBudget>, peers: &Arc<Peers>) -> Result<Self, CoreError> {
        let held = |route: &Route| match &route.identity {
            IdentityMode::Exact(_) => Ok(None),
            IdentityMode::Sidecar(credentials) => HeldCredentials::read(credentials).map(Some),
        };
        let credentials = config.service.routes.iter().map(held).collect::<Result<_, _>>()?;
        let token = token::read("listen.token_file", config.listen.token_file.as_deref())?;
        let shapes = config.service.routes.iter().map(Shapes::of).collect::<Result<_, _>>()?;
        Ok(Self {
            codings: config.service.routes.iter().map(compression::codings).collect::<Result<_, _>>()?,
            of_seconds: way::credentials(config)?,
            credentials,
            shapes,
            door: Arc::new(Admission::new(&config.listen, token).holding(bodies.clone(), peers.clone())),
        })
    }
}

fn has_messages(config: &Config) -> bool {
    config.service.routes.iter().any(|route| route.payload.message.is_some())
}

/// What a core is given of the outside world.
pub struct Parts {
    pub clock: Clock,
    pub origin: Arc<dyn Origin>,
    pub tasks: Tasks,
    /// The hash key of representations: random, except in a simulation.
    pub seed: HashKey,
    /// How many records without an entry are remembered: [`crate::protocol::limits::FLOOR_SLOTS`],
    /// except in a simulation.
    pub floor_slots: usize,
    /// What the process may use: this machine's memory, except in a simulation.
    pub memory: Memory,
    /// Limits the bytes of bodies held at once, of requests and of replies.
    pub bodies: Arc<ByteBudget>,
}

impl Core {
    /// Frees memory when the process holds `resident` bytes and that is too much: first it stops
    /// background work, then it evicts entries. Call it every [`limits::MEMORY_TICK`].
    pub fn mind_memory(&self, resident: u64) {
        let pressure = self.memory.pressure(resident);
        let sheds = pressure > Pressure::None;
        if self.sheds.swap(sheds, Ordering::Relaxed) != sheds {
            let (limit, entries) = (self.memory.limit, self.store.entries());
            let [short, over] = &self.lines.memory;
            let now = self.clock.now();
            match sheds {
                true => {
                    if let Some(left_out) = short.take(now) {
                        tracing::warn!(
                            resident,
                            limit,
                            entries,
                            left_out,
                            "memory is short: nothing is asked for in the background"
                        );
                    }
                }
                false => {
                    if let Some(left_out) = over.take(now) {
                        tracing::info!(resident, limit, entries, left_out, "memory is no longer short");
                    }
                }
            }
        }
        if pressure == Pressure::Evict {
            self.store.give_up();
            self.peers.relieve();
        }
    }

    /// Reads the files that the configuration names, and starts the watch over credentials.
    ///
    /// # Errors
    /// When the credentials of a route, or the port's token, cannot be read.
    pub fn new(config: Config, parts: Parts) -> Result<Arc<Self>, CoreError> {
        let Parts { clock, origin, tasks, seed, floor_slots, memory, bodies } = parts;
        let names: Vec<String> = config.service.regions.iter().map(|region| region.name.clone()).collect();
        let metrics = Arc::new(Metrics::new(&names));
        let regions = Regions::new(&config, origin, clock.clone(), metrics.clone(), memory.permits(), bodies.clone());
        let capacity = config.cache.max_bytes.unwrap_or_else(|| memory.capacity());
        let counted = metrics.clone();
        let peers = Peers::new(memory.requests(), move |budget| counted.over_budget(budget));
        let room = Room::new(floor_slots, capacity);
        let freshness = Arc::new(Freshness::new(&config.freshness.protocol(), names.len(), room, clock.now()));
        let released = freshness.clone();
        let store = Arc::new(Store::new(capacity, move |record| released.release(record)));
        let Guarded { credentials, of_seconds, shapes, codings, door } = Guarded::read(&config, &bodies, &peers)?;
        let compressed = compression::regions(&config, &regions, &codings);
        let seconds = way::seconds(&config, &regions, (of_seconds, &codings), None);
        let batches = Arc::new(Batches::new(&config, memory.permits()));
        let core = Arc::new(Self {
            reading: 0,
            admission: door,
            router: Router::new(&config.service),
            keyring: Arc::new(KeyedHashes::new(&config.service)),
            seed,
            credentials,
            compressed,
            seconds,
            comparisons: Arc::default(),
            shapes,
            has_messages: has_messages(&config),
            derivations: Arc::default(),
            store,
            memory,
            bodies,
            sheds: Arc::default(),
            peers,
            fills: Arc::new(Fills::new(memory.races(), memory.remembered_errors())),
            freshness,
            audits: Arc::default(),
            regions,
            batches,
            churn: Arc::default(),
            clock,
            metrics,
            observed: Arc::new(Observed::new(names.len())),
            lines: Arc::new(CoreLines::new(names.len())),
            tasks,
            names,
            beyond: Arc::default(),
            current: Arc::default(),
            config,
        });
        core.watch_credentials();
        Ok(core)
    }

    /// A core with other settings, its files read again. It shares the store, the fills and all
    /// that is known with this one. The regions are asked through `origin`; they are the same, in
    /// the same order.
    ///
    /// # Errors
    /// When the credentials of a route, or the port's token, cannot be read, or when only a restart
    /// helps. Then nothing has changed.
    pub fn renewed(&self, config: Config, origin: Arc<dyn Origin>) -> Result<Arc<Self>, CoreError> {
        let Guarded { credentials, of_seconds, shapes, codings, door } =
            Guarded::read(&config, &self.bodies, &self.peers)?;
        let router = self.router.renewed(&config.service).ok_or(CoreError::Routes)?;
        self.keyring.learn(&config.service, self.clock.now())?;
        let regions = self.regions.renewed(&config.race, origin);
        let compressed = compression::regions(&config, &regions, &codings);
        let seconds = way::seconds(&config, &regions, (of_seconds, &codings), Some(self));
        self.comparisons.ledger.keep(|second| router.second(second).is_some());
        Ok(Arc::new(Self {
            has_messages: has_messages(&config),
            config,
            reading: self.reading + 1,
            admission: door,
            router,
            keyring: self.keyring.clone(),
            seed: self.seed,
            credentials,
            compressed,
            seconds,
            comparisons: self.comparisons.clone(),
            shapes,
            derivations: self.derivations.clone(),
            store: self.store.clone(),
            memory: self.memory,
            bodies: self.bodies.clone(),
            peers: self.peers.clone(),
            sheds: self.sheds.clone(),
            fills: self.fills.clone(),
            freshness: self.freshness.clone(),
            audits: self.audits.clone(),
            regions,
            batches: self.batches.clone(),
            churn: self.churn.clone(),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            observed: self.observed.clone(),
            lines: self.lines.clone(),
            tasks: self.tasks.clone(),
            names: self.names.clone(),
            beyond: self.beyond.clone(),
            current: self.current.clone(),
        }))
    }

    /// Rereads credentials when their files change, for as long as this core is in use.
    pub fn watch_credentials(&self) {
        for (route, held) in self.config.service.routes.iter().zip(&self.credentials) {
            if let (IdentityMode::Sidecar(credentials), Some(held)) = (&route.identity, held) {
                held.watch(credentials.clone(), &self.tasks);
            }
        }
        self.watch_seconds();
    }

    /// What the store may hold, in bytes.
    pub fn capacity(&self) -> u64 {
        self.config.cache.max_bytes.unwrap_or_else(|| self.memory.capacity())
    }

    /// Keeps it as the newest.
    pub fn into_current(self: Arc<Self>) -> Arc<Current> {
        let known = self.current.clone();
        let current = Arc::new(Current::new(self));
        // Set once: a core is the newest of one process only.
        let _ = known.set(Arc::downgrade(&current));
        current
    }

    /// Whether no reload has replaced it.
    pub fn is_newest(&self) -> bool {
        let current = self.current.get().and_then(Weak::upgrade);
        current.is_none_or(|current| current.load().reading == self.reading)
    }

    /// The core of the newest configuration; itself where nobody keeps one.
    pub fn newest(self: &Arc<Self>) -> Arc<Self> {
        self.current.get().and_then(Weak::upgrade).map_or_else(|| self.clone(), |current| current.load_full())
    }
}

pub(crate) mod keyed_hashes;
#[cfg(test)]
mod tests;
