//! The HTTP/2 connections to one region: which has a stream left, and who waits for one. The first
//! connection that may carry another request gets it, so that those beyond what is needed grow idle
//! and are closed. A new one is opened when requests wait and all are at the peer's limit, or at
//! [`STREAMS_PER_REGION_CONNECTION`]; there are at most [`HTTP2_PER_REGION`].
//!
//! Before a peer has stated its limit a connection carries as many requests as the one before it
//! allowed, and the first of all carries one. A connection that is taken out of use still finishes
//! what it carries.

use std::collections::VecDeque;
use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http2::{Builder, Connection, SendRequest};
use hyper::rt::Executor;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::oneshot;

use super::connect::{ConnectionMetadata, Connector, Link};
use super::incoming;
use crate::http::exchange::Failure;
use crate::http::limits::{
    HTTP2_PER_REGION, IDLE_PER_REGION, KEEPALIVE, REFUSED_CONNECTION_WAIT, REPLY_HEAD_BYTES,
    STREAMS_PER_REGION_CONNECTION,
};
use crate::model::time::{Clock, Moment};

/// The peer's limit as h2 has it before the peer's settings came: a value that no peer can state.
const UNSTATED: usize = usize::MAX - 1;

type Driven = Connection<TokioIo<Link>, Full<Bytes>, Spawner>;
/// A stream; none when the region speaks HTTP/1.1 now.
type Granted = Result<Option<Http2Stream>, Failure>;

pub(crate) struct Http2Pool {
    shared: Arc<Shared>,
}

struct Shared {
    connector: Connector,
    clock: Clock,
    state: Mutex<State>,
    /// Length of [`State::waiting`], readable without the lock.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct State {
    connections: Vec<Pooled>,
    /// First come, first served. Each is a request under way, so there are no more than those.
    waiting: VecDeque<oneshot::Sender<Granted>>,
    opening: usize,
    /// The limit that a connection stated last.
    stated: Option<usize>,
    /// When a connection could not be opened last.
    refused: Option<Moment>,
}

struct Pooled {
    connection: Arc<Http2Connection>,
    in_flight: usize,
    idle_since: Moment,
}

struct Http2Connection {
    requests: SendRequest<Full<Bytes>>,
    /// Driven by a task of its own, which ends with the last sender in `requests`.
    /// `None` once it has ended: what it held is gone, and whoever waits in it learns so.
    driven: Arc<Mutex<Option<Driven>>>,
    birth: Arc<ConnectionMetadata>,
}

/// One request's part of a connection, until its reply was read or is given up.
pub(crate) struct Http2Stream {
    shared: Arc<Shared>,
    connection: Arc<Http2Connection>,
}

/// Why a request got no reply.
pub(crate) struct Unanswered {
    pub(crate) error: hyper::Error,
    /// The peer has not acted on it and never will (RFC 9113, 8.7): it may be sent again.
    pub(crate) is_unprocessed: bool,
}

impl Http2Pool {
    pub(crate) fn new(connector: Connector, clock: Clock) -> Self {
        let shared = Shared { connector, clock, state: Mutex::default(), waiting: AtomicUsize::new(0) };
        Self { shared: Arc::new(shared) }
    }

    /// A stream on a connection, as soon as one has room. `None` when the region speaks HTTP/1.1
    /// now.
    ///
    /// # Errors
    /// [`Failure::Connect`] when there is no connection and none can be opened.
    pub(crate) async fn take(&self) -> Granted {
        let granted = {
            let mut state = self.shared.state();
            state.drop_gone();
            if state.waiting.is_empty()
                && let Some(connection) = state.pick()
            {
                return Ok(Some(Http2Stream { shared: self.shared.clone(), connection }));
            }
            let (grant, granted) = oneshot::channel();
            if state.waiting.len() == state.waiting.capacity() {
                state.waiting.retain(|waiter| !waiter.is_closed());
            }
            state.waiting.push_back(grant);
            self.shared.count_waiting(&state);
            granted
        };
        self.shared.settle();
        granted.await.unwrap_or(Err(Failure::Connect))
    }

    /// Closes connections that have idled too long or were closed by the other side.
    pub(crate) fn sweep(&self) {
        let now = self.shared.clock.now();
        let mut state = self.shared.state();
        state.connections.retain(|pooled| {
            let is_idle = pooled.in_flight == 0 && now.since(pooled.idle_since) >= IDLE_PER_REGION.1;
            !is_idle && !pooled.connection.requests.is_closed()
        });
    }

    /// Closes each as soon as nothing is under way over it.
    pub(crate) fn let_go(&self) {
        self.shared.state().connections.clear();
    }
}

impl State {
    /// Takes a stream of the first connection that has one left.
    fn pick(&mut self) -> Option<Arc<Http2Connection>> {
        self.connections.retain(|pooled| !pooled.connection.requests.is_closed());
        for pooled in &mut self.connections {
            let stated = pooled.connection.limit();
            self.stated = stated.or(self.stated);
            let limit = stated.or(self.stated).unwrap_or(1).min(STREAMS_PER_REGION_CONNECTION);
            if pooled.in_flight < limit {
                pooled.in_flight += 1;
                return Some(pooled.connection.clone());
            }
        }
        None
    }

    /// Forgets the first waiters if they have gone.
    fn drop_gone(&mut self) {
        while self.waiting.front().is_some_and(oneshot::Sender::is_closed) {
            self.waiting.pop_front();
        }
    }

    /// Number of connections to open for those who wait.
    fn lacking(&self, now: Moment) -> usize {
        let alive = self.connections.iter().filter(|pooled| !pooled.connection.requests.is_closed());
        let limits = alive.map(|pooled| pooled.connection.limit());
        // A peer that allows no stream at all does so for a while (RFC 9113, 6.5.2).
        let is_shut = limits.clone().any(|limit| limit == Some(0));
        let is_refused = self.refused.is_some_and(|refused| now.since(refused) < REFUSED_CONNECTION_WAIT);
        if is_shut || is_refused && !self.connections.is_empty() {
            return 0;
        }
        let each = self.stated.unwrap_or(STREAMS_PER_REGION_CONNECTION).clamp(1, STREAMS_PER_REGION_CONNECTION);
        // What the first connections allow is known as soon as the peer's settings arrive.
        let unstated = if self.stated.is_none() { limits.filter(Option::is_none).count() } else { 0 };
        let room = HTTP2_PER_REGION.saturating_sub(self.connections.len() + self.opening);
        self.waiting.len().div_ceil(each).saturating_sub(self.opening + unstated).min(room)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Entries are added, counted and removed whole: a panic elsewhere cannot leave half of one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_waiting(&self, state: &State) {
        self.waiting.store(state.waiting.len(), Ordering::Relaxed);
    }

    /// Gives streams to those who wait, and opens connections for the rest.
    fn settle(self: &Arc<Self>) {
        while let Some((waiter, connection)) = self.next() {
            // One that has gone meanwhile drops the stream, which settles again.
            let _ = waiter.send(Ok(Some(Http2Stream { shared: self.clone(), connection })));
        }
        let lacking = {
            let mut state = self.state();
            let lacking = state.lacking(self.clock.now());
            state.opening += lacking;
            lacking
        };
        for _ in 0..lacking {
            let shared = self.clone();
            // On its own: whoever asked for it may give up, and others wait for it.
            TokioExecutor::new().execute(async move { shared.open().await });
        }
    }

    fn next(&self) -> Option<(oneshot::Sender<Granted>, Arc<Http2Connection>)> {
        let mut state = self.state();
        state.drop_gone();
        let next = match state.waiting.is_empty() {
            true => None,
            false => state.pick().and_then(|connection| Some((state.waiting.pop_front()?, connection))),
        };
        self.count_waiting(&state);
        next
    }

    async fn open(self: Arc<Self>) {
        let opened = match self.connector.link().await {
            Ok(link) if !link.is_h2() => {
                self.connector.hold(link);
                Ok(None)
            }
            Ok(link) => self.speak(link).await.map(Some),
            Err(error) => Err(error),
        };
        if let Err(error) = &opened {
            tracing::debug!(error = %incoming::chain(error), "could not open an HTTP/2 connection to a region");
        }
        self.note_opened(opened);
        self.settle();
    }

    fn note_opened(&self, opened: io::Result<Option<Http2Connection>>) {
        let mut state = self.state();
        state.opening -= 1;
        let answer = match opened {
            Ok(Some(connection)) => {
                let connection = Arc::new(connection);
                state.connections.push(Pooled { connection, in_flight: 0, idle_since: self.clock.now() });
                state.refused = None;
                return;
            }
            Ok(None) => Some(true),
            Err(_) => {
                state.refused = Some(self.clock.now());
                // Others may still come, or have streams to give back.
                (state.connections.is_empty() && state.opening == 0).then_some(false)
            }
        };
        let Some(is_http1) = answer else { return };
        let waiting = std::mem::take(&mut state.waiting);
        self.count_waiting(&state);
        drop(state);
        for waiter in waiting {
            let _ = waiter.send(if is_http1 { Ok(None) } else { Err(Failure::Connect) });
        }
    }

    async fn speak(self: &Arc<Self>, link: Link) -> io::Result<Http2Connection> {
        let birth = link.birth();
        let spawner = Spawner { pool: Arc::downgrade(self), has_io: Arc::default() };
        let mut builder = Builder::new(spawner);
        builder
            .timer(TokioTimer::new())
            .initial_max_send_streams(UNSTATED)
            .adaptive_window(true)
            .max_header_list_size(REPLY_HEAD_BYTES as u32)
            .keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE / 4)
            .keep_alive_while_idle(true);
        let (requests, connection) = builder.handshake(TokioIo::new(link)).await.map_err(io::Error::other)?;
        let driven = Arc::new(Mutex::new(Some(connection)));
        let (driver, pool) = (driven.clone(), Arc::downgrade(self));
        TokioExecutor::new().execute(async move {
            let ended = poll_fn(|cx| {
                let mut driven = lock(&driver);
                let ended = driven.as_mut().map_or(Poll::Ready(Ok(())), |connection| Pin::new(connection).poll(cx));
                if ended.is_ready() {
                    // Its end is the end of its queue of requests, by which `is_closed` knows it.
                    *driven = None;
                }
                ended
            })
            .await;
            if let Err(error) = ended {
                tracing::debug!(error = %incoming::chain(&error), "an HTTP/2 connection to a region ended");
            }
            if let Some(pool) = pool.upgrade() {
                pool.settle();
            }
        });
        Ok(Http2Connection { requests, driven, birth })
    }

    fn release(self: &Arc<Self>, connection: &Arc<Http2Connection>) {
        let is_wanted = {
            let mut state = self.state();
            if let Some(pooled) =
                state.connections.iter_mut().find(|known| Arc::ptr_eq(&known.connection, connection))
            {
                pooled.in_flight -= 1;
                pooled.idle_since = self.clock.now();
            }
            !state.waiting.is_empty()
        };
        if is_wanted {
            self.settle();
        }
    }
}

impl Http2Connection {
    /// Streams that the peer allows; `None` before its settings came.
    fn limit(&self) -> Option<usize> {
        let limit = lock(&self.driven).as_ref().map_or(0, Driven::current_max_send_streams);
        (limit != UNSTATED).then_some(limit)
    }
}

fn lock(driven: &Mutex<Option<Driven>>) -> MutexGuard<'_, Option<Driven>> {
    // A panic of the driver ends its task; only the limit is read here.
    driven.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Http2Stream {
    /// Resolves with the reply's head.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Unanswered> {
        let sent = self.connection.requests.clone().try_send_request(request).await;
        sent.map_err(|error| {
            let unanswered = Unanswered::of(error);
            if unanswered.is_unprocessed && !unanswered.is_refused_stream() {
                // The connection takes no more requests, and its end may not be known yet.
                self.retire();
            }
            unanswered
        })
    }

    pub(crate) fn opened(&self) -> Moment {
        self.connection.birth.at
    }

    /// Notes a reply, or that there was none; returns whether its connection had carried any
    /// before.
    pub(crate) fn note(&self, replied: bool) -> bool {
        self.connection.birth.replies.fetch_add(u32::from(replied), Ordering::Relaxed) > 0
    }

    /// Takes its connection out of use.
    pub(crate) fn retire(&self) {
        let mut state = self.shared.state();
        state.connections.retain(|known| !Arc::ptr_eq(&known.connection, &self.connection));
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        self.shared.release(&self.connection);
    }
}

impl Unanswered {
    fn of(mut error: TrySendError<Request<Full<Bytes>>>) -> Self {
        let is_unsent = error.take_message().is_some();
        let error = error.into_error();
        // A stream beyond the last one that a GOAWAY names was not looked at; h2 says so only of
        // those.
        let is_unprocessed = is_unsent
            || h2_error(&error).is_some_and(|error| {
                error.is_remote()
                    && (error.reason() == Some(h2::Reason::REFUSED_STREAM)
                        || error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR))
            });
        Self { error, is_unprocessed }
    }

    fn is_refused_stream(&self) -> bool {
        h2_error(&self.error).is_some_and(|error| error.reason() == Some(h2::Reason::REFUSED_STREAM))
    }
}

fn h2_error(error: &hyper::Error) -> Option<&h2::Error> {
    error.source().and_then(|source| source.downcast_ref())
}

/// Spawns what hyper needs for one connection. The first is its I/O, where the peer's settings
/// arrive: nothing else in hyper tells that the peer allows more streams now.
#[derive(Clone)]
struct Spawner {
    pool: Weak<Shared>,
    has_io: Arc<AtomicBool>,
}

impl<F> Executor<F> for Spawner
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        if self.has_io.swap(true, Ordering::Relaxed) {
            TokioExecutor::new().execute(future);
            return;
        }
        let (pool, mut future) = (self.pool.clone(), Box::pin(future));
        TokioExecutor::new().execute(poll_fn(move |cx| {
            let polled = future.as_mut().poll(cx);
            if let Some(pool) = pool.upgrade()
                && pool.waiting.load(Ordering::Relaxed) > 0
            {
                pool.settle();
            }
            polled
        }));
    }
}

#[cfg(test)]
mod tests;
