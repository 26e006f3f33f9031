//! `[listen]` and `[admin]`: where applications and operators reach the sidecar.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::scope::{Collector, SettingScope};
use super::table::{Rows, settings};
use crate::config::limits;

settings! {
    /// `[listen]`
    #[derive(Clone, Debug)]
    pub struct Listen in Listen {
        /// Address and port for applications; port 0 picks a free one, `false` listens on none.
        tcp: Option<SocketAddr> = LISTEN_TCP(AddressOrNone, Is("127.0.0.1:8700")) Restart;
        /// Unix socket to which applications connect.
        unix: Option<UnixSocket> = UnixSocket::read[
            /// A Unix socket to which applications connect.
            LISTEN_UNIX("unix", File, Is(""));
            /// The socket's permission bits, octal.
            LISTEN_UNIX_MODE("unix_mode", Mode, Is("0600"));
            /// User ids that may connect to the socket; none means Nearside's own only.
            LISTEN_UNIX_UIDS("unix_uids", Uids, Is(""));
        ] Restart;
        /// Hosts accepted in `Host` besides loopback names and addresses.
        allowed_hosts: Vec<String> = LISTEN_ALLOWED_HOSTS(Hosts, Is(""));
        /// Serve requests by other sites' pages in a browser (`Sec-Fetch-Site`), on all ports.
        allow_cross_site: bool = LISTEN_ALLOW_CROSS_SITE(Flag, Is("false"));
        /// A file whose content callers must send in `x-nearside-token`.
        token_file: Option<PathBuf> = LISTEN_TOKEN_FILE(File, Is(""));
        /// Connections open at once.
        max_connections: usize = LISTEN_MAX_CONNECTIONS(Count(1, limits::CONNECTIONS_AT_MOST as u64), Is("4096"));
        /// Answer plain HTTP/1.1 requests before hyper reads them; `false` costs more CPU.
        fast: bool = LISTEN_FAST(Flag, Is("true"));
        /// Let `listen.tcp` be an address that other machines reach.
        allow_non_loopback: bool = LISTEN_ALLOW_NON_LOOPBACK(Flag, Is("false"));
    }
}

settings! {
    /// `[admin]`
    #[derive(Clone, Debug)]
    pub struct Admin in Admin {
        /// Address and port of `/livez`, `/readyz`, `/status` and `/metrics`; port 0 picks a free one.
        listen: SocketAddr = ADMIN_LISTEN(Address, Is("127.0.0.1:8701")) Restart;
        /// Let `admin.listen` be an address that other machines reach, as a kubelet's probe needs.
        allow_non_loopback: bool = ADMIN_ALLOW_NON_LOOPBACK(Flag, Is("false"));
        /// Unix socket for operators.
        unix: Option<UnixSocket> = UnixSocket::read[
            /// A Unix socket for pages and commands (`nearside ctl`); none keeps the commands closed.
            ADMIN_UNIX("unix", File, Is(""));
            /// The operators' socket's permission bits, octal.
            ADMIN_UNIX_MODE("unix_mode", Mode, Is("0600"));
            /// User ids that may use the operators' socket; none means Nearside's own only.
            ADMIN_UNIX_UIDS("unix_uids", Uids, Is(""));
        ];
        /// A file whose content opens the commands on `admin.listen`, sent as `Authorization: Bearer`; none
        /// keeps them closed there.
        token_file: Option<PathBuf> = ADMIN_TOKEN_FILE(File, Is(""));
    }
}

/// A Unix socket, `unix` and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSocket {
    /// Path at which it is created; a stale socket there is replaced, anything else is an error.
    pub path: PathBuf,
    /// Permission bits, `0o600`.
    pub mode: u32,
    /// The uids of peers that are accepted; if empty, only the process's own.
    pub uids: Vec<u32>,
}

impl UnixSocket {
    fn read(collector: &mut Collector, scope: &SettingScope, [path, mode, uids]: Rows<3>) -> Option<Self> {
        let path = scope.get::<Option<PathBuf>>(collector, path);
        let (mode, uids) = (scope.get(collector, mode), scope.get(collector, uids));
        path.map(|path| Self { path, mode, uids })
    }
}
