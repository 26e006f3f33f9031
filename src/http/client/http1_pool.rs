//! The HTTP/1.1 connections to one region: the idle ones, and who uses which. A connection has no
//! task of its own; its user drives it ([`driven`]). One that is abandoned before its
//! reply's end is closed and never lent again. At most [`IDLE_PER_REGION`] are idle.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::connect::{ConnectionMetadata, Connector, Link};
use crate::http::limits::{IDLE_PER_REGION, REPLY_HEAD_BYTES};
use crate::model::time::{Clock, Moment};

pub(crate) struct Http1Pool {
    connector: Connector,
    clock: Clock,
    idle: Mutex<Vec<Http1Connection>>,
    /// Notified when a connection comes back: a waiter whose connection is still being opened takes
    /// it.
    returned: Notify,
}

/// An open connection, for one request at a time.
pub(crate) struct Http1Connection {
    requests: SendRequest<Full<Bytes>>,
    /// `None` once it has ended. Boxed, because the whole is moved to its user and back.
    connection: Option<Box<Connection<TokioIo<Link>, Full<Bytes>>>>,
    birth: Arc<ConnectionMetadata>,
    idle_since: Moment,
}

impl Http1Pool {
    pub(crate) fn new(connector: Connector, clock: Clock) -> Self {
        Self { connector, clock, idle: Mutex::default(), returned: Notify::new() }
    }

    /// An idle connection, else whichever comes first: a newly opened one or one that is given
    /// back. `None` when the new one speaks HTTP/2; it is held ready.
    ///
    /// # Errors
    /// Whatever kept one from being opened.
    pub(crate) async fn take(&self) -> io::Result<Option<Http1Connection>> {
        if let Some(line) = self.take_idle() {
            return Ok(Some(line));
        }
        let mut opening = self.connector.link();
        let link = loop {
            tokio::select! {
                biased;
                link = &mut opening => break link?,
                () = self.returned.notified() => {}
            }
            if let Some(line) = self.take_idle() {
                return Ok(Some(line));
            }
        };
        if link.is_h2() {
            self.connector.hold(link);
            return Ok(None);
        }
        Http1Connection::over(link, self.clock.now()).await.map(Some)
    }

    /// Takes back a connection whose reply was read to its end; closes it when it cannot carry
    /// another.
    pub(crate) fn give_back(&self, mut line: Http1Connection) {
        if !line.is_open() {
            return;
        }
        line.idle_since = self.clock.now();
        let mut idle = self.idle();
        if idle.len() < IDLE_PER_REGION.0 {
            idle.push(line);
        }
        drop(idle);
        // The last waiter, because the first one's new connection is nearest to being open.
        self.returned.notify_last();
    }

    /// Closes connections that have waited too long or were closed by the other side.
    pub(crate) fn sweep(&self) {
        let now = self.clock.now();
        self.idle().retain_mut(|line| line.is_usable(now));
    }

    /// Closes the idle ones.
    pub(crate) fn let_go(&self) {
        self.idle().clear();
    }

    /// The idle connection that came back last, so that unneeded ones grow old and are closed.
    pub(crate) fn take_idle(&self) -> Option<Http1Connection> {
        let now = self.clock.now();
        loop {
            let mut line = self.idle().pop()?;
            if line.is_usable(now) {
                return Some(line);
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Http1Connection>> {
        // A connection is added or taken whole: a panic elsewhere cannot leave half of one.
        self.idle.lock()
    }
}

impl Http1Connection {
    async fn over(link: Link, now: Moment) -> io::Result<Self> {
        let birth = link.birth();
        let mut builder = http1::Builder::new();
        builder.max_buf_size(REPLY_HEAD_BYTES);
        let (requests, connection) = builder.handshake(TokioIo::new(link)).await.map_err(io::Error::other)?;
        Ok(Self { requests, connection: Some(Box::new(connection)), birth, idle_since: now })
    }

    /// Takes the request. It is sent, and its reply's head received, while the connection is
    /// [`driven`].
    pub(crate) fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> impl Future<Output = hyper::Result<Response<Incoming>>> + Send + use<> {
        self.requests.send_request(request)
    }

    pub(crate) fn opened(&self) -> Moment {
        self.birth.at
    }

    /// Notes a reply, or that there was none; returns whether it had carried any before.
    pub(crate) fn note(&self, replied: bool) -> bool {
        self.birth.replies.fetch_add(u32::from(replied), Ordering::Relaxed) > 0
    }

    fn step(&mut self, cx: &mut Context<'_>) {
        if self.connection.as_mut().is_some_and(|connection| Pin::new(&mut **connection).poll(cx).is_ready()) {
            // The receiver of the reply learns how the connection ended. A request that it had
            // not taken yet learns of it only because it is dropped here.
            self.connection = None;
        }
    }

    /// True if it may carry another request, as far as the other side has announced.
    fn is_open(&mut self) -> bool {
        self.step(&mut Context::from_waker(Waker::noop()));
        self.connection.is_some() && self.requests.is_ready()
    }

    fn is_usable(&mut self, now: Moment) -> bool {
        now.since(self.idle_since) < IDLE_PER_REGION.1 && self.is_open()
    }
}

/// Resolves with `work`. Until then, moves the bytes of the connection that it reads from, if it
/// has one.
pub(crate) async fn driven<T>(line: &mut Option<Http1Connection>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|cx| {
        if let Some(line) = line {
            line.step(cx);
        }
        work.as_mut().poll(cx)
    })
    .await
}
