//! Opens connections to one region: name, TCP, TLS, how many at once, and one held ready.
//!
//! At most [`CONNECTS_PER_REGION`] are being opened at once. A region's name is resolved again for
//! each (the resolver keeps an address for its TTL). TLS is set up only if a region's URL asks for
//! it, so plain ones need no CA certificates.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, FutureExt};
use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service;

use super::names::Resolver;
use crate::http::limits::{CONNECT_WAIT, CONNECTS_PER_REGION, KEEPALIVE, NAME_WAIT, READY_AGE};
use crate::model::time::{Clock, Moment};

/// Opens one region's connections; clones share it.
#[derive(Clone)]
pub(crate) struct Connector {
    shared: Arc<Shared>,
}

struct Shared {
    uri: Uri,
    tcp: HttpConnector<Resolver>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    clock: Clock,
    opening: Semaphore,
    ready: Mutex<Option<Link>>,
    protocol: AtomicU8,
    alive: Arc<AtomicUsize>,
}

/// The HTTP version that a region speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Negotiated {
    /// Not known before its first TLS handshake.
    Unknown = 0,
    /// HTTP/1.1: one request at a time per connection.
    One = 1,
    /// HTTP/2: as many requests per connection as the region allows.
    Two = 2,
}

/// A connection's own facts, shared with its users.
#[derive(Debug)]
pub(crate) struct ConnectionMetadata {
    pub(crate) at: Moment,
    /// Replies that came over it: if there are any, a failure may only mean that its server closed
    /// it.
    pub(crate) replies: AtomicU32,
}

pub(crate) struct Link {
    io: Io,
    birth: Arc<ConnectionMetadata>,
    /// It is the successor of a connection that was taken out of use.
    is_claimed: bool,
    _alive: Alive,
}

enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Counts a connection for as long as it is open.
struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connector {
    /// For the region at `uri` (scheme and authority), with TLS if its scheme asks for it.
    ///
    /// # Errors
    /// The host's name if it cannot be in a certificate.
    pub(crate) fn new(
        uri: Uri,
        tls: Option<Arc<rustls::ClientConfig>>,
        resolver: Resolver,
        clock: Clock,
    ) -> Result<Self, String> {
        let mut tcp = HttpConnector::new_with_resolver(resolver);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_connect_timeout(Some(CONNECT_WAIT));
        let tls = match tls {
            None => None,
            Some(config) => {
                let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
                let name = ServerName::try_from(host.clone()).map_err(|_| host)?;
                Some((TlsConnector::from(config), name))
            }
        };
        let protocol = if tls.is_some() { Negotiated::Unknown } else { Negotiated::One };
        let shared = Shared {
            uri,
            tcp,
            tls,
            clock,
            opening: Semaphore::new(CONNECTS_PER_REGION),
            ready: Mutex::new(None),
            protocol: AtomicU8::new(protocol as u8),
            alive: Arc::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The HTTP version that the region spoke on its newest connection.
    pub(crate) fn protocol(&self) -> Negotiated {
        match self.shared.protocol.load(Ordering::Relaxed) {
            0 => Negotiated::Unknown,
            1 => Negotiated::One,
            _ => Negotiated::Two,
        }
    }

    /// Connections open now, including the one held ready.
    pub(crate) fn alive(&self) -> usize {
        self.shared.alive.load(Ordering::Relaxed)
    }

    /// True if a usable connection is held ready; drops one that is no longer usable.
    pub(crate) fn is_ready(&self) -> bool {
        let now = self.shared.clock.now();
        let mut ready = self.shared.ready();
        if ready.as_ref().is_some_and(|link| !link.is_usable(now)) {
            *ready = None;
        }
        ready.is_some()
    }

    /// Claims the connection that is held ready as the successor of another. False if there is none,
    /// or another has claimed it: connections that grew old together are replaced one by one.
    pub(crate) fn claim_ready(&self) -> bool {
        let is_ready = self.is_ready();
        let mut ready = self.shared.ready();
        is_ready && ready.as_mut().is_some_and(|link| !std::mem::replace(&mut link.is_claimed, true))
    }

    /// Opens a connection ahead and holds it ready for the next request.
    ///
    /// # Errors
    /// Whatever kept it from being opened.
    pub(crate) async fn make_ready(&self) -> io::Result<()> {
        self.hold(self.shared.open().await?);
        Ok(())
    }

    /// Drops the connection that is held ready.
    pub(crate) fn let_go(&self) {
        *self.shared.ready() = None;
    }

    /// Holds an unused connection ready for the next request.
    pub(crate) fn hold(&self, link: Link) {
        *self.shared.ready() = Some(link);
    }

    /// The connection that is held ready, else a new one.
    ///
    /// # Errors
    /// Whatever kept it from being opened.
    pub(crate) fn link(&self) -> BoxFuture<'static, io::Result<Link>> {
        let shared = self.shared.clone();
        async move {
            match shared.take_ready() {
                Some(link) => Ok(link),
                None => shared.open().await,
            }
        }
        .boxed()
    }
}

impl Shared {
    fn ready(&self) -> parking_lot::MutexGuard<'_, Option<Link>> {
        // One assignment under the lock: a panic cannot leave it half-written.
        self.ready.lock()
    }

    fn take_ready(&self) -> Option<Link> {
        let now = self.clock.now();
        self.ready().take().filter(|link| link.is_usable(now))
    }

    async fn open(&self) -> io::Result<Link> {
        let _opening = self.opening.acquire().await.map_err(io::Error::other)?;
        let io = self.handshake().await?;
        let protocol = if io.is_h2() { Negotiated::Two } else { Negotiated::One };
        self.protocol.store(protocol as u8, Ordering::Relaxed);
        self.alive.fetch_add(1, Ordering::Relaxed);
        let birth = Arc::new(ConnectionMetadata { at: self.clock.now(), replies: AtomicU32::new(0) });
        Ok(Link { io, birth, is_claimed: false, _alive: Alive(self.alive.clone()) })
    }

    async fn handshake(&self) -> io::Result<Io> {
        let mut tcp = self.tcp.clone();
        poll_fn(|cx| tcp.poll_ready(cx)).await.map_err(io::Error::other)?;
        // The connector bounds TCP itself; what is added is for the name.
        let stream = tokio::time::timeout(NAME_WAIT + CONNECT_WAIT, tcp.call(self.uri.clone()));
        let stream = stream.await?.map_err(io::Error::other)?.into_inner();
        Ok(match &self.tls {
            None => Io::Plain(stream),
            Some((tls, name)) => {
                let shaken = tokio::time::timeout(CONNECT_WAIT, tls.connect(name.clone(), stream));
                Io::Tls(Box::new(shaken.await??))
            }
        })
    }
}

impl Link {
    pub(crate) fn is_h2(&self) -> bool {
        self.io.is_h2()
    }

    pub(crate) fn birth(&self) -> Arc<ConnectionMetadata> {
        self.birth.clone()
    }

    /// True if it may carry its first request: it is young, and the other side has not closed it. A
    /// plain server has nothing to say before it is asked; a TLS one may have sent session tickets.
    fn is_usable(&self, now: Moment) -> bool {
        let (stream, may_speak) = match &self.io {
            Io::Plain(stream) => (stream, false),
            Io::Tls(stream) => (stream.get_ref().0, true),
        };
        let mut byte = [0];
        let peeked = pin!(stream.peek(&mut byte)).now_or_never();
        let open = match peeked {
            None => true,
            Some(Ok(read)) => may_speak && read > 0,
            Some(Err(_)) => false,
        };
        open && now.since(self.birth.at) < READY_AGE
    }
}

impl Io {
    fn is_h2(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2"))
    }
}

impl AsyncRead for Link {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Io::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Link {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().io {
            Io::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Io::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().io {
            Io::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Io::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            Io::Plain(stream) => stream.is_write_vectored(),
            Io::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Io::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Io::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
