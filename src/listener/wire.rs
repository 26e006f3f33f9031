//! Owns a connection's bytes before hyper sees them: which protocol they speak, and how long they keep us waiting.
//!
//! Before it: [`super`] accepted the stream. After it: hyper parses. hyper's own header timeout runs from the end of
//! the last answer, so that it cannot tell a caller who idles from one who drips a header; [`Pulse`] can.
//!
//! Invariant: a connection without a request under way is closed after `HEADER_WAIT` from the first byte of a head,
//! or `IDLE_WAIT` from the last byte either way; at most `HEADER_WAIT` later than that, never earlier.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use super::Ending;
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

/// Whether a connection is alive, and what it is in the middle of. Written with every request, so it asks no clock: who
/// watches ([`Pulse::impatience`]) looks now and then, and counts from when it first saw a change.
#[derive(Default)]
pub struct Pulse {
    under_way: AtomicU32,
    /// A request was answered.
    answered: AtomicBool,
    /// A byte went either way since somebody looked.
    stirred: AtomicBool,
    /// A head is begun and not complete.
    head: AtomicBool,
    /// How many heads were complete: tells one that is begun from the one before.
    heads: AtomicU32,
    /// The two moments of a shutdown, as this connection was told of them.
    lingering: AtomicBool,
    closing: AtomicBool,
}

/// A request under way; ends when dropped.
pub struct UnderWay(Arc<Pulse>);

impl UnderWay {
    /// Whether the linger has begun: then its answer says goodbye.
    pub fn lingers(&self) -> bool {
        self.0.lingers()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.stirred.store(true, Ordering::Relaxed);
        self.0.answered.store(true, Ordering::Relaxed);
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pulse {
    /// A head is complete and its request begins.
    pub fn begin(self: &Arc<Self>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.heads.fetch_add(1, Ordering::Relaxed);
        self.head.store(false, Ordering::Relaxed);
        UnderWay(self.clone())
    }

    /// Whether the connection has served anybody yet.
    pub fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Whether the linger has begun.
    pub fn lingers(&self) -> bool {
        self.lingering.load(Ordering::Relaxed)
    }

    /// Whether the linger is over.
    pub fn closes(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    fn heard(&self) {
        self.stirred.store(true, Ordering::Relaxed);
        if self.under_way.load(Ordering::Relaxed) == 0 {
            self.head.store(true, Ordering::Relaxed);
        }
    }

    fn written(&self, polled: &Poll<io::Result<usize>>) {
        if matches!(polled, Poll::Ready(Ok(_))) {
            self.stirred.store(true, Ordering::Relaxed);
        }
    }

    /// Notes the two moments of a shutdown, each when it comes; never resolves.
    pub async fn told(&self, ending: &Ending) -> Infallible {
        let lingering = async {
            ending.lingering.cancelled().await;
            self.lingering.store(true, Ordering::Relaxed);
        };
        let closing = async {
            ending.closing.cancelled().await;
            self.closing.store(true, Ordering::Relaxed);
        };
        tokio::join!(lingering, closing);
        std::future::pending().await
    }

    /// Resolves when the connection has kept us waiting for too long.
    pub async fn impatience(&self, protocol: Protocol, clock: &Clock) {
        let (mut last, mut head): (_, Option<(u32, Moment)>) = (clock.now(), None);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = clock.now();
            if self.stirred.swap(false, Ordering::Relaxed) || self.under_way.load(Ordering::Relaxed) > 0 {
                last = now;
            }
            let heads = self.heads.load(Ordering::Relaxed);
            head = match head.filter(|(known, _)| *known == heads) {
                _ if !self.head.load(Ordering::Relaxed) => None,
                None => Some((heads, now)),
                begun => begun,
            };
            // Frames arrive on an idle HTTP/2 connection too; there the idle wait is the bound for both.
            let begun = head.filter(|_| protocol == Protocol::Http1);
            if now.since(last) >= limits::IDLE_WAIT
                || begun.is_some_and(|(_, since)| now.since(since) >= limits::HEADER_WAIT)
            {
                return;
            }
        }
    }
}

/// How often a connection is looked at: what it is allowed is at most overdrawn by twice this.
const LOOK_EVERY: Duration = limits::HEADER_WAIT.checked_div(2).expect("two is not zero");
