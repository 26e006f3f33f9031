//! A loopback port and its connections: listening, closing, HTTP/1.1, and breaking the wire. A held
//! port stays ours while nobody listens on it, so a region that is switched off refuses connections
//! instead of losing its address to somebody else.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use nearside::http::limits::{HEADER_WAIT, IDLE_WAIT};
use nearside::tasks::Tasks;
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::limits;
use crate::names::LabError;

/// A loopback address that is ours, whether or not we listen on it.
#[derive(Debug)]
pub struct Port {
    address: SocketAddr,
    _held: Socket,
}

impl Port {
    /// Takes `number` on 127.0.0.1; 0 takes any free port. An error means that somebody else has
    /// it.
    pub fn hold(number: u16) -> io::Result<Self> {
        let held = bound(SocketAddr::from((Ipv4Addr::LOCALHOST, number)))?;
        let address = held.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { address, _held: held })
    }

    /// As [`Self::hold`], for what is to be named in an error.
    pub fn hold_for(number: u16, what: &str) -> Result<Self, LabError> {
        Self::hold(number).map_err(|source| LabError::Port { what: what.to_owned(), source })
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts to accept connections; once the listener is dropped, they are refused again.
    pub fn listen(&self) -> io::Result<TcpListener> {
        let socket = bound(self.address)?;
        socket.listen(1024)?;
        TcpListener::from_std(socket.into())
    }

    /// As [`Self::listen`], for what is to be named in an error.
    pub fn listen_for(&self, what: &str) -> Result<TcpListener, LabError> {
        self.listen().map_err(|source| LabError::Port { what: what.to_owned(), source })
    }
}

/// A socket that may share its address with one that does not listen.
fn bound(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Answers every request to `listener` with `answer` until the tasks stop.
pub async fn serve<A, F, B>(listener: TcpListener, tasks: Tasks, name: &'static str, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let permits = Arc::new(Semaphore::new(limits::LAB_CONNECTIONS));
    let stopping = tasks.stopping();
    while let Some(stream) = accept(&listener, &stopping).await {
        let Ok(permit) = permits.clone().try_acquire_owned() else { continue };
        let (answer, stopping) = (answer.clone(), stopping.clone());
        tasks.spawn(name, async move {
            let _permit = permit;
            let connection = connection(stream, Wreck::default(), answer);
            stopping.run_until_cancelled(connection).await;
        });
    }
}

/// The next connection; `None` once `stopping` is cancelled.
pub async fn accept(listener: &TcpListener, stopping: &tokio_util::sync::CancellationToken) -> Option<TcpStream> {
    loop {
        match stopping.run_until_cancelled(listener.accept()).await? {
            Ok((stream, _)) => {
                // Best effort: without it, a reply may wait for an acknowledgement.
                let _ = stream.set_nodelay(true);
                return Some(stream);
            }
            Err(error) => {
                tracing::warn!(%error, "the lab could not accept a connection");
                stopping.run_until_cancelled(tokio::time::sleep(Duration::from_millis(10))).await?;
            }
        }
    }
}

/// Speaks HTTP/1.1 over `stream` until either side is done; `wreck` may break it at any time.
pub async fn connection<A, F, B>(stream: TcpStream, wreck: Wreck, answer: A)
where
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<B>>,
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let wire = TokioIo::new(Wire { stream, wreck });
    let service = service_fn(|request| {
        let answered = answer(request);
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let ended = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_WAIT + HEADER_WAIT)
        .serve_connection(wire, service)
        .await;
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection of the lab ended");
    }
}

/// A handle that breaks a connection from outside.
#[derive(Clone, Debug, Default)]
pub struct Wreck(Arc<AtomicU8>);

const GARBLED: u8 = 1;
const RESET: u8 = 2;

impl Wreck {
    /// The next bytes sent will not be HTTP, and then the connection ends.
    pub fn garble(&self) {
        self.0.store(GARBLED, Ordering::Release);
    }

    /// Makes the peer see a reset once the connection is dropped.
    pub fn reset(&self) {
        self.0.store(RESET, Ordering::Release);
    }

    fn is(&self, how: u8) -> bool {
        self.0.load(Ordering::Acquire) == how
    }
}

const GARBAGE: &[u8] = b"\x16\x03\x01\x02\x00 what is this\r\n\x00\xff\xfe: not a status line\r\n\r\n";

/// A stream that a [`Wreck`] can break.
struct Wire {
    stream: TcpStream,
    wreck: Wreck,
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.wreck.is(RESET) {
            // Best effort: a plain close ends the connection too.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if !self.wreck.is(GARBLED) {
            return Pin::new(&mut self.stream).poll_write(cx, bytes);
        }
        match Pin::new(&mut self.stream).poll_write(cx, GARBAGE) {
            Poll::Ready(_) => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refuses(port: &Port) -> bool {
        TcpStream::connect(port.address()).await.unwrap_err().kind() == io::ErrorKind::ConnectionRefused
    }

    #[tokio::test]
    async fn held_port_refuses_connections_unless_listening() {
        let port = Port::hold(0).unwrap();
        assert!(refuses(&port).await);
        let listener = port.listen().unwrap();
        assert!(TcpStream::connect(port.address()).await.is_ok());
        drop(listener);
        assert!(refuses(&port).await);
        assert!(port.listen().is_ok(), "and it can come back");
    }

    #[tokio::test]
    async fn listening_port_cannot_be_taken() {
        let port = Port::hold(0).unwrap();
        let _listener = port.listen().unwrap();
        assert_eq!(Port::hold(port.address().port()).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
