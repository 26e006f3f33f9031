//! Serves routers of pages and small APIs, on a TCP port or a Unix socket, in HTTP/1.1.
//!
//! Connections, request heads and the lifetimes of connections are bounded. A connection takes a
//! permit before it is accepted: beyond the bound, callers wait in the kernel's backlog.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use bytes::Bytes;
use http::{HeaderValue, Request, header};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::Instant;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;

use crate::http::body::CredentialRefused;
use crate::http::kernel_buffers::KernelBuffers;
use crate::http::limits::{
    ACCEPT_PAUSE, LAST_REPLY_WAIT, REQUEST_HEAD_BYTES, REQUEST_HEADERS, SERVICE_CONNECTION_LIFE,
};
use crate::http::peers::Peers;
use crate::http::pulse::{ArrivingBody, Pulse};
use crate::http::server_tls::peer::PeerCertificate;
use crate::http::server_tls::{Accepted, PortTls};
use crate::http::socket::Socket;
use crate::model::time::Clock;
use crate::tasks::Tasks;
use crate::tasks::permits::Permits;
use crate::telemetry::rate_limiter::RateLimiter;

pub enum Listener {
    Tcp(TcpListener),
    /// TCP that carries TLS.
    Tls(TcpListener, PortTls),
    Unix(UnixListener),
}

/// Way by which a connection came in.
#[derive(Clone, Copy, Debug)]
pub enum ReachedBy {
    /// On this local address: `None` if the kernel does not say, and then no `Host` is that.
    Tcp(Option<IpAddr>),
    /// Over the Unix socket, from a process of this user.
    Unix(Option<u32>),
}

type Stream = Either<TcpStream, UnixStream>;

/// A request's body, whose connection makes room for others until it has arrived.
struct ArrivingRequestBody {
    body: Incoming,
    arriving: Option<ArrivingBody>,
}

impl Body for ArrivingRequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) || self.body.is_end_stream() {
            self.arriving = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Listener {
    /// Listeners with TLS if there is any.
    pub fn over(tls: Option<&PortTls>, listeners: Vec<TcpListener>) -> Vec<Self> {
        let over = listeners.into_iter().map(|listener| match tls {
            Some(tls) => Self::Tls(listener, tls.clone()),
            None => Self::Tcp(listener),
        });
        over.collect()
    }

    const fn tls(&self) -> Option<&PortTls> {
        match self {
            Self::Tls(_, tls) => Some(tls),
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }

    async fn accept(&self) -> io::Result<(Stream, ReachedBy)> {
        Ok(match self {
            Self::Tcp(listener) | Self::Tls(listener, _) => {
                let stream = listener.accept().await?.0;
                // Without it a small answer may wait for the caller's ACK; failing to set it costs
                // only time.
                let _ = stream.set_nodelay(true);
                let local = stream.local_addr().map(|address| address.ip()).ok();
                (Either::Left(stream), ReachedBy::Tcp(local))
            }
            Self::Unix(listener) => {
                let stream = listener.accept().await?.0;
                let uid = stream.peer_cred().map(|peer| peer.uid()).ok();
                (Either::Right(stream), ReachedBy::Unix(uid))
            }
        })
    }
}

/// The names of the tasks that serve a listener.
#[derive(Clone, Copy, Debug)]
pub struct ServingTasks {
    /// Accepts connections.
    pub accept: &'static str,
    pub connection: &'static str,
}

/// Serves `listener` until the process's tasks are stopped. Each connection gets the router
/// that `router` makes for it.
pub fn start(
    listener: Listener,
    names: ServingTasks,
    permits: Permits,
    router: impl Fn(ReachedBy) -> Router + Send + Sync + 'static,
    tasks: &Tasks,
) {
    start_all([listener], names, permits, router, tasks, tasks.stopping());
}

/// Serves several listeners until `until`, which ends with the process's tasks at the latest: where
/// `permits` run out, a silent connection to any of them makes room on all. Connections that are
/// open at the end end by themselves.
pub fn start_all(
    listeners: impl IntoIterator<Item = Listener>,
    names: ServingTasks,
    permits: Permits,
    router: impl Fn(ReachedBy) -> Router + Send + Sync + 'static,
    tasks: &Tasks,
    until: CancellationToken,
) {
    let (peers, lines, router) = (Peers::new(0, |_| {}), Arc::new(RateLimiter::new()), Arc::new(router));
    for listener in listeners {
        let (permits, peers, lines) = (permits.clone(), peers.clone(), lines.clone());
        let port = Port { listener, name: names.connection, permits, peers, router: router.clone(), lines };
        let (port, own, until) = (Arc::new(port), tasks.clone(), until.clone());
        let stopping = until.clone();
        tasks.spawn_service_until(names.accept, stopping, move || accept(port.clone(), own.clone(), until.clone()));
    }
}

/// A listener and what its connections have in common; a new start of the task keeps it.
struct Port<R> {
    listener: Listener,
    name: &'static str,
    permits: Permits,
    peers: Arc<Peers>,
    router: Arc<R>,
    lines: Arc<RateLimiter>,
}

async fn accept<R: Fn(ReachedBy) -> Router>(port: Arc<Port<R>>, tasks: Tasks, until: CancellationToken) {
    let name = port.name;
    loop {
        let accept = async {
            let permit = port.peers.permit(&port.permits).await.expect("the semaphore is never closed");
            port.listener.accept().await.map(|accepted| (accepted, permit))
        };
        let Some(accepted) = until.run_until_cancelled(accept).await else { return };
        match accepted {
            Ok(((stream, reached), permit)) => {
                let pulse = Arc::new(Pulse::default());
                port.peers.enter(&pulse);
                // Boxed, as those of callers are.
                let (router, tls) = ((port.router)(reached), port.listener.tls().cloned());
                let connection = Box::pin(served(stream, tls, router, pulse, tasks.clone()));
                tasks.spawn(name, async move {
                    connection.await;
                    drop(permit);
                });
            }
            Err(error) => {
                // Probably out of file descriptors: give connections time to close.
                if let Some(suppressed) = port.lines.admit(Clock::System.now()) {
                    tracing::warn!(%error, suppressed, task = name, "could not accept a connection");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves a connection to its end, over TLS if its listener has it.
async fn served(stream: Stream, tls: Option<PortTls>, router: Router, pulse: Arc<Pulse>, tasks: Tasks) {
    let Some(tls) = tls else {
        let socket = Socket::new(stream, KernelBuffers::EITHER, pulse.clone());
        return connection(socket, None, router, pulse, tasks).await;
    };
    let below = Socket::below_tls(stream, KernelBuffers::EITHER, pulse.clone());
    let accepted = tokio::select! {
        accepted = tls.accept(below) => accepted,
        _ = tasks.draining() => return,
        () = pulse.evicted() => return,
    };
    if let Some(Accepted { stream, peer }) = accepted {
        connection(Socket::new(stream, KernelBuffers::TLS, pulse.clone()), peer, router, pulse, tasks).await;
    }
}

/// Serves what comes on a socket; its requests carry the certificate of the `peer`.
async fn connection<S>(
    socket: Socket<S>,
    peer: Option<Arc<PeerCertificate>>,
    router: Router,
    pulse: Arc<Pulse>,
    tasks: Tasks,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        // It counts from the end of the last answer, and would end an idle connection as early as a
        // head that drips.
        .header_read_timeout(None)
        .max_headers(REQUEST_HEADERS)
        .max_buf_size(REQUEST_HEAD_BYTES);
    let ends_at = Instant::now() + SERVICE_CONNECTION_LIFE;
    let (router, requests) = (TowerToHyperService::new(router), pulse.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let under_way = requests.begin();
        let mut request = request.map(|body| {
            let arriving = (!body.is_end_stream()).then(|| requests.arrives());
            ArrivingRequestBody { body, arriving }
        });
        if let Some(peer) = &peer {
            request.extensions_mut().insert(peer.clone());
        }
        let (answer, pulse) = (router.call(request), requests.clone());
        async move {
            let _under_way = under_way;
            let mut answer = answer.await?;
            if let Some(refused) = answer.extensions_mut().remove::<CredentialRefused>() {
                pulse.refused(refused, 1);
            }
            if Instant::now() >= ends_at || pulse.is_refused() {
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(socket), service));
    let draining = async {
        tasks.draining().await;
        pulse.what_has_come_is_read().await;
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = draining => None,
        // A peer that heeds the announcement has gone long before.
        () = tokio::time::sleep_until(ends_at + SERVICE_CONNECTION_LIFE) => None,
        () = pulse.evicted() => return,
        () = pulse.idle_timeout(&tasks) => return pulse.give_up(),
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            let ended = last_replies(connection.as_mut(), &tasks).await;
            pulse.give_up();
            ended
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Drives a connection that has to end, for [`LAST_REPLY_WAIT`] at most, and not as long as a
/// drain of `tasks` lasts.
pub(crate) async fn last_replies(
    connection: impl Future<Output = hyper::Result<()>>,
    tasks: &Tasks,
) -> hyper::Result<()> {
    tokio::select! {
        ended = connection => ended,
        () = tokio::time::sleep(LAST_REPLY_WAIT) => Ok(()),
        () = async { tokio::time::sleep_until(tasks.draining().await.given_up_at()).await } => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use axum::routing::get;
    use futures_util::future::BoxFuture;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::http::limits::{HEADER_WAIT, IDLE_WAIT};
    use crate::http::server_tls::Offers;
    use crate::http::server_tls::scripted::Certified;

    async fn ask(address: std::net::SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
        let mut reply = String::new();
        let _ = stream.read_to_string(&mut reply).await;
        reply
    }

    /// A connection that is served only while the test polls it, and its caller.
    async fn connected(tasks: Tasks) -> (TcpStream, BoxFuture<'static, ()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let caller = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let stream = Either::Left(listener.accept().await.unwrap().0);
        let router =
            Router::new().route("/", get(|| async { "here" })).route("/never", get(std::future::pending::<()>));
        (caller, Box::pin(served(stream, None, router, Arc::new(Pulse::default()), tasks)))
    }

    /// Asks on a connection that stays open.
    async fn asks(caller: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> String {
        caller.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut reply = Vec::new();
        while !reply.ends_with(b"here") && caller.read_buf(&mut reply).await.unwrap_or(0) > 0 {}
        String::from_utf8(reply).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn connection_outlives_idling_and_announces_close() {
        let tasks = Tasks::new();
        let (mut caller, served) = connected(tasks.clone()).await;
        tasks.spawn("connection", served);
        let mut announced = Vec::new();
        for _ in 0..SERVICE_CONNECTION_LIFE.as_secs() / 60 {
            tokio::time::sleep(Duration::from_secs(60)).await;
            let reply = asks(&mut caller).await;
            assert!(reply.starts_with("HTTP/1.1 200 OK"), "{reply}");
            announced.push(reply.contains("connection: close"));
        }
        assert_eq!(announced, [false, false, false, false, true], "and then the connection is gone");
    }

    /// A connection that was opened ahead is as silent as over TCP: its handshake is no head.
    #[tokio::test(start_paused = true)]
    async fn ready_tls_connection_outlives_header_wait() {
        let (certified, tasks) = (Certified::new(), Tasks::new());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let caller = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let stream = Either::Left(listener.accept().await.unwrap().0);
        let router = Router::new().route("/", get(|| async { "here" }));
        let tls = Some(certified.port(Offers::Http1));
        tasks.spawn("connection", served(stream, tls, router, Arc::new(Pulse::default()), tasks.clone()));
        let mut caller = certified.connect(caller, &[]).await.unwrap();
        tokio::time::sleep(HEADER_WAIT * 4).await;
        assert!(asks(&mut caller).await.starts_with("HTTP/1.1 200 OK"));
    }

    #[tokio::test(start_paused = true)]
    async fn request_during_close_is_answered() {
        for ends in [false, true] {
            let tasks = Tasks::new();
            let (mut caller, mut served) = connected(tasks.clone()).await;
            assert!(futures_util::poll!(&mut served).is_pending());
            // Nothing of the process runs meanwhile.
            if ends {
                drop(tasks.drain(LAST_REPLY_WAIT).await);
            } else {
                tokio::time::sleep(IDLE_WAIT + HEADER_WAIT).await;
            }
            let served = tokio::time::timeout(Duration::from_secs(1), served);
            let (reply, _) = tokio::join!(asks(&mut caller), served);
            assert!(reply.starts_with("HTTP/1.1 200 OK"), "{ends}: {reply}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stuck_answer_ends_its_connection() {
        let (mut caller, served) = connected(Tasks::new()).await;
        caller.write_all(b"GET /never HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let began = Instant::now();
        served.await;
        assert_eq!(began.elapsed(), 2 * SERVICE_CONNECTION_LIFE + LAST_REPLY_WAIT);
    }

    #[tokio::test]
    async fn listener_survives_panic_in_accept() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, tasks) = (listener.local_addr().unwrap(), Tasks::new());
        let has_panicked = AtomicBool::new(false);
        let names = ServingTasks { accept: "accept", connection: "connection" };
        start(
            Listener::Tcp(listener),
            names,
            Permits::new(1),
            move |_| {
                assert!(has_panicked.swap(true, Ordering::SeqCst), "on purpose");
                Router::new().route("/", get(|| async { "here" }))
            },
            &tasks,
        );
        assert_eq!(ask(address).await, "", "the caller of the moment is cut off, and its permit comes back");
        let answered = tokio::time::timeout(Duration::from_secs(30), ask(address)).await;
        assert!(answered.expect("the next one waits in the backlog").ends_with("here"));
        assert_eq!(tasks.panics()["accept"], 1);
        assert!(tasks.drain(Duration::from_secs(5)).await.is_empty());
    }
}
