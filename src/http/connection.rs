//! One connection: detects its protocol, serves HTTP/1.1 or h2c, and closes it when it is slow with
//! its headers, or idle.
//!
//! From the first SIGTERM until the linger ends, everything that arrives is still answered. A
//! connection is told to end (`Connection: close`, GOAWAY) only together with an answer, or when it
//! has none pending.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use futures_util::future::{BoxFuture, Either, ready};
use http::{HeaderValue, Request, Response, StatusCode, Version, header};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::http::body::{Body, BodyUnread};
use crate::http::kernel_buffers::KernelBuffers;
use crate::http::limits;
use crate::http::peers::Peers;
use crate::http::pulse::Pulse;
use crate::model::time::Clock;
use crate::tasks::Tasks;
use crate::tasks::permits::Permits;
use crate::tasks::wake_gated::WakeGated;

mod http1;
pub(crate) mod spare;
pub(crate) mod wire;

use wire::{Protocol, Wire};

/// How a request reached us; decides which checks apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// A TCP port: `Host` is checked.
    Tcp,
    /// The Unix socket: the peer's uid was checked instead.
    Unix,
}

/// The two moments of a shutdown that connections watch.
#[derive(Clone, Default)]
pub struct Shutdown {
    /// SIGTERM came: keep answering, and announce the end of the connection with each answer.
    pub lingering: CancellationToken,
    /// The linger is over: accept nothing, finish what is under way.
    pub closing: CancellationToken,
}

#[derive(Clone)]
pub struct ConnectionContext<P> {
    pub tasks: Tasks,
    /// For what is said of errors.
    pub clock: Clock,
    /// Connections open at once over all listeners.
    pub permits: Permits,
    /// What they make us hold.
    pub peers: Arc<Peers>,
    pub shutdown: Shutdown,
    /// Answers before the handler is asked; `None` where hyper reads every request.
    pub fast_path: Option<P>,
}

/// Answers plain HTTP/1.1 requests before hyper reads them.
pub trait FastPath: Clone + Send + Sync + 'static {
    /// What one connection keeps from a request to the next.
    type Kept: Send;

    fn begin(&self) -> Self::Kept;

    /// Answers until a request comes that is not plain, or whose answer hyper has to write.
    fn answer<S>(
        kept: &mut Self::Kept,
        wire: &mut Wire<S>,
        via: Via,
    ) -> impl Future<Output = io::Result<Next>> + Send
    where
        S: AsyncRead + AsyncWrite + Unpin + Send;
}

/// What to do with a connection after its fast path.
pub enum Next {
    Gone,
    /// The next request is plain and has this many bytes, and hyper has to write this answer to it.
    /// Then the connection returns to the fast path.
    One(usize, Box<Response<Body>>),
    /// hyper handles it from here on.
    All,
}

impl<P> ConnectionContext<P> {
    pub(super) async fn permit(&self) -> Option<tokio::sync::OwnedSemaphorePermit> {
        tokio::select! {
            permit = self.peers.permit(&self.permits) => permit,
            () = self.shutdown.closing.cancelled() => None,
        }
    }
}

/// Serves one connection to its end, whatever carries its bytes. `handler` answers all its requests
/// except those that [`ConnectionContext::fast_path`] does.
pub async fn serve<S, P, H, F>(
    stream: S,
    buffers: KernelBuffers<S>,
    via: Via,
    context: ConnectionContext<P>,
    handler: H,
) where
    P: FastPath,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>, Via) -> F + Clone + Unpin + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let pulse = Arc::new(Pulse::default());
    let Some(nothing) = context.peers.nothing() else { return };
    context.peers.enter(&pulse);
    let served = async {
        let Ok((protocol, wire)) = Wire::sniff(stream, buffers, pulse.clone(), nothing).await else { return Ok(()) };
        let answering = Answering { handler, via, pulse: pulse.clone(), ready: Ready::default() };
        match protocol {
            Protocol::Http1 => http1::serve(wire, context.fast_path.clone(), answering).await,
            // Boxed: a connection that speaks HTTP/1.1 reserves no room for it.
            Protocol::Http2 => Box::pin(serve_http2(wire, answering, &pulse, &context)).await,
        }
    };
    if let Some(Err(error)) = unless_it_keeps_us_waiting(served, &pulse, &context).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn serve_http2<S, P, H, F>(
    wire: Wire<S>,
    answering: Answering<H>,
    pulse: &Arc<Pulse>,
    context: &ConnectionContext<P>,
) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>, Via) -> F + Clone + Unpin + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    // Kept for as long as the connection lasts.
    let Some((_reserved, streams)) = context.peers.http2(pulse).await else { return Ok(()) };
    let mut http = http2::Builder::new(context.tasks.clone());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(streams)
        .max_header_list_size(limits::REQUEST_HEAD_BYTES as u32)
        .initial_connection_window_size(limits::HTTP2_WINDOW_BYTES)
        .initial_stream_window_size(limits::HTTP2_WINDOW_BYTES)
        .max_send_buf_size(limits::HTTP2_SEND_BYTES)
        .keep_alive_interval(limits::IDLE_WAIT / 3);
    let mut connection = pin!(http.serve_connection(TokioIo::new(wire), answering));
    let mut said = false;
    poll_fn(|cx| {
        // Only HTTP/2 can announce the end between answers. It does so only after its first answer, or
        // a connection made during the linger would be of no use.
        if !said && (pulse.has_answered() && pulse.lingers() || pulse.closes()) {
            said = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(cx)
    })
    .await
}

/// Drives a connection; `None` when it has kept us waiting and has to be closed. The [`WakeGated`]
/// part is polled only after it was woken, so a request costs no timer and no lock for the shutdown.
async fn unless_it_keeps_us_waiting<P, T>(
    connection: impl Future<Output = T>,
    pulse: &Pulse,
    context: &ConnectionContext<P>,
) -> Option<T> {
    let mut connection = pin!(connection);
    let watch = pin!(async {
        tokio::select! {
            never = pulse.told(&context.shutdown) => match never {},
            () = pulse.idle_timeout(&context.tasks) => {}
            () = pulse.evicted() => {}
        }
    });
    let mut watch = WakeGated::new(watch);
    poll_fn(|cx| {
        if Pin::new(&mut watch).poll(cx).is_ready() {
            pulse.give_up();
            tracing::debug!("a connection that kept us waiting was closed");
            return Poll::Ready(None);
        }
        connection.as_mut().poll(cx).map(Some)
    })
    .await
}

#[derive(Clone)]
struct Answering<H> {
    handler: H,
    via: Via,
    pulse: Arc<Pulse>,
    ready: Ready,
}

/// The answer to the request that hyper reads next, if the fast path has it already.
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

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let old = request.version() < Version::HTTP_2;
        // hyper does not tell whether a length came with the chunks. If one did, the connection
        // must end (RFC 9112, 6.1).
        let chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
        let (under_way, pulse) = (self.pulse.begin(), self.pulse.clone());
        if !request.body().is_end_stream() {
            // Whoever reads the body takes it out.
            request.extensions_mut().insert(self.pulse.arrives());
        }
        let answer = match self.ready.take() {
            Some(answer) => Either::Left(ready(*answer)),
            None => Either::Right((self.handler)(request, self.via)),
        };
        let answered = async move {
            let mut response = answer.await;
            let unread = matches!(response.status(), StatusCode::REQUEST_TIMEOUT | StatusCode::PAYLOAD_TOO_LARGE)
                || response.extensions_mut().remove::<BodyUnread>().is_some();
            if old && (under_way.lingers() || chunked || unread) {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            drop(under_way);
            Ok(response.map(|body| body.keeping(|| pulse.send())))
        };
        Box::pin(answered)
    }
}
