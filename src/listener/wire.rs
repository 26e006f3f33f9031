//! Owns a connection's bytes before hyper sees them: which protocol they speak, and how long they keep us waiting.
//!
//! Before it: [`super`] accepted the stream. After it: hyper parses. hyper's own header timeout runs from the end of
//! the last answer, so that it cannot tell a caller who idles from one who drips a header; [`Pulse`] can.
//!
//! Invariant: a connection without a request under way is closed after `HEADER_WAIT` from the first byte of a head,
//! or `IDLE_WAIT` from the last byte either way.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use crate::clock::{Clock, Moment};
use crate::limits;

/// What a client with prior knowledge of HTTP/2 sends first (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Which protocol the first bytes show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Anything that is not the HTTP/2 preface.
    Http1,
    /// HTTP/2 with prior knowledge (h2c).
    Http2,
}

/// A stream with the bytes that sniffing took put back in front.
pub struct Wire<S> {
    stream: S,
    taken: [u8; 24],
    from: usize,
    to: usize,
    pulse: Arc<Pulse>,
}

impl<S: AsyncRead + Unpin> Wire<S> {
    /// Reads until the bytes are the preface or cannot become it.
    pub async fn sniff(mut stream: S, pulse: Arc<Pulse>) -> io::Result<(Protocol, Self)> {
        let mut taken = [0; 24];
        let mut to = 0;
        while to < PREFACE.len() && taken[..to] == PREFACE[..to] {
            match stream.read(&mut taken[to..]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => to += count,
            }
        }
        pulse.heard();
        let protocol = if taken == *PREFACE { Protocol::Http2 } else { Protocol::Http1 };
        Ok((protocol, Self { stream, taken, from: 0, to, pulse }))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.from < self.to {
            let count = buf.remaining().min(self.to - self.from);
            buf.put_slice(&self.taken[self.from..self.from + count]);
            self.from += count;
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if polled.is_ready() && buf.filled().len() > before {
            self.pulse.heard();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
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

/// When a connection was last alive, and what it is in the middle of.
pub struct Pulse {
    clock: Clock,
    under_way: AtomicU32,
    /// A request was answered.
    answered: AtomicBool,
    /// The last byte either way, nanoseconds since boot.
    last: AtomicU64,
    /// The first byte of a head that is not complete; 0 when none is begun.
    head: AtomicU64,
}

/// A request under way; ends when dropped.
pub struct UnderWay(Arc<Pulse>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.touch();
        self.0.answered.store(true, Ordering::Relaxed);
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pulse {
    /// A connection that begins now.
    pub fn new(clock: Clock) -> Self {
        let last = clock.now().as_nanos();
        Self { clock, under_way: 0.into(), answered: false.into(), last: last.into(), head: 0.into() }
    }

    /// A head is complete and its request begins.
    pub fn begin(self: &Arc<Self>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.head.store(0, Ordering::Relaxed);
        UnderWay(self.clone())
    }

    /// Whether the connection has served anybody yet.
    pub fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    fn touch(&self) -> u64 {
        let now = self.clock.now().as_nanos();
        self.last.store(now, Ordering::Relaxed);
        now
    }

    fn heard(&self) {
        let now = self.touch();
        if self.under_way.load(Ordering::Relaxed) == 0 && self.head.load(Ordering::Relaxed) == 0 {
            self.head.store(now, Ordering::Relaxed);
        }
    }

    fn written(&self, polled: &Poll<io::Result<usize>>) {
        if matches!(polled, Poll::Ready(Ok(_))) {
            self.touch();
        }
    }

    /// How much longer this connection may keep us waiting; zero when it is over.
    pub fn patience(&self, protocol: Protocol) -> Duration {
        let now = self.clock.now();
        let since = |at: &AtomicU64| now.since(Moment::from_nanos(at.load(Ordering::Relaxed)));
        if self.under_way.load(Ordering::Relaxed) > 0 {
            return limits::IDLE_WAIT;
        }
        let idle = limits::IDLE_WAIT.saturating_sub(since(&self.last));
        // Frames arrive on an idle HTTP/2 connection too; there the idle wait is the bound for both.
        if protocol == Protocol::Http2 || self.head.load(Ordering::Relaxed) == 0 {
            return idle;
        }
        idle.min(limits::HEADER_WAIT.saturating_sub(since(&self.head)))
    }
}
