//! The kernel's buffers of a connection: read past the runtime, and discarded.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::RecvFlags;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::coop;
use tokio_util::either::Either;

use crate::http::limits;
use crate::http::pulse::Pulse;

/// The kernel's buffers behind a stream.
pub struct KernelBuffers<S> {
    /// Reads what has arrived; [`io::ErrorKind::WouldBlock`] when nothing has.
    read: fn(&S, &mut [u8]) -> io::Result<usize>,
    /// Has the stream's end discard what is buffered for its peer, who gets a reset. Else the
    /// kernel goes on offering it for minutes.
    discard: fn(&S),
}

impl<S> Clone for KernelBuffers<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for KernelBuffers<S> {}

impl<S> KernelBuffers<S> {
    /// Those of a stream that is no socket: there are none.
    pub const NONE: Self = Self { read: |_, _| Err(io::ErrorKind::WouldBlock.into()), discard: |_| {} };
    /// Those of TLS: they lie below it ([`crate::http::socket::Socket::below_tls`]), in ciphertext.
    pub(crate) const TLS: Self = Self::NONE;

    pub(crate) fn discard(self, stream: &S) {
        (self.discard)(stream);
    }
}

impl KernelBuffers<TcpStream> {
    pub const TCP: Self = Self { read: |stream, room| read(stream.as_fd(), room), discard };
}

impl KernelBuffers<UnixStream> {
    /// The kernel keeps nothing for a peer of a Unix socket that was closed but what it has received.
    pub const UNIX: Self = Self { read: |stream, room| read(stream.as_fd(), room), discard: |_| {} };
}

impl KernelBuffers<Either<TcpStream, UnixStream>> {
    pub const EITHER: Self = Self {
        read: |stream, room| match stream {
            Either::Left(tcp) => read(tcp.as_fd(), room),
            Either::Right(unix) => read(unix.as_fd(), room),
        },
        discard: |stream| {
            if let Either::Left(tcp) = stream {
                discard(tcp);
            }
        },
    };
}

impl<S: AsyncRead + Unpin> KernelBuffers<S> {
    /// Reads like the stream itself, but asks the kernel too while the connection may be about to
    /// close ([`Pulse::what_has_come_is_read`]): the runtime learns of what arrives when it next
    /// asks, and another of its threads may have been held up in the middle of that.
    pub(crate) fn poll_read(
        self,
        stream: &mut S,
        pulse: &Pulse,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut *stream).poll_read(cx, buf);
        if polled.is_ready() || !pulse.asks_kernel() {
            return polled;
        }
        // The runtime says that nothing has come, too, to a task that has to let others go first.
        let turn = ready!(coop::poll_proceed(cx));
        let most = buf.remaining().min(limits::WIRE_BYTES);
        match (self.read)(stream, buf.initialize_unfilled_to(most)) {
            Ok(count) => {
                turn.made_progress();
                buf.advance(count);
                Poll::Ready(Ok(()))
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => polled,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

fn read(socket: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<usize> {
    let (_, count) = rustix::net::recv(socket, room, RecvFlags::DONTWAIT)?;
    Ok(count)
}

fn discard(stream: &TcpStream) {
    // Without it that memory comes back later.
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
