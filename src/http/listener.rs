//! Accepts connections on loopback TCP and Unix sockets. A connection takes a permit before it is
//! accepted: beyond the bound, callers wait in the kernel's backlog.

use std::borrow::Borrow;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::net::{TcpListener, TcpStream, UnixListener};

use crate::config::UnixSocket;
use crate::http::body::Body;
use crate::http::connection::{self, ConnectionContext, FastPath, Via};
use crate::http::kernel_buffers::KernelBuffers;
use crate::http::limits::ACCEPT_PAUSE;
use crate::http::server_tls::PortTls;
use crate::telemetry::rate_limiter::RateLimiter;

/// Why a listener could not be set up. The operator has to fix it; a retry helps once the cause is
/// gone.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process has the port.
    #[error("{what}: {addr} is in use; stop what listens there (`ss -ltnp`) or set {setting} to another port")]
    InUse { what: &'static str, addr: String, setting: &'static str },
    #[error("{0}: {1} exists and is not a socket; remove it or choose another path")]
    NotASocket(&'static str, PathBuf),
    /// Any other error from the kernel.
    #[error("{what}: cannot listen on {addr}: {source}; check {setting}")]
    Io { what: &'static str, addr: String, setting: &'static str, source: std::io::Error },
}

impl ListenError {
    /// Sorts the kernel's errors about listening on `addr`, which `setting` asks for.
    pub fn new(what: &'static str, addr: impl ToString, setting: &'static str, source: std::io::Error) -> Self {
        let addr = addr.to_string();
        match source.kind() {
            std::io::ErrorKind::AddrInUse => Self::InUse { what, addr, setting },
            _ => Self::Io { what, addr, setting, source },
        }
    }
}

/// Bounds what the kernel buffers of each connection that `listener` accepts.
pub fn bound_buffers(listener: impl std::os::fd::AsFd, bytes: usize) {
    let socket = socket2::SockRef::from(&listener);
    // Without it the kernel's own limits hold.
    let _ = socket.set_recv_buffer_size(bytes).and_then(|()| socket.set_send_buffer_size(bytes));
}

/// Port 0 picks a free one.
pub fn bind_tcp(addr: SocketAddr, what: &'static str, setting: &'static str) -> Result<TcpListener, ListenError> {
    listen_at(addr).map_err(|source| ListenError::new(what, addr, setting, source))
}

fn listen_at(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(addr), socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    if addr.ip().is_loopback() {
        // Loopback cannot be congested, so the cheapest algorithm is good enough. If it is not
        // available, nothing is lost.
        let _ = rustix::net::sockopt::set_tcp_congestion(&socket, "reno");
    }
    socket.bind(&addr.into())?;
    socket.listen(1024)?;
    TcpListener::from_std(socket.into())
}

/// Makes the Unix socket that `setting` asks for, with the right mode before its name appears.
/// Replaces one that nobody listens on.
pub fn bind_unix(socket: &UnixSocket, setting: &'static str) -> Result<UnixListener, ListenError> {
    let path = &socket.path;
    let found = std::fs::symlink_metadata(path).ok();
    if found.as_ref().is_some_and(|found| !found.file_type().is_socket()) {
        return Err(ListenError::NotASocket(setting, path.clone()));
    }
    let is_used = if found.is_some() { is_listened_on(path) } else { Ok(false) };
    let bound = match is_used {
        Ok(true) => Err(io::ErrorKind::AddrInUse.into()),
        Ok(false) => bind_in_place(socket),
        Err(error) => Err(error),
    };
    bound.map_err(|source| ListenError::new(setting, path.display(), setting, source))
}

/// Binds beside the path, and takes the path only with the right mode.
fn bind_in_place(socket: &UnixSocket) -> io::Result<UnixListener> {
    let unnamed = beside(&socket.path);
    let bound = UnixListener::bind(&unnamed).and_then(|listener| {
        std::fs::set_permissions(&unnamed, std::fs::Permissions::from_mode(socket.mode))?;
        std::fs::rename(&unnamed, &socket.path)?;
        Ok(listener)
    });
    bound.inspect_err(|_| {
        // What was half made must not stay; it is fine if it is not there.
        let _ = std::fs::remove_file(&unnamed);
    })
}

/// Returns whether somebody listens on this Unix socket. Who cannot find out must not take it: it may be
/// another user's.
fn is_listened_on(path: &Path) -> io::Result<bool> {
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
    // A process that is frozen, its backlog full, would be waited for without an end.
    socket.set_nonblocking(true)?;
    match socket.connect(&socket2::SockAddr::unix(path)?) {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock => Ok(true),
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Ok(false),
            _ => Err(error),
        },
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{:08x}", fastrand::u32(..)));
    path.with_file_name(name)
}

/// Accepts connections of callers until the linger ends, over TLS if the port speaks it.
pub(crate) async fn accept<P, H, F>(
    listener: impl Borrow<TcpListener> + Send + Sync,
    tls: Option<PortTls>,
    context: ConnectionContext<P>,
    handler: H,
) where
    P: FastPath,
    H: Fn(Request<Incoming>, Via) -> F + Clone + Unpin + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    match tls {
        Some(tls) => accept_tls(listener, tls, context, handler).await,
        None => accept_tcp(listener, context, handler).await,
    }
}

/// Accepts TCP connections until the linger ends.
pub async fn accept_tcp<P, H, F>(
    listener: impl Borrow<TcpListener> + Send + Sync,
    context: ConnectionContext<P>,
    handler: H,
) where
    P: FastPath,
    H: Fn(Request<Incoming>, Via) -> F + Clone + Unpin + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let serving = context.clone();
    let serve =
        move |stream| connection::serve(stream, KernelBuffers::TCP, Via::Tcp, serving.clone(), handler.clone());
    accept_with(|cx| poll_tcp(listener.borrow(), cx), serve, context).await;
}

/// Like [`accept_tcp`], of connections that carry TLS. Their handshakes hold up nobody else.
pub(crate) async fn accept_tls<P, H, F>(
    listener: impl Borrow<TcpListener> + Send + Sync,
    tls: PortTls,
    context: ConnectionContext<P>,
    handler: H,
) where
    P: FastPath,
    H: Fn(Request<Incoming>, Via) -> F + Clone + Unpin + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let serving = context.clone();
    let serve = move |stream| connection::serve_tls(stream, tls.clone(), Via::Tcp, serving.clone(), handler.clone());
    accept_with(|cx| poll_tcp(listener.borrow(), cx), serve, context).await;
}

fn poll_tcp(listener: &TcpListener, cx: &mut Context<'_>) -> Poll<io::Result<Option<TcpStream>>> {
    listener.poll_accept(cx).map_ok(|(stream, _)| {
        // Without it a small answer may wait for the caller's ACK; failing to set it costs only time.
        let _ = stream.set_nodelay(true);
        Some(stream)
    })
}

/// Accepts Unix connections of permitted peers until the linger ends.
pub async fn accept_unix<P, H, F>(
    listener: impl Borrow<UnixListener> + Send + Sync,
    uids: Vec<u32>,
    context: ConnectionContext<P>,
    handler: H,
) where
    P: FastPath,
    H: Fn(Request<Incoming>, Via) -> F + Clone + Unpin + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let own = rustix::process::geteuid().as_raw();
    let (lines, clock) = (RateLimiter::new(), context.clock.clone());
    let serving = context.clone();
    let serve =
        move |stream| connection::serve(stream, KernelBuffers::UNIX, Via::Unix, serving.clone(), handler.clone());
    accept_with(
        |cx| {
            listener.borrow().poll_accept(cx).map_ok(|(stream, _)| {
                let uid = stream.peer_cred().map(|peer| peer.uid()).ok();
                let welcome = uid.is_some_and(|uid| if uids.is_empty() { uid == own } else { uids.contains(&uid) });
                if !welcome && let Some(suppressed) = lines.admit(clock.now()) {
                    tracing::warn!(?uid, suppressed, "a peer that listen.unix_uids does not name was turned away");
                }
                welcome.then_some(stream)
            })
        },
        serve,
        context,
    )
    .await;
}

/// Has `serve` serve what `accept` brings; `None` is a peer that was turned away.
async fn accept_with<S, P, F>(
    mut accept: impl FnMut(&mut Context<'_>) -> Poll<io::Result<Option<S>>> + Send,
    serve: impl Fn(S) -> F,
    context: ConnectionContext<P>,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let lines = RateLimiter::new();
    while let Some(permit) = context.permit().await {
        let accepted = tokio::select! {
            accepted = poll_fn(&mut accept) => accepted,
            () = context.shutdown.closing.cancelled() => return,
        };
        match accepted {
            Ok(Some(stream)) => {
                // Boxed: what runs a task would else hold its future several times.
                let connection = Box::pin(serve(stream));
                context.tasks.spawn("connection", async move {
                    connection.await;
                    drop(permit);
                });
            }
            Ok(None) => {}
            Err(error) => {
                if let Some(suppressed) = lines.admit(context.clock.now()) {
                    tracing::warn!(%error, suppressed, "could not accept a connection");
                }
                pause().await;
            }
        }
    }
}

/// Running out of file descriptors, or a peer that left early, must neither spin the loop nor end
/// it.
async fn pause() {
    tokio::time::sleep(ACCEPT_PAUSE).await;
}
