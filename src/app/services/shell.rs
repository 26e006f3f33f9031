//! The shell of a service: the parts that all of them share.

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::middleware;
use axum::response::Response;
use parking_lot::{Mutex, MutexGuard};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use url::Url;

use super::contents::Contents;
use super::watched::WatchedEngine;
use crate::admin::guard::{Admits, guarded};
use crate::config::services::ServicesConfig;
use crate::engine::{Feed, Stream};
use crate::http::connection::Shutdown;
use crate::http::server_tls::{Offers, PortTls, ServerTls};
use crate::http::service::{self, Listener, ServingTasks};
use crate::model::time::Clock;
use crate::tasks::Tasks;
use crate::tasks::permits::Permits;

/// Shared parts with which a service is built.
pub(super) struct Shell {
    pub(super) config: ServicesConfig,
    pub(super) clock: Clock,
    pub(super) tasks: Tasks,
    pub(super) shutdown: Shutdown,
    pub(super) engine: WatchedEngine,
    pub(super) contents: Contents,
    /// Endpoint of topics, if not AWS.
    pub(super) topics: Option<Url>,
    pub(super) feed: Option<Arc<dyn Feed>>,
    pub(super) registry: Mutex<Registry>,
    /// Permits of callers.
    pub(super) connections: Permits,
    /// TLS of all its ports.
    pub(super) tls: Option<Arc<ServerTls>>,
}

impl Shell {
    /// Serves the catalogue's callers, until the linger is over and the drain begins.
    pub(super) fn serve(&self, listeners: Vec<TcpListener>, name: &'static str, router: Router) {
        let lingering = self.shutdown.lingering.clone();
        let router = router.layer(middleware::map_response(move |mut response: Response| {
            if lingering.is_cancelled() {
                // The caller's next request shall go elsewhere.
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            std::future::ready(response)
        }));
        let admits = Admits::hosts(&self.config.catalogue.allowed_hosts);
        service::start_all(
            Listener::over(PortTls::of(self.tls.as_ref(), Offers::Http1).as_ref(), listeners),
            ServingTasks { accept: "accept", connection: name },
            self.connections.clone(),
            move |reached| guarded(router.clone(), reached, admits.clone()),
            &self.tasks,
            self.tasks.stopping(),
        );
    }

    /// Feed of a streamed table's changes to `reader`.
    pub(super) fn feed(&self, stream: Stream, reader: &str) -> Arc<dyn Feed> {
        self.feed.clone().unwrap_or_else(|| self.engine.feed(stream, reader))
    }

    /// A name for leases: of this process and this start of it.
    pub(super) fn holder(&self) -> String {
        format!("{:032x}", fastrand::u128(..))
    }

    /// Registry for the metrics of parts while they are opened.
    pub(super) fn registry(&self) -> MutexGuard<'_, Registry> {
        // A panic while parts register cannot leave it half-written.
        self.registry.lock()
    }
}
