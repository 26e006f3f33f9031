//! One connection: detects its protocol, serves HTTP/1.1 or h2c, and closes it when it is slow with
//! its headers, or idle.
//!
//! From the first SIGTERM until the linger ends, everything that arrives is still answered. A
//! connection is asked to end (`Connection: close`, GOAWAY) only together with an answer, or when
//! it has none pending.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::http::body::Body;
use crate::http::kernel_buffers::KernelBuffers;
use crate::http::limits;
use crate::http::peers::Peers;
use crate::http::pulse::Pulse;
use crate::http::server_tls::{Accepted, PortTls};
use crate::http::socket::Socket;
use crate::model::time::Clock;
use crate::tasks::Tasks;
use crate::tasks::permits::Permits;
use crate::tasks::wake_gated::WakeGated;

mod answering;
mod fast_path;
mod http1;
pub(crate) mod spare;
mod via;
pub(crate) mod wire;

pub use fast_path::{FastPath, Next};
pub use via::Via;

use answering::Answering;
use wire::{Protocol, Wire};

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
    /// Memory that peers make the process hold.
    pub peers: Arc<Peers>,
    pub shutdown: Shutdown,
    /// Answers before the handler is asked; `None` where hyper reads every request.
    pub fast_path: Option<P>,
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
    context.peers.enter(&pulse);
    let served = requests(stream, buffers, Answering::new(handler, via, pulse.clone()), &context);
    unless_it_keeps_us_waiting(served, &pulse, &context).await;
}

/// Like [`serve`], over TLS. From its first byte on the connection is one among the others: it may have to
/// make room before its handshake is done.
pub(crate) async fn serve_tls<P, H, F>(
    stream: TcpStream,
    tls: PortTls,
    via: Via,
    context: ConnectionContext<P>,
    handler: H,
) where
    P: FastPath,
    H: Fn(Request<Incoming>, Via) -> F + Clone + Unpin + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let pulse = Arc::new(Pulse::default());
    context.peers.enter(&pulse);
    let served = async {
        let socket = Socket::below_tls(stream, KernelBuffers::TCP, pulse.clone());
        let Some(Accepted { stream, peer }) = tls.accept(socket).await else { return };
        let answering = Answering::new(handler, via, pulse.clone()).to(peer);
        requests(stream, KernelBuffers::TLS, answering, &context).await;
    };
    unless_it_keeps_us_waiting(served, &pulse, &context).await;
}

/// Answers what comes on a stream, in the protocol that its first bytes show.
async fn requests<S, P, H, F>(
    stream: S,
    buffers: KernelBuffers<S>,
    answering: Answering<H>,
    context: &ConnectionContext<P>,
) where
    P: FastPath,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>, Via) -> F + Clone + Unpin + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let pulse = answering.pulse.clone();
    let Some(nothing) = context.peers.nothing() else { return };
    let Ok((protocol, wire)) = Wire::sniff(stream, buffers, pulse.clone(), nothing).await else { return };
    let served = match protocol {
        Protocol::Http1 => http1::serve(wire, context.fast_path.clone(), answering).await,
        // Boxed: a connection that speaks HTTP/1.1 reserves no room for it.
        Protocol::Http2 => Box::pin(serve_http2(wire, answering, &pulse, context)).await,
    };
    if let Err(error) = served {
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
        if !said && (pulse.has_answered() && pulse.lingers() || pulse.closes() || pulse.is_refused()) {
            said = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(cx)
    })
    .await
}

/// Drives a connection until it ends, or has kept us waiting and has to be closed. The [`WakeGated`]
/// part is polled only after it was woken, so a request costs no timer and no lock for the shutdown.
async fn unless_it_keeps_us_waiting<P>(
    connection: impl Future<Output = ()>,
    pulse: &Pulse,
    context: &ConnectionContext<P>,
) {
    let mut connection = pin!(connection);
    let watch = pin!(async {
        tokio::select! {
            never = pulse.closed(&context.shutdown) => match never {},
            () = pulse.idle_timeout(&context.tasks) => {}
            () = pulse.evicted() => {}
        }
    });
    let mut watch = WakeGated::new(watch);
    poll_fn(|cx| {
        if Pin::new(&mut watch).poll(cx).is_ready() {
            pulse.give_up();
            tracing::debug!("a connection that kept us waiting was closed");
            return Poll::Ready(());
        }
        connection.as_mut().poll(cx)
    })
    .await;
}
