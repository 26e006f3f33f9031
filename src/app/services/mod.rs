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

use super::{Stopped, linger};
use crate::admin::guard::guarded;
use crate::admin::service_pages::{ServiceState, serve_pages};
use crate::config::scope::Origins;
use crate::config::services::{ServedRegion, ServicesConfig};
use crate::engine::EngineError;
use crate::http::connection::Shutdown;
use crate::http::listener::{self, ListenError};
use crate::http::service::{self, Listener};
use crate::model::time::Clock;
use crate::tasks::Tasks;
use crate::tasks::permits::Permits;

mod catalogue;
mod engines;
mod overview;
mod region;
mod views;

pub use engines::Engine;

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
    /// The program has no such engine yet.
    #[error("engine.kind = {0:?} is not built into this program; write kind = \"memory\"")]
    NoEngine(&'static str),
}

/// What the parts of a service are built with.
pub struct Shell {
    pub config: ServicesConfig,
    pub clock: Clock,
    pub tasks: Tasks,
    pub shutdown: Shutdown,
    pub engine: Engine,
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
}

/// One of the services, up.
pub struct RunningService {
    /// Where callers reach it; the views service has no callers.
    pub listen: Option<SocketAddr>,
    pub admin: SocketAddr,
    shell: Arc<Shell>,
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

    /// What callers and operators reach, bound before anything else is done.
    fn bind(&self, config: &ServicesConfig) -> Result<(Option<TcpListener>, TcpListener), ListenError> {
        let bind = |address, setting| listener::bind_tcp(address, setting, setting);
        Ok(match self {
            Self::Catalogue => (
                Some(bind(config.catalogue.listen, "catalogue.listen")?),
                bind(config.catalogue.admin, "catalogue.admin")?,
            ),
            Self::Views => (None, bind(config.views.admin, "views.admin")?),
            Self::Region(region, duties) => {
                let node = duties.node.then(|| bind(region.listen, "region.listen")).transpose()?;
                (node, bind(region.admin, "region.admin")?)
            }
        })
    }
}

/// Starts a service on the current runtime.
pub async fn start(
    process: ServiceProcess,
    config: ServicesConfig,
    origins: &Origins,
) -> Result<RunningService, ServiceStartError> {
    let (callers, operators) = process.bind(&config)?;
    let clock = Clock::System;
    let engine = Engine::open(&config.engine, &clock)?;
    let (connections, tasks) = (Permits::new(process.connections(&config)), Tasks::new());
    let (shutdown, registry) = (Shutdown::default(), Mutex::new(Registry::with_prefix("nearside")));
    let shell = Arc::new(Shell { config, clock, tasks, shutdown, engine, registry, connections });
    let listen = callers.as_ref().and_then(|listener| listener.local_addr().ok());
    let admin = operators.local_addr().expect("a listener that was bound has an address");
    let opened = match &process {
        ServiceProcess::Catalogue => catalogue::open(&shell, callers),
        ServiceProcess::Views => views::open(&shell),
        ServiceProcess::Region(region, duties) => region::open(&shell, region, *duties, callers),
    };
    let parts = match opened {
        Ok(parts) => parts,
        Err(error) => {
            // Nothing of a service that did not start keeps running.
            shell.tasks.drain(Duration::ZERO).await;
            return Err(error);
        }
    };
    let pages = overview::pages(&shell, &process, parts, origins);
    shell.tasks.spawn("admin", serve_pages(Listener::Tcp(operators), pages, shell.tasks.clone()));
    tracing::info!(
        service = %process.title(),
        engine = shell.config.engine.word(),
        listen = listen.map(tracing::field::display),
        %admin,
        "serving"
    );
    Ok(RunningService { listen, admin, shell })
}

impl Shell {
    /// Serves callers, until the linger is over and the drain begins.
    fn serve(&self, listener: TcpListener, name: &'static str, router: Router) {
        let lingering = self.shutdown.lingering.clone();
        let last = move |mut response: Response| {
            if lingering.is_cancelled() {
                // The caller's next request shall go elsewhere.
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            std::future::ready(response)
        };
        let router = router.layer(middleware::map_response(last));
        let guarded = move |reached| guarded(router.clone(), reached);
        let serving =
            service::serve(Listener::Tcp(listener), name, self.connections.clone(), guarded, self.tasks.clone());
        self.tasks.spawn("accept", serving);
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
        linger(&self.shell.shutdown, drain).await;
        let late = self.shell.tasks.drain(drain.deadline).await;
        tracing::info!(?late, "stopped");
        Stopped { late, left_behind: 0 }
    }
}
