//! The processes beside the sidecar: the catalogue, the views service, a region. What they share is
//! here: sockets first, so that an error is clear and early, then the engine, then the parts of the
//! one that it is; the admin pages; the stop. `catalogue`, `views` and `region` wire the parts of
//! one each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{App, Stopped, linger};
use crate::admin::service_pages::serve_pages;
use crate::app::bounds::Bounds;
use crate::aws::clients::Sdk;
use crate::cache::capacity::Memory;
use crate::config::scope::Origins;
use crate::config::services::{EngineConfig, ServicesConfig};
use crate::engine::Feed;
use crate::http::connection::Shutdown;
use crate::http::server_tls::{Offers, PortTls, ServerTls};
use crate::http::service::Listener;
use crate::http::tls_exposition::TlsExposition;
use crate::model::time::Clock;
use crate::tasks::Tasks;
use crate::tasks::permits::Permits;

pub(crate) mod access_files;
mod catalogue;
mod commands;
mod contents;
mod engines;
mod gate;
mod health;
pub mod needed;
mod overview;
mod parts;
mod probe;
pub mod region;
mod service_process;
pub mod setup;
mod shell;
mod start_error;
pub mod verify;
mod views;
mod watched;

pub use commands::ChangesArguments;
pub use contents::Contents;
pub use engines::Engine;
pub use service_process::{RegionDuties, ServiceProcess};
use shell::Shell;
pub use start_error::ServiceStartError;
pub use watched::WatchedEngine;

/// One of the services, up.
pub struct RunningService {
    /// Address for callers; the views service has none.
    pub listen: Option<SocketAddr>,
    pub admin: SocketAddr,
    shell: Arc<Shell>,
    node: Option<App>,
}

/// Parts that a test or a demonstration gives a service.
#[derive(Default)]
pub struct ServiceOverrides {
    /// An engine that is open already, and that others share.
    pub engine: Option<Engine>,
    /// Endpoint of topics, if not the engine's.
    pub topics: Option<Url>,
    /// Feed to follow, if not the engine's.
    pub feed: Option<Arc<dyn Feed>>,
    pub clock: Clock,
    /// Cancelled when it is asked to stop: it starts no further than it must, and waits for nobody.
    pub stop: CancellationToken,
}

/// Starts a service on the current runtime.
pub async fn start(
    process: ServiceProcess,
    config: ServicesConfig,
    contents: Contents,
    origins: &Origins,
    instead: ServiceOverrides,
) -> Result<RunningService, ServiceStartError> {
    let tls = process.certificate(&config).map(ServerTls::open).transpose()?;
    let (callers, operators) = process.bind(&config)?;
    let ServiceOverrides { engine, topics, feed, clock, stop } = instead;
    let topics = topics.or_else(|| config.engine.endpoint_url().cloned());
    let engine = match engine {
        Some(engine) => engine,
        None => {
            if !matches!(config.engine, EngineConfig::Aws { .. }) {
                tracing::warn!("{}", alone(&config.engine));
            }
            let opening = Engine::open(&config.engine, Sdk::new(topics.clone()), &clock);
            stop.run_until_cancelled(Box::pin(opening)).await.ok_or(ServiceStartError::Stopped)??
        }
    };
    let engine = WatchedEngine::new(engine, clock.clone());
    let bounds = Bounds::of_the_machine(Memory::of_the_machine()).over(tls.as_ref());
    let tasks = Tasks::new();
    let connections = Permits::new(process.bound_connections(bounds, &config));
    let (shutdown, registry) = (Shutdown::default(), Mutex::new(Registry::with_prefix("nearside")));
    let shell = Shell { config, clock, tasks, shutdown, engine, contents, topics, feed, registry, connections, tls };
    let shell = Arc::new(shell);
    if let Some(tls) = &shell.tls {
        tls.watch(&shell.tasks);
        shell.registry().register_collector(Box::new(TlsExposition::new(tls.clone())));
    }
    let (engine, stopping) = (shell.engine.clone(), shell.tasks.stopping());
    shell.tasks.spawn_service("housekeeping", move || engine.clone().keep_house(stopping.clone()));
    let bound = callers.first().and_then(|listener| listener.local_addr().ok());
    let admin = operators.first().and_then(|listener| listener.local_addr().ok());
    let admin = admin.expect("a listener that was bound has an address");
    let opened = match &process {
        ServiceProcess::Catalogue => catalogue::open(&shell, callers),
        ServiceProcess::Views => views::open(&shell),
        ServiceProcess::Region(region, duties) => region::open(&shell, region, *duties).await,
    };
    let opened = opened.and_then(|parts| Ok((gate::operators(&shell, parts.gate.as_ref(), admin, &process)?, parts)));
    let opened = opened.and_then(|(granted, mut parts)| {
        let commands = gate::commands(&shell, &mut parts, granted.as_ref(), admin, &process)?;
        Ok((granted, commands, parts))
    });
    let (granted, commands, mut parts) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            // Nothing of a service that did not start keeps running.
            shell.tasks.drain(Duration::ZERO).await;
            return Err(error);
        }
    };
    let node = parts.node.take();
    let listen = bound.or_else(|| node.as_ref().and_then(|node| node.tcp));
    needed::look_for_needs(&shell, &process, &stop).await;
    probe::start(&shell, &process).await;
    let pages = overview::pages(&shell, &process, parts, origins, granted, commands);
    let operators = Listener::over(PortTls::of(shell.tls.as_ref(), Offers::Pages).as_ref(), operators);
    serve_pages(operators, bounds.admin(), pages, &shell.tasks);
    tracing::info!(
        service = %process.title(),
        engine = shell.config.engine.word(),
        listen = listen.map(tracing::field::display),
        %admin,
        tls = shell.tls.is_some(),
        "serving"
    );
    Ok(RunningService { listen, admin, shell, node })
}

/// Remark on an engine of one process, when a process has it to itself.
fn alone(engine: &EngineConfig) -> String {
    format!(
        "engine.kind = {:?}: no other process sees what this one holds, so records reach no view and no region; \
         `nearside-lab dev` runs all roles in one process, and kind = \"aws\" is for processes of their own",
        engine.word()
    )
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
