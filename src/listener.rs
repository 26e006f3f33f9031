//! Stage 1 of a request: accept. Loopback TCP (HTTP/1.1 and h2c) and a Unix socket.
//!
//! Before it: the configuration. After it: each request goes to the handler that `app` gives, which begins with
//! [`crate::request`]. A connection takes a permit before it is accepted, so beyond the bound callers wait in the
//! kernel's backlog. A connection that is silent, slow with its headers, or idle is closed ([`wire`]).
//!
//! Invariant: from the first SIGTERM until the linger ends everything that arrives is still answered; a connection
//! is told to go (`Connection: close`, GOAWAY) only together with an answer or when it has none pending.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, ready};
use http::{HeaderValue, Request, Response, StatusCode, Version, header};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::config::UnixSocket;
use crate::limits;
use crate::response::{Body, Unread};
use crate::tasks::Tasks;
use crate::tasks::permits::Permits;
use crate::tasks::seldom::Seldom;

pub mod hits;
mod http1;
pub mod wire;
use hits::Newest;
use wire::{Protocol, Pulse, Wire};

/// Why a listener could not be set up: the operator's to mend; a retry helps once the cause is gone.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody else has the port.
    #[error("{what}: {addr} is in use; stop what listens there (`ss -ltnp`) or set {setting} to another port")]
    InUse {
        /// Which listener.
        what: &'static str,
        /// The address.
        addr: String,
        /// The setting to change.
        setting: &'static str,
    },
    /// The Unix socket's path holds something that is not a socket.
    #[error("{0}: {1} exists and is not a socket; remove it or choose another path")]
    NotASocket(&'static str, PathBuf),
    /// Anything else the kernel said.
    #[error("{what}: cannot listen on {addr}: {source}; check {setting}")]
    Io {
        /// Which listener.
        what: &'static str,
        /// The address.
        addr: String,
        /// The setting to change.
        setting: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
}

impl ListenError {
    /// Sorts what the kernel said about listening on `addr`, as `setting` asks.
    pub fn new(what: &'static str, addr: impl ToString, setting: &'static str, source: std::io::Error) -> Self {
        let addr = addr.to_string();
        match source.kind() {
            std::io::ErrorKind::AddrInUse => Self::InUse { what, addr, setting },
            _ => Self::Io { what, addr, setting, source },
        }
    }
}

/// How a request reached us: decides which checks apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// A TCP port: `Host` is checked.
    Tcp,
    /// The Unix socket: the peer's uid was checked instead.
    Unix,
}

/// The two moments of a shutdown that connections watch.
#[derive(Clone, Default)]
pub struct Ending {
    /// SIGTERM came: go on answering, and say goodbye with each answer.
    pub lingering: CancellationToken,
    /// The linger is over: accept nothing, finish what is under way.
    pub closing: CancellationToken,
}

/// What every connection shares.
#[derive(Clone)]
pub struct Reception {
    /// Spawns connections.
    pub tasks: Tasks,
    /// For idle and header waits.
    pub clock: Clock,
    /// Connections open at once over all listeners.
    pub permits: Permits,
    /// When to stop.
    pub ending: Ending,
    /// What is answered without asking the handler.
    pub at_once: Option<Arc<Newest>>,
}

/// Binds a TCP port; port 0 picks one.
pub fn bind_tcp(addr: SocketAddr, what: &'static str, setting: &'static str) -> Result<TcpListener, ListenError> {
    let bind = || {
        let socket = socket2::Socket::new(socket2::Domain::for_address(addr), socket2::Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        if addr.ip().is_loopback() {
            // Nothing on the way can be congested, so the cheapest is good enough. Where it cannot be had, nothing is lost.
            let _ = rustix::net::sockopt::set_tcp_congestion(&socket, "reno");
        }
        socket.bind(&addr.into())?;
        socket.listen(1024)?;
        TcpListener::from_std(socket.into())
    };
    bind().map_err(|source| ListenError::new(what, addr, setting, source))
}

/// Makes the Unix socket that `setting` asks for with its mode already right when its name appears; replaces one that nobody listens on.
pub fn bind_unix(socket: &UnixSocket, setting: &'static str) -> Result<UnixListener, ListenError> {
    let path = &socket.path;
    let fail = |source| ListenError::new(setting, path.display(), setting, source);
    if let Ok(found) = std::fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(ListenError::NotASocket(setting, path.clone()));
        }
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(fail(std::io::ErrorKind::AddrInUse.into()));
        }
    }
    let unnamed = beside(path);
    let bind = || {
        let listener = UnixListener::bind(&unnamed)?;
        std::fs::set_permissions(&unnamed, std::fs::Permissions::from_mode(socket.mode))?;
        std::fs::rename(&unnamed, path)?;
        Ok(listener)
    };
    bind().map_err(|source| {
        // What was half made must not stay; that it may not be there is fine.
        let _ = std::fs::remove_file(&unnamed);
        fail(source)
    })
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{:08x}", fastrand::u32(..)));
    path.with_file_name(name)
}

/// Accepts TCP connections until the linger ends.
pub async fn accept_tcp<H, F>(listener: TcpListener, reception: Reception, handler: H)
where
    H: Fn(Request<Incoming>, Via) -> F + Clone + Unpin + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    while let Some(permit) = reception.permit().await {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = reception.ending.closing.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                // Without it a small answer may wait for the caller's ACK; failing to set it costs time only.
                let _ = stream.set_nodelay(true);
                let handler = handler.clone();
                let connection = connection(stream, Via::Tcp, reception.clone(), handler);
                reception.tasks.spawn("connection", async move {
                    connection.await;
                    drop(permit);
                });
            }
            Err(error) => pause_after(&error).await,
        }
    }
}

/// Accepts Unix connections of the peers that may, until the linger ends.
pub async fn accept_unix<H, F>(listener: UnixListener, uids: Vec<u32>, reception: Reception, handler: H)
where
    H: Fn(Request<Incoming>, Via) -> F + Clone + Unpin + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let own = rustix::process::geteuid().as_raw();
    while let Some(permit) = reception.permit().await {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = reception.ending.closing.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let uid = stream.peer_cred().map(|peer| peer.uid()).ok();
                let welcome = uid.is_some_and(|uid| if uids.is_empty() { uid == own } else { uids.contains(&uid) });
                if !welcome {
                    tracing::warn!(?uid, "a peer that listen.unix_uids does not name was turned away");
                    continue;
                }
                let handler = handler.clone();
                let connection = connection(stream, Via::Unix, reception.clone(), handler);
                reception.tasks.spawn("connection", async move {
                    connection.await;
                    drop(permit);
                });
            }
            Err(error) => pause_after(&error).await,
        }
    }
}

impl Reception {
    async fn permit(&self) -> Option<tokio::sync::OwnedSemaphorePermit> {
        tokio::select! {
            permit = self.permits.take() => permit.ok(),
            () = self.ending.closing.cancelled() => None,
        }
    }
}

/// Out of file descriptors or a peer that left early: neither may spin the loop or end it.
async fn pause_after(error: &std::io::Error) {
    tracing::warn!(%error, "could not accept a connection");
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Serves one connection to its end, whatever carries its bytes: `handler` answers each of its requests, but for those
/// that [`Reception::at_once`] does.
pub async fn connection<S, H, F>(stream: S, via: Via, reception: Reception, handler: H)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>, Via) -> F + Clone + Unpin + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let pulse = Arc::new(Pulse::default());
    let sniffed = tokio::time::timeout(limits::SNIFF_WAIT, Wire::sniff(stream, pulse.clone()));
    let sniffed = tokio::select! {
        sniffed = sniffed => sniffed,
        () = reception.ending.closing.cancelled() => return,
    };
    let Ok(Ok((protocol, wire))) = sniffed else { return };
    let answering = Answering { handler, via, pulse: pulse.clone(), ready: Ready::default() };
    let ended = match protocol {
        Protocol::Http1 => {
            let driven = http1::serve(wire, reception.at_once.as_ref(), answering);
            patient(driven, &pulse, &reception, protocol).await
        }
        Protocol::Http2 => {
            let mut http = http2::Builder::new(reception.tasks.clone());
            http.timer(TokioTimer::new())
                .max_concurrent_streams(limits::STREAMS_PER_CONNECTION)
                .max_header_list_size(limits::REQUEST_HEAD_BYTES as u32)
                .keep_alive_interval(limits::IDLE_WAIT / 3);
            let mut connection = pin!(http.serve_connection(TokioIo::new(wire), answering));
            let mut said = false;
            let driven = poll_fn(|cx| {
                // Only HTTP/2 can say goodbye between answers, but not before its first one: a connection made during the
                // linger would be of no use.
                if !said && (pulse.has_answered() && pulse.lingers() || pulse.closes()) {
                    said = true;
                    connection.as_mut().graceful_shutdown();
                }
                connection.as_mut().poll(cx)
            });
            patient(driven, &pulse, &reception, protocol).await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Drives a connection and gives up on one that keeps us waiting. What seldom happens is looked at only when it did
/// ([`Seldom`]): a request costs no timer and no lock of the shutdown's.
async fn patient(
    connection: impl Future<Output = hyper::Result<()>>,
    pulse: &Pulse,
    reception: &Reception,
    protocol: Protocol,
) -> hyper::Result<()> {
    let mut connection = pin!(connection);
    let watch = pin!(async {
        tokio::select! {
            never = pulse.told(&reception.ending) => match never {},
            () = pulse.impatience(protocol, &reception.clock) => {}
        }
    });
    let mut watch = Seldom::new(watch);
    poll_fn(|cx| {
        if Pin::new(&mut watch).poll(cx).is_ready() {
            tracing::debug!("a connection that kept us waiting was closed");
            return Poll::Ready(Ok(()));
        }
        connection.as_mut().poll(cx)
    })
    .await
}

/// What hyper asks of us, request by request.
#[derive(Clone)]
struct Answering<H> {
    handler: H,
    via: Via,
    pulse: Arc<Pulse>,
    ready: Ready,
}

/// The answer to the request that hyper reads next, where it is there already ([`hits`]).
#[derive(Clone, Default)]
struct Ready(Arc<Mutex<Option<Box<Response<Body>>>>>);

impl Ready {
    fn put(&self, answer: Option<Box<Response<Body>>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }

    fn take(&self) -> Option<Box<Response<Body>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<H, F> Service<Request<Incoming>> for Answering<H>
where
    H: Fn(Request<Incoming>, Via) -> F,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let old = request.version() < Version::HTTP_2;
        // Hyper does not tell whether a length came with the chunks: then the connection must end (RFC 9112, 6.1).
        let chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
        let under_way = self.pulse.begin();
        let answer = match self.ready.take() {
            Some(answer) => Either::Left(ready(*answer)),
            None => Either::Right((self.handler)(request, self.via)),
        };
        let answered = async move {
            let mut response = answer.await;
            let unread = matches!(response.status(), StatusCode::REQUEST_TIMEOUT | StatusCode::PAYLOAD_TOO_LARGE)
                || response.extensions_mut().remove::<Unread>().is_some();
            if old && (under_way.lingers() || chunked || unread) {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            drop(under_way);
            Ok(response)
        };
        Box::pin(answered)
    }
}

#[cfg(test)]
mod tests;
