//! A connection's bytes, as its [`Pulse`] sees them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::kernel_buffers::KernelBuffers;
use crate::http::pulse::Pulse;

/// A stream whose traffic is noted on a pulse.
pub(crate) struct Socket<S> {
    stream: S,
    buffers: KernelBuffers<S>,
    pulse: Arc<Pulse>,
    /// True if all that arrives belongs to requests.
    notes_reads: bool,
}

impl<S> Socket<S> {
    pub(crate) const fn new(stream: S, buffers: KernelBuffers<S>, pulse: Arc<Pulse>) -> Self {
        Self { stream, buffers, pulse, notes_reads: true }
    }

    /// A socket that carries TLS. What arrives on it is noted above TLS, in plaintext: a handshake is
    /// no head that has begun. What the peer takes is noted here too: TLS keeps some of it.
    pub(crate) const fn below_tls(stream: S, buffers: KernelBuffers<S>, pulse: Arc<Pulse>) -> Self {
        Self { stream, buffers, pulse, notes_reads: false }
    }
}

impl<S> Drop for Socket<S> {
    /// As [`crate::http::connection::wire::Wire`] does.
    fn drop(&mut self) {
        if self.pulse.is_gone() {
            self.buffers.discard(&self.stream);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let Self { stream, buffers, pulse, notes_reads } = &mut *self;
        let polled = buffers.poll_read(stream, pulse, cx, buf);
        if *notes_reads && buf.filled().len() > before {
            pulse.note_bytes();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.pulse.written(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.pulse.written(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
