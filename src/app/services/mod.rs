//! The processes beside the sidecar: the catalogue, the views service, a region. What they share is
//! here: sockets first, so that an error is clear and early, then the engine, then the parts of the
//! one that it is; the admin pages; the stop. Each file beside this one wires the parts of one.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::middleware;
use axum::response::Response;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::net::TcpListener;
use url::Url;

use super::{App, Stopped, linger, sockets};
use crate::admin::guard::{Admits, guarded};
use crate::admin::service_pages::{ServiceState, serve_pages};
use crate::app::bounds::Bounds;
use crate::aws::clients::Sdk;
use crate::cache::capacity::Memory;
use crate::config::error::ConfigError;
use crate::config::scope::Origins;
use crate::config::services::{EngineConfig, ServedRegion, ServicesConfig};
use crate::engine::{EngineError, Feed, Stream};
use crate::http::connection::Shutdown;
use crate::http::listener::{self, ListenError};
use crate::http::service::{self, Listener, ServingTasks};
use crate::model::time::Clock;
use crate::tasks::Tasks;
use crate::tasks::permits::Permits;
use tokio_util::sync::CancellationToken;

mod catalogue;
mod contents;
mod engines;
mod health;
pub mod needed;
mod overview;
mod probe;
pub mod region;
pub mod setup;
pub mod verify;
mod views;
mod watched;

pub use contents::Contents;
pub use engines::Engine;
pub use watched::WatchedEngine;

/// Which of the services a process is, with what only that one is told.
#[derive(Clone, Debug)]
pub enum ServiceProcess {
    Catalogue,
    Views,
    Region(Box<ServedRegion>, RegionDuties),
}

/// What a process of a region does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionDuties {
    /// Takes changes from the feed and announces them.
    pub ingest: bool,
    /// Answers reads.
    pub node: bool,
}

/// Why a service could not start. The operator has to fix it.
#[derive(Debug, thiserror::Error)]
pub enum ServiceStartError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("engine.kind = {kind:?}: {source}")]
    Engine { kind: &'static str, source: EngineError },
    #[error("region {0:?} has no views: name a file under views.file, or list them under region.views")]
    NoViews(String),
    /// What the node was told makes no configuration.
    #[error("the node's settings: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Node(Vec<ConfigError>),
    #[error("the node: {0}")]
    NodeStart(Box<super::StartError>),
    /// It is no fault, and nothing of it runs.
    #[error("it was told to stop before its engine was open")]
    Told,
}

/// What the parts of a service are built with.
pub struct Shell {
    pub config: ServicesConfig,
    pub clock: Clock,
    pub tasks: Tasks,
    pub shutdown: Shutdown,
    pub engine: WatchedEngine,
    pub contents: Contents,
    /// Where topics are, if not at AWS.
    pub topics: Option<Url>,
    feed: Option<Arc<dyn Feed>>,
    registry: Mutex<Registry>,
    /// Of callers.
    pub connections: Permits,
}

/// What a service's own part says on its pages, gathered anew on every call.
pub struct ServiceParts {
    /// What is not as it should be, and how bad that is.
    pub state: Box<dyn Fn() -> (ServiceState, Vec<String>) + Send + Sync>,
    /// Its own member of `/status`.
    pub status: Box<dyn Fn() -> Value + Send + Sync>,
    /// A region's node, which stops by itself.
    pub node: Option<App>,
}

/// One of the services, up.
pub struct RunningService {
    /// Where callers reach it; the views service has no callers.
    pub listen: Option<SocketAddr>,
    pub admin: SocketAddr,
    shell: Arc<Shell>,
    node: Option<App>,
}

/// What a test or a demonstration gives a service.
#[derive(Default)]
pub struct ServiceInstead {
    /// An engine that is open already, and that others share.
    pub engine: Option<Engine>,
    /// Where topics are, if not where the engine is.
    pub topics: Option<Url>,
    /// What it follows, if not what the engine has.
    pub feed: Option<Arc<dyn Feed>>,
    pub clock: Clock,
    /// Cancelled when it is told to stop: it starts no further than it must, and waits for nobody.
    pub told: CancellationToken,
}

impl ServiceProcess {
    const fn word(&self) -> &'static str {
        match self {
            Self::Catalogue => "catalogue",
            Self::Views => "views",
            Self::Region(..) => "region",
        }
    }

    fn title(&self) -> String {
        match self {
            Self::Region(region, _) => format!("region {}", region.name),
            other => other.word().to_owned(),
        }
    }

    /// How many callers may be connected at once.
    const fn connections(&self, config: &ServicesConfig) -> usize {
        match self {
            Self::Catalogue => config.catalogue.max_connections,
            Self::Views | Self::Region(..) => crate::config::limits::CONNECTIONS,
        }
    }

    /// The same within the machine's limits; says so if it is fewer.
    fn bound_connections(&self, bounds: Bounds, config: &ServicesConfig) -> usize {
        let asked = self.connections(config);
        let (connections, by) = bounds.service_connections(asked);
        if let (Self::Catalogue, Some(by)) = (self, by) {
            tracing::info!(
                connections,
                asked,
                by,
                "fewer connections than catalogue.max_connections are accepted at once"
            );
        }
        connections
    }

    fn allowed_hosts<'a>(&'a self, config: &'a ServicesConfig) -> &'a [String] {
        match self {
            Self::Catalogue => &config.catalogue.allowed_hosts,
            Self::Views => &config.views.allowed_hosts,
            Self::Region(region, _) => &region.allowed_hosts,
        }
    }

    /// Binds the listeners of callers and of operators before anything else is done; the latter are never
    /// none.
    fn bind(&self, config: &ServicesConfig) -> Result<(Vec<TcpListener>, Vec<TcpListener>), ListenError> {
        let buffer = Memory::of_the_machine().socket_buffer();
        let bind = |address, setting| {
            let listeners = sockets::bind_local(address, setting)?;
            let bound = |bytes| listeners.iter().for_each(|listener| listener::bound_buffers(listener, bytes));
            buffer.into_iter().for_each(bound);
            Ok::<_, ListenError>(listeners)
        };
        Ok(match self {
            Self::Catalogue => {
                (bind(config.catalogue.listen, "catalogue.listen")?, bind(config.catalogue.admin, "catalogue.admin")?)
            }
            Self::Views => (Vec::new(), bind(config.views.admin, "views.admin")?),
            // Its node binds for itself.
            Self::Region(region, _) => (Vec::new(), bind(region.admin, "region.admin")?),
        })
    }
}

/// Starts a service on the current runtime.
pub async fn start(
    process: ServiceProcess,
    config: ServicesConfig,
    contents: Contents,
    origins: &Origins,
    instead: ServiceInstead,
) -> Result<RunningService, ServiceStartError> {
    let (callers, operators) = process.bind(&config)?;
    let ServiceInstead { engine, topics, feed, clock, told } = instead;
    let topics = topics.or_else(|| config.engine.endpoint_url().cloned());
    let engine = match engine {
        Some(engine) => engine,
        None => {
            if !matches!(config.engine, EngineConfig::Aws { .. }) {
                tracing::warn!("{}", alone(&config.engine));
            }
            let opening = Engine::open(&config.engine, Sdk::new(topics.clone()), &clock);
            told.run_until_cancelled(Box::pin(opening)).await.ok_or(ServiceStartError::Told)??
        }
    };
    let engine = WatchedEngine::new(engine, clock.clone());
    let (bounds, tasks) = (Bounds::of_the_machine(Memory::of_the_machine()), Tasks::new());
    let connections = Permits::new(process.bound_connections(bounds, &config));
    let (shutdown, registry) = (Shutdown::default(), Mutex::new(Registry::with_prefix("nearside")));
    let shell = Shell { config, clock, tasks, shutdown, engine, contents, topics, feed, registry, connections };
    let shell = Arc::new(shell);
    let (engine, stopping) = (shell.engine.clone(), shell.tasks.stopping());
    shell.tasks.spawn_service("housekeeping", move || engine.clone().keep_house(stopping.clone()));
    let bound = callers.first().and_then(|listener| listener.local_addr().ok());
    let admin = operators.first().and_then(|listener| listener.local_addr().ok());
    let admin = admin.expect("a listener that was bound has an address");
    let opened = match &process {
        ServiceProcess::Catalogue => Ok(catalogue::open(&shell, callers)),
        ServiceProcess::Views => Ok(views::open(&shell)),
        ServiceProcess::Region(region, duties) => region::open(&shell, region, *duties).await,
    };
    let mut parts = match opened {
        Ok(parts) => parts,
        Err(error) => {
            // Nothing of a service that did not start keeps running.
            shell.tasks.drain(Duration::ZERO).await;
            return Err(error);
        }
    };
    let node = parts.node.take();
    let listen = bound.or_else(|| node.as_ref().and_then(|node| node.tcp));
    needed::look_for_needs(&shell, &process, &told).await;
    probe::start(&shell, &process).await;
    let pages = overview::pages(&shell, &process, parts, origins);
    serve_pages(operators.into_iter().map(Listener::Tcp), bounds.admin(), pages, &shell.tasks);
    tracing::info!(
        service = %process.title(),
        engine = shell.config.engine.word(),
        listen = listen.map(tracing::field::display),
        %admin,
        "serving"
    );
    Ok(RunningService { listen, admin, shell, node })
}

/// What to know of an engine of one process, when a process has it to itself.
fn alone(engine: &EngineConfig) -> String {
    format!(
        "engine.kind = {:?}: no other process sees what this one holds, so records reach no view and no region; \
         `nearside dev` runs all roles in one process, and kind = \"aws\" is for processes of their own",
        engine.word()
    )
}

impl Shell {
    /// Serves the catalogue's callers, until the linger is over and the drain begins.
    fn serve(&self, listeners: Vec<TcpListener>, name: &'static str, router: Router) {
        let lingering = self.shutdown.lingering.clone();
        let last = move |mut response: Response| {
            if lingering.is_cancelled() {
                // The caller's next request shall go elsewhere.
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            std::future::ready(response)
        };
        let router = router.layer(middleware::map_response(last));
        let admits = Admits::hosts(&self.config.catalogue.allowed_hosts);
        let guarded = move |reached| guarded(router.clone(), reached, admits.clone());
        let names = ServingTasks { accept: "accept", connection: name };
        let (listeners, stopping) = (listeners.into_iter().map(Listener::Tcp), self.tasks.stopping());
        service::start_all(listeners, names, self.connections.clone(), guarded, &self.tasks, stopping);
    }

    /// What carries the changes of a streamed table to `reader`.
    fn feed(&self, stream: Stream, reader: &str) -> Arc<dyn Feed> {
        self.feed.clone().unwrap_or_else(|| self.engine.feed(stream, reader))
    }

    /// A name for leases: of this process and this start of it.
    fn holder(&self) -> String {
        format!("{:032x}", fastrand::u128(..))
    }

    /// Where parts put their metrics while they are opened.
    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        // A panic while parts register cannot leave it half-written.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningService {
    /// Lingers, closes and drains; afterwards nothing runs.
    pub async fn stop(self) -> Stopped {
        let drain = self.shell.config.drain;
        let own = async {
            linger(&self.shell.shutdown, drain, || {}).await;
            self.shell.tasks.drain(drain.deadline).await
        };
        let node = async {
            match self.node {
                Some(node) => node.stop().await,
                None => Stopped::default(),
            }
        };
        let (mut late, node) = tokio::join!(own, node);
        late.extend(node.late);
        tracing::info!(?late, "stopped");
        Stopped { late, left_behind: node.left_behind }
    }
}
