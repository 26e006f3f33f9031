//! The HTTP/2 connections to one region: which has a stream left, and who waits for one. The first
//! connection that may carry another request gets it, so that those beyond what is needed grow idle
//! and are closed. A new one is opened when requests wait and all are at the peer's limit, or at
//! [`STREAMS_PER_REGION_CONNECTION`]; there are at most [`HTTP2_PER_REGION`].
//!
//! Before a peer has stated its limit a connection carries as many requests as the one before it
//! allowed, and the first of all carries one. A connection that is taken out of use still finishes
//! what it carries.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use hyper::rt::Executor;
use hyper_util::rt::TokioExecutor;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use self::connection::Http2Connection;
use super::connect::Connector;
use super::incoming;
use crate::http::exchange::Failure;
use crate::http::limits::{
    HTTP2_PER_REGION, IDLE_PER_REGION, REFUSED_CONNECTION_WAIT, STREAMS_PER_REGION_CONNECTION,
};
use crate::model::time::{Clock, Moment};

mod connection;
mod stream;

/// A stream; none when the region speaks HTTP/1.1 now.
type Granted = Result<Option<Http2Stream>, Failure>;

pub(crate) struct Http2Pool {
    shared: Arc<Shared>,
}

/// One request's part of a connection, until its reply was read or is given up.
pub(crate) struct Http2Stream {
    shared: Arc<Shared>,
    connection: Arc<Http2Connection>,
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
    /// The limit that a connection stated last, unless it allowed nothing.
    stated: Option<usize>,
    /// Time of the last failure to open a connection.
    refused: Option<Moment>,
}

struct Pooled {
    connection: Arc<Http2Connection>,
    in_flight: usize,
    idle_since: Moment,
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
            self.stated = stated.filter(|limit| *limit > 0).or(self.stated);
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

    /// True if a connection more would be of no use for now: a peer that allows no stream at all
    /// does so for a while (RFC 9113, 6.5.2). Another server may stand behind the same name, so it
    /// is tried again, the more seldom the more connections are like that.
    fn is_shut(&self, now: Moment) -> bool {
        let mut alive = self.connections.iter().filter(|pooled| !pooled.connection.requests.is_closed());
        let newest = alive.clone().map(|pooled| now.since(pooled.connection.birth.at)).min();
        let wait = REFUSED_CONNECTION_WAIT * u32::try_from(alive.clone().count()).unwrap_or(u32::MAX);
        alive.all(|pooled| pooled.connection.limit() == Some(0)) && newest.is_some_and(|newest| newest < wait)
    }

    /// Number of connections to open for those who wait.
    fn lacking(&self, now: Moment) -> usize {
        let alive = self.connections.iter().filter(|pooled| !pooled.connection.requests.is_closed());
        let limits = alive.map(|pooled| pooled.connection.limit());
        let is_refused = self.refused.is_some_and(|refused| now.since(refused) < REFUSED_CONNECTION_WAIT);
        if self.is_shut(now) || is_refused && !self.connections.is_empty() {
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
        self.state.lock()
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
            // On its own: its first user may give up, and others wait for it.
            TokioExecutor::new().execute(async move { shared.open().await });
        }
    }

    fn next(&self) -> Option<(oneshot::Sender<Granted>, Arc<Http2Connection>)> {
        let mut state = self.state();
        state.drop_gone();
        let next = if state.waiting.is_empty() {
            None
        } else {
            state.pick().and_then(|connection| Some((state.waiting.pop_front()?, connection)))
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
            Ok(link) => {
                let pool = Arc::downgrade(&self);
                Http2Connection::begin(link, Arc::new(move || settle_for_waiting(&pool))).await.map(Some)
            }
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

/// Settles a pool after what its connections allow may have changed, if requests wait for that.
fn settle_for_waiting(pool: &Weak<Shared>) {
    if let Some(pool) = pool.upgrade()
        && pool.waiting.load(Ordering::Relaxed) > 0
    {
        pool.settle();
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        self.shared.release(&self.connection);
    }
}

#[cfg(test)]
mod tests;
