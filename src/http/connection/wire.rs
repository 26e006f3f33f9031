//! A connection's bytes before hyper sees them: which protocol they speak, and how long they keep
//! us waiting. hyper's own header timeout runs from the end of the last answer, so it cannot tell a
//! caller who idles from one who drips a header; [`Pulse`] can.
//!
//! A connection without a request under way is closed `HEADER_WAIT` after the first byte of a head,
//! or `IDLE_WAIT` after the last byte either way; at most `HEADER_WAIT` later than that, never
//! earlier. At the end of the process `LAST_REPLY_WAIT` is all that silence may last.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::connection::Shutdown;
use crate::http::connection::spare::Spare;
use crate::http::limits;
use crate::model::time::{Clock, Moment};

/// What a client with prior knowledge of HTTP/2 sends first (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The protocol that the first bytes show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Anything that is not the HTTP/2 preface.
    Http1,
    /// HTTP/2 with prior knowledge (h2c).
    Http2,
}

/// A stream, with what was read from it and not taken yet.
pub struct Wire<S> {
    stream: S,
    /// [`limits::WIRE_BYTES`] long; empty while there is nothing to keep.
    kept: Spare,
    from: usize,
    to: usize,
    /// How much hyper may still read; without a limit unless it is given one request only.
    allowance: Option<usize>,
    /// hyper asked for more than it was allowed.
    came_back: bool,
    pulse: Arc<Pulse>,
}

impl<S: AsyncRead + Unpin> Wire<S> {
    /// Reads until the bytes are the preface or cannot become it.
    pub async fn sniff(stream: S, pulse: Arc<Pulse>) -> io::Result<(Protocol, Self)> {
        let kept = Spare::none();
        let mut wire = Self { stream, kept, from: 0, to: 0, allowance: None, came_back: false, pulse };
        loop {
            let seen = &wire.unread()[..wire.to.min(PREFACE.len())];
            if *seen != PREFACE[..seen.len()] {
                return Ok((Protocol::Http1, wire));
            }
            if seen.len() == PREFACE.len() {
                return Ok((Protocol::Http2, wire));
            }
            if !wire.fill().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads more after what is there; false at the end of the stream, or when the linger is over.
    /// Call it while there is room ([`Wire::is_full`]). A connection that waits holds no memory for
    /// what may come.
    pub(crate) async fn fill(&mut self) -> io::Result<bool> {
        // A head counts as begun once we wait for its rest, not while the answers before it are
        // being sent.
        self.pulse.head.store(self.from < self.to, Ordering::Relaxed);
        poll_fn(|cx| {
            if self.pulse.closes() {
                return Poll::Ready(Ok(false));
            }
            self.make_room();
            let mut room = ReadBuf::new(&mut self.kept[self.to..]);
            let polled = Pin::new(&mut self.stream).poll_read(cx, &mut room);
            let count = room.filled().len();
            if polled.is_pending() && self.from == self.to {
                self.kept = Spare::none();
            }
            ready!(polled)?;
            self.to += count;
            if count > 0 {
                self.pulse.heard();
            }
            Poll::Ready(Ok(count > 0))
        })
        .await
    }

    /// Moves what is unread to the beginning of the buffer; gets one if there is none.
    fn make_room(&mut self) {
        if self.kept.is_empty() {
            self.kept = Spare::to_read();
        } else if self.from > 0 {
            self.kept.copy_within(self.from..self.to, 0);
        }
        (self.from, self.to) = (0, self.to - self.from);
    }
}

impl<S> Wire<S> {
    /// What has arrived and was not taken.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.kept[self.from..self.to]
    }

    /// Whether nothing more can be read before something is taken.
    pub(crate) fn is_full(&self) -> bool {
        self.to - self.from == limits::WIRE_BYTES
    }

    /// The request whose head is the first `len` unread bytes was answered.
    pub(crate) fn answered(&mut self, len: usize) {
        self.from += len;
        self.pulse.answered_one();
    }

    /// Begins a request whose head has arrived and that is answered later.
    pub(crate) fn begin(&self) -> UnderWay {
        self.pulse.begin()
    }

    pub(crate) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Lets hyper read that many bytes and no more; `None` means all.
    pub(crate) fn allow(&mut self, allowance: Option<usize>) {
        (self.allowance, self.came_back) = (allowance, false);
    }

    /// Whether hyper was done with what it was allowed, and would have continued with the
    /// connection.
    pub(crate) fn goes_on(&self) -> bool {
        self.came_back
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.allowance == Some(0) {
            self.came_back = true;
            return Poll::Ready(Ok(()));
        }
        if self.from < self.to {
            let count = buf.remaining().min(self.to - self.from).min(self.allowance.unwrap_or(usize::MAX));
            buf.put_slice(&self.unread()[..count]);
            self.from += count;
            self.allowance = self.allowance.map(|allowance| allowance - count);
            if self.from == self.to {
                (self.kept, self.from, self.to) = (Spare::none(), 0, 0);
            }
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

/// Whether a connection is alive, and what it is in the middle of. It is written with every
/// request, so it does not read the clock: the watcher ([`Pulse::idle_timeout`]) looks now and
/// then, and counts from when it first saw a change.
#[derive(Default)]
pub struct Pulse {
    under_way: AtomicU32,
    answered: AtomicBool,
    /// A byte went either way since the last look.
    stirred: AtomicBool,
    /// A head has begun and is not complete.
    head: AtomicBool,
    /// How many heads were complete: tells the one that has begun from the one before.
    heads: AtomicU32,
    /// The two moments of a shutdown, as this connection was told of them.
    lingering: AtomicBool,
    closing: AtomicBool,
}

/// A request under way; ends when dropped.
pub struct UnderWay(Arc<Pulse>);

impl UnderWay {
    /// Whether the linger has begun: then its answer announces the end of the connection.
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

    /// Whether the connection has answered any request yet.
    pub fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    pub fn lingers(&self) -> bool {
        self.lingering.load(Ordering::Relaxed)
    }

    pub fn closes(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// A request was answered without hyper. Only the connection's own task calls this, so counting
    /// needs no atomic addition.
    fn answered_one(&self) {
        self.stirred.store(true, Ordering::Relaxed);
        self.answered.store(true, Ordering::Relaxed);
        self.heads.store(self.heads.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.head.store(false, Ordering::Relaxed);
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

    /// Notes the two moments of a shutdown as they come; never resolves.
    pub async fn told(&self, shutdown: &Shutdown) -> Infallible {
        let lingering = async {
            shutdown.lingering.cancelled().await;
            self.lingering.store(true, Ordering::Relaxed);
        };
        let closing = async {
            shutdown.closing.cancelled().await;
            self.closing.store(true, Ordering::Relaxed);
        };
        tokio::join!(lingering, closing);
        std::future::pending().await
    }

    /// Resolves when the connection has kept us waiting for too long, or keeps `shutdown` waiting.
    pub async fn idle_timeout(&self, protocol: Protocol, clock: &Clock, shutdown: &Shutdown) {
        let (mut last, mut head): (_, Option<(u32, Moment)>) = (clock.now(), None);
        let (mut look_every, mut patience, mut closes) = (LOOK_EVERY, limits::IDLE_WAIT, false);
        loop {
            // Until then it was allowed to be silent, so it has its time from there on.
            let begins_to_close = tokio::select! {
                () = tokio::time::sleep(look_every) => false,
                () = shutdown.closing.cancelled(), if !closes => true,
            };
            if begins_to_close {
                (look_every, patience, closes) = (LAST_LOOK_EVERY, limits::LAST_REPLY_WAIT, true);
            }
            let now = clock.now();
            let stirred = self.stirred.swap(false, Ordering::Relaxed);
            if stirred || begins_to_close || self.under_way.load(Ordering::Relaxed) > 0 {
                last = now;
            }
            let heads = self.heads.load(Ordering::Relaxed);
            head = match head.filter(|(known, _)| *known == heads) {
                _ if !self.head.load(Ordering::Relaxed) => None,
                None => Some((heads, now)),
                begun => begun,
            };
            // Frames arrive on an idle HTTP/2 connection too, so there only the idle wait applies.
            let begun = head.filter(|_| protocol == Protocol::Http1);
            if now.since(last) >= patience || begun.is_some_and(|(_, since)| now.since(since) >= limits::HEADER_WAIT)
            {
                return;
            }
        }
    }
}

/// How often a connection is checked: it may exceed its limits by at most twice this.
const LOOK_EVERY: Duration = limits::HEADER_WAIT.checked_div(2).expect("two is not zero");
/// The same at the end of the process.
const LAST_LOOK_EVERY: Duration = Duration::from_millis(500);
