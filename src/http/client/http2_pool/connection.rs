//! One HTTP/2 connection to a region: what drives it, and what its peer allows on it.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http2::{Builder, Connection, SendRequest};
use hyper::rt::Executor;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;

use crate::http::client::connect::{ConnectionMetadata, Link};
use crate::http::client::incoming;
use crate::http::limits::{KEEPALIVE, REPLY_HEAD_BYTES};

/// The peer's limit as h2 has it before the peer's settings came: a value that no peer can state.
const UNSTATED: usize = usize::MAX - 1;

/// Called when the peer may allow more or fewer streams than before, and when the connection has
/// ended.
pub(super) type OnChange = Arc<dyn Fn() + Send + Sync>;

type Driven = Connection<TokioIo<Link>, Full<Bytes>, Spawner>;

pub(super) struct Http2Connection {
    pub(super) requests: SendRequest<Full<Bytes>>,
    /// Driven by a task of its own, which ends with the last sender in `requests`.
    /// `None` once it has ended: what it held is gone, and its waiters learn so.
    driven: Arc<Mutex<Option<Driven>>>,
    pub(super) birth: Arc<ConnectionMetadata>,
}

impl Http2Connection {
    /// Begins HTTP/2 on `link`.
    pub(super) async fn begin(link: Link, on_change: OnChange) -> io::Result<Self> {
        let birth = link.birth();
        let spawner = Spawner { on_change: on_change.clone(), has_io: Arc::default() };
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
        let driver = driven.clone();
        TokioExecutor::new().execute(async move {
            let ended = poll_fn(|cx| {
                let mut driven = driver.lock();
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
            on_change();
        });
        Ok(Self { requests, driven, birth })
    }

    /// Streams that the peer allows; `None` before its settings came.
    pub(super) fn limit(&self) -> Option<usize> {
        let limit = self.driven.lock().as_ref().map_or(0, Driven::current_max_send_streams);
        (limit != UNSTATED).then_some(limit)
    }
}

/// Spawns what hyper needs for one connection. The first is its I/O, where the peer's settings
/// arrive: nothing else in hyper tells that the peer allows more streams now.
#[derive(Clone)]
struct Spawner {
    on_change: OnChange,
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
        let (on_change, mut future) = (self.on_change.clone(), Box::pin(future));
        TokioExecutor::new().execute(poll_fn(move |cx| {
            let polled = future.as_mut().poll(cx);
            on_change();
            polled
        }));
    }
}
