//! Sockets for callers and operators of a sidecar or a service, bound before anything else is done.
//!
//! `localhost` is `::1` to some clients: a listener on 127.0.0.1 listens there too, if the machine
//! has it and nobody else listens there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::{TcpListener, UnixListener};

use crate::cache::capacity::Memory;
use crate::config::Config;
use crate::http::listener::{self, ListenError};

pub(super) struct Sockets {
    /// Listeners for applications; the first is the one that the settings name.
    pub(super) tcp: Vec<TcpListener>,
    pub(super) unix: Option<UnixListener>,
    /// As `tcp`, and never empty.
    pub(super) admin: Vec<TcpListener>,
    pub(super) operators: Option<UnixListener>,
}

impl Sockets {
    pub(super) fn bind(config: &Config) -> Result<Self, ListenError> {
        let tcp = config.listen.tcp.map(|addr| bind_local(addr, "listen.tcp")).transpose()?.unwrap_or_default();
        let admin = bind_local(config.admin.listen, "admin.listen")?;
        let unix = config.listen.unix.as_ref().map(|unix| listener::bind_unix(unix, "listen.unix")).transpose()?;
        let operators = config.admin.unix.as_ref().map(|unix| listener::bind_unix(unix, "admin.unix")).transpose()?;
        Ok(Self { tcp, unix, admin, operators })
    }

    /// Bounds what the kernel buffers of connections, where it counts towards a limit.
    pub(super) fn bound_buffers(&self, memory: Memory) {
        let Some(bytes) = memory.socket_buffer() else { return };
        self.tcp.iter().chain(&self.admin).for_each(|listener| listener::bound_buffers(listener, bytes));
        self.unix.iter().chain(&self.operators).for_each(|listener| listener::bound_buffers(listener, bytes));
    }
}

/// The address that `setting` names, which comes first, and `::1` beside 127.0.0.1.
pub(super) fn bind_local(addr: SocketAddr, setting: &'static str) -> Result<Vec<TcpListener>, ListenError> {
    let first = listener::bind_tcp(addr, setting, setting)?;
    // A listener that was bound has an address.
    let port = first.local_addr().map_or(addr.port(), |bound| bound.port());
    let beside = (addr.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST))
        .then(|| listener::bind_tcp((Ipv6Addr::LOCALHOST, port).into(), setting, setting));
    let other = match beside.transpose() {
        Ok(other) => other,
        Err(ListenError::InUse { .. }) => {
            tracing::warn!(
                setting,
                port,
                "another process listens on [::1]: clients to whom localhost is ::1 reach that one; \
                 let them call 127.0.0.1"
            );
            None
        }
        Err(reason) => {
            tracing::debug!(setting, %reason, "no IPv6 here: localhost is 127.0.0.1 alone");
            None
        }
    };
    Ok(std::iter::once(first).chain(other).collect())
}
