//! The service that a process is, and what follows from it: its listeners, its bounds, its hosts.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::app::bounds::Bounds;
use crate::app::sockets;
use crate::cache::capacity::Memory;
use crate::config::ServerCertificate;
use crate::config::services::{ServedRegion, ServicesConfig};
use crate::http::listener::{self, ListenError};

/// Service that a process is, with what only that one needs.
#[derive(Clone, Debug, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum ServiceProcess {
    Catalogue,
    Views,
    Region(Box<ServedRegion>, RegionDuties),
}

/// Duties of a region's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionDuties {
    /// Takes changes from the feed and announces them.
    pub ingest: bool,
    /// Answers reads.
    pub node: bool,
}

impl ServiceProcess {
    pub(super) fn title(&self) -> String {
        match self {
            Self::Region(region, _) => format!("region {}", region.name),
            other => other.into_str().to_owned(),
        }
    }

    /// Most callers connected at once.
    const fn connections(&self, config: &ServicesConfig) -> usize {
        match self {
            Self::Catalogue => config.catalogue.max_connections,
            Self::Views | Self::Region(..) => crate::config::limits::CONNECTIONS,
        }
    }

    /// Bound on connected callers within the machine's limits; says so if it is lower than the
    /// settings ask for.
    pub(super) fn bound_connections(&self, bounds: Bounds, config: &ServicesConfig) -> usize {
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

    /// Certificate of its ports; `None` where they speak plain HTTP.
    pub(super) const fn certificate<'a>(&'a self, config: &'a ServicesConfig) -> Option<&'a ServerCertificate> {
        match self {
            Self::Catalogue => config.catalogue.tls.server.as_ref(),
            Self::Views => config.views.tls.server.as_ref(),
            Self::Region(region, _) => region.tls.server.as_ref(),
        }
    }

    /// True if a proxy hands requests on to its ports.
    pub(super) const fn behind_proxy(&self, config: &ServicesConfig) -> bool {
        match self {
            Self::Catalogue => config.catalogue.behind_proxy,
            Self::Views => config.views.behind_proxy,
            Self::Region(region, _) => region.behind_proxy,
        }
    }

    pub(super) fn allowed_hosts<'a>(&'a self, config: &'a ServicesConfig) -> &'a [String] {
        match self {
            Self::Catalogue => &config.catalogue.allowed_hosts,
            Self::Views => &config.views.allowed_hosts,
            Self::Region(region, _) => &region.allowed_hosts,
        }
    }

    /// Binds the listeners of callers and of operators before anything else is done; the latter are never
    /// none.
    pub(super) fn bind(&self, config: &ServicesConfig) -> Result<(Vec<TcpListener>, Vec<TcpListener>), ListenError> {
        let buffer = Memory::of_the_machine().socket_buffer();
        Ok(match self {
            Self::Catalogue => (
                bound(config.catalogue.listen, "catalogue.listen", buffer)?,
                bound(config.catalogue.admin, "catalogue.admin", buffer)?,
            ),
            Self::Views => (Vec::new(), bound(config.views.admin, "views.admin", buffer)?),
            // Its node binds for itself.
            Self::Region(region, _) => (Vec::new(), bound(region.admin, "region.admin", buffer)?),
        })
    }
}

/// Listeners at the address that a setting says. `buffer` bounds what the kernel keeps of each
/// connection.
fn bound(address: SocketAddr, setting: &'static str, buffer: Option<usize>) -> Result<Vec<TcpListener>, ListenError> {
    let listeners = sockets::bind_local(address, setting)?;
    if let Some(bytes) = buffer {
        listeners.iter().for_each(|listener| listener::bound_buffers(listener, bytes));
    }
    Ok(listeners)
}
