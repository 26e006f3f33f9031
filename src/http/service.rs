//! Serves routers of pages and small APIs, on a TCP port or a Unix socket, in HTTP/1.1.
//!
//! Connections, request heads and the lifetimes of connections are bounded. A connection takes a
//! permit before it is accepted: beyond the bound, callers wait in the kernel's backlog.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;

use crate::http::limits::{
    ACCEPT_PAUSE, HEADER_WAIT, LAST_REPLY_WAIT, REQUEST_HEAD_BYTES, REQUEST_HEADERS, SERVICE_CONNECTION_LIFE,
};
use crate::http::peers::Peers;
use crate::http::pulse::Pulse;
use crate::model::time::Clock;
use crate::tasks::Tasks;
use crate::tasks::permits::Permits;
use crate::telemetry::rate_limiter::RateLimiter;

pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// How a connection reached us.
#[derive(Clone, Copy, Debug)]
pub enum ReachedBy {
    /// On this local address: `None` if the kernel does not say, and then no `Host` is that.
    Tcp(Option<IpAddr>),
    /// Over the Unix socket, from a process of this user.
    Unix(Option<u32>),
}

type Stream = Either<TcpStream, UnixStream>;

impl Listener {
    async fn accept(&self) -> io::Result<(Stream, ReachedBy)> {
        Ok(match self {
            Self::Tcp(listener) => {
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

/// Serves `listener` until the process's tasks are told to stop. Each connection gets the router
/// that `router` makes for it.
pub fn start(
    listener: Listener,
    names: ServingTasks,
    permits: Permits,
    router: impl Fn(ReachedBy) -> Router + Send + Sync + 'static,
    tasks: &Tasks,
) {
    let (peers, lines) = (Peers::new(0, |_| {}), RateLimiter::new());
    let port = Arc::new(Port { listener, name: names.connection, permits, peers, router, lines });
    let own = tasks.clone();
    tasks.spawn_service(names.accept, move || accept(port.clone(), own.clone()));
}

/// A listener and what its connections have in common; a new start of the task keeps it.
struct Port<R> {
    listener: Listener,
    name: &'static str,
    permits: Permits,
    peers: Arc<Peers>,
    router: R,
    lines: RateLimiter,
}

async fn accept<R: Fn(ReachedBy) -> Router>(port: Arc<Port<R>>, tasks: Tasks) {
    let (stopping, name) = (tasks.stopping(), port.name);
    loop {
        let accept = async {
            let permit = port.peers.permit(&port.permits).await.expect("the semaphore is never closed");
            port.listener.accept().await.map(|accepted| (accepted, permit))
        };
        let Some(accepted) = stopping.run_until_cancelled(accept).await else { return };
        match accepted {
            Ok(((stream, reached), permit)) => {
                let pulse = Arc::new(Pulse::default());
                port.peers.enter(&pulse);
                let connection = connection(stream, (port.router)(reached), pulse, stopping.clone());
                tasks.spawn(name, async move {
                    connection.await;
                    drop(permit);
                });
            }
            Err(error) => {
                // Probably out of file descriptors: give connections time to close.
                if let Some(left_out) = port.lines.take(Clock::System.now()) {
                    tracing::warn!(%error, left_out, task = name, "could not accept a connection");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: Stream, router: Router, pulse: Arc<Pulse>, stopping: CancellationToken) {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADER_WAIT)
        .max_headers(REQUEST_HEADERS)
        .max_buf_size(REQUEST_HEAD_BYTES);
    let (router, requests) = (TowerToHyperService::new(router), pulse.clone());
    let service = service_fn(move |request| {
        let (under_way, answer) = (requests.begin(), router.call(request));
        async move {
            let _under_way = under_way;
            answer.await
        }
    });
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = stopping.cancelled() => None,
        () = pulse.evicted() => return,
        () = tokio::time::sleep(SERVICE_CONNECTION_LIFE) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(LAST_REPLY_WAIT, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn ask(address: std::net::SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
        let mut reply = String::new();
        let _ = stream.read_to_string(&mut reply).await;
        reply
    }

    #[tokio::test]
    async fn a_listener_outlives_a_panic_of_what_accepts() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, tasks) = (listener.local_addr().unwrap(), Tasks::new());
        let has_panicked = AtomicBool::new(false);
        let router = move |_| {
            assert!(has_panicked.swap(true, Ordering::SeqCst), "on purpose");
            Router::new().route("/", get(|| async { "here" }))
        };
        let names = ServingTasks { accept: "accept", connection: "connection" };
        start(Listener::Tcp(listener), names, Permits::new(1), router, &tasks);
        assert_eq!(ask(address).await, "", "the caller of the moment is cut off, and its permit comes back");
        let answered = tokio::time::timeout(Duration::from_secs(30), ask(address)).await;
        assert!(answered.expect("the next one waits in the backlog").ends_with("here"));
        assert_eq!(tasks.panics()["accept"], 1);
        assert!(tasks.drain(Duration::from_secs(5)).await.is_empty());
    }
}
