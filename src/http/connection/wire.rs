//! A connection's bytes before hyper sees them: which protocol they speak, and what is held of them.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::bodies::Reserved;
use crate::http::connection::spare::Spare;
use crate::http::kernel_buffers::KernelBuffers;
use crate::http::limits;
use crate::http::pulse::{Pulse, UnderWay};

/// Preface by a client with prior knowledge of HTTP/2 (RFC 9113, 3.4).
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
    buffers: KernelBuffers<S>,
    /// [`limits::WIRE_BYTES`] long; empty while there is nothing to keep.
    kept: Spare,
    from: usize,
    to: usize,
    /// Bytes that hyper may still read; without a limit unless it is given one request only.
    allowance: Option<usize>,
    /// hyper asked for more than it was allowed.
    came_back: bool,
    pulse: Arc<Pulse>,
    /// Addition to this connection's cost: the bytes of an incomplete head, or HTTP/2.
    reserved: Reserved,
    /// Bytes that hyper has read of a head, and how many heads were complete before it.
    of_head: usize,
    heads: u32,
}

impl<S: AsyncRead + Unpin> Wire<S> {
    /// Reads until the bytes are the preface or cannot become it.
    pub async fn sniff(
        stream: S,
        buffers: KernelBuffers<S>,
        pulse: Arc<Pulse>,
        reserved: Reserved,
    ) -> io::Result<(Protocol, Self)> {
        let kept = Spare::none();
        let (allowance, came_back) = (None, false);
        let (of_head, heads) = (0, 0);
        let (from, to) = (0, 0);
        let mut wire =
            Self { stream, buffers, kept, from, to, allowance, came_back, pulse, reserved, of_head, heads };
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
            let polled = self.buffers.poll_read(&mut self.stream, &self.pulse, cx, &mut room);
            let count = room.filled().len();
            if polled.is_pending() {
                self.waits()?;
            }
            ready!(polled)?;
            self.to += count;
            if count > 0 {
                self.pulse.note_bytes();
            }
            Poll::Ready(Ok(count > 0))
        })
        .await
    }

    /// A connection that waits gives its buffer back, or has it counted.
    fn waits(&mut self) -> io::Result<()> {
        if self.from == self.to {
            self.kept = Spare::none();
            self.reserved.shrink_to(0);
        } else if !self.reserved.grow_to(limits::WIRE_BYTES as u64) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(())
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
    /// Bytes that arrived and were not taken.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.kept[self.from..self.to]
    }

    /// True if nothing more can be read before something is taken.
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

    /// Counts what hyper has read while it waits for the rest of a head: its buffer grows to twice
    /// that. What HTTP/2 holds is reserved as a whole.
    fn count_head(&mut self, count: usize) -> io::Result<()> {
        self.forget_complete_head();
        if self.pulse.under_way.load(Ordering::Relaxed) > 0 || self.pulse.http2.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.of_head = (self.of_head + count).min(limits::REQUEST_HEAD_BYTES);
        let bytes = (2 * self.of_head).next_multiple_of(limits::WIRE_BYTES);
        if self.reserved.grow_to(bytes as u64) { Ok(()) } else { Err(io::ErrorKind::OutOfMemory.into()) }
    }

    /// Gives back what a head was counted for that is complete. Of what came with it no more than one
    /// read is left.
    fn forget_complete_head(&mut self) {
        let heads = self.pulse.heads();
        if self.heads != heads {
            (self.heads, self.of_head) = (heads, 0);
            self.reserved.shrink_to(0);
        }
    }

    /// True if hyper was done with what it was allowed, and would have continued with the
    /// connection.
    pub(crate) fn goes_on(&self) -> bool {
        self.came_back
    }
}

impl<S: AsyncWrite + Unpin> Wire<S> {
    /// Ends a stream that hyper does not end. TLS has to say so, or its peer sees a truncated answer;
    /// a peer that takes nothing is not waited for.
    pub(super) async fn end(mut self) {
        poll_fn(|cx| {
            // Whatever comes of it, the connection is dropped next.
            let _ = Pin::new(&mut self.stream).poll_shutdown(cx);
            Poll::Ready(())
        })
        .await;
    }
}

impl<S> Drop for Wire<S> {
    /// A connection that has to go takes its buffers in the kernel with it. These would else wait for
    /// minutes for a peer who reads nothing, in nobody's budget.
    fn drop(&mut self) {
        if self.pulse.is_gone() {
            self.buffers.discard(&self.stream);
        }
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
        let count = ready!(self.read_into(cx, buf))?;
        if count > 0 {
            self.pulse.note_bytes();
            self.count_head(count)?;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> Wire<S> {
    /// Reads for hyper; of HTTP/1.1 [`limits::WIRE_BYTES`] at most, so that no more than that can
    /// follow the head or body that ends with it, unseen.
    fn read_into(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        let Self { stream, buffers, pulse, .. } = self;
        if buf.remaining() <= limits::WIRE_BYTES || pulse.http2.load(Ordering::Relaxed) {
            let before = buf.filled().len();
            ready!(buffers.poll_read(stream, pulse, cx, buf))?;
            return Poll::Ready(Ok(buf.filled().len() - before));
        }
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(limits::WIRE_BYTES));
        ready!(buffers.poll_read(stream, pulse, cx, &mut part))?;
        let count = part.filled().len();
        buf.advance(count);
        Poll::Ready(Ok(count))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.forget_complete_head();
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.pulse.written(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.forget_complete_head();
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::pin::pin;

    use futures_util::{FutureExt, poll};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::net::TcpStream;

    use super::*;
    use crate::http::bodies::ByteBudget;

    /// A connection that hyper reads, and the caller's end of it.
    async fn connected(budget: &Arc<ByteBudget>, pulse: &Arc<Pulse>) -> (DuplexStream, Wire<DuplexStream>) {
        let (mut caller, stream) = duplex(64 << 10);
        caller.write_all(b"G").await.unwrap();
        let (_, mut wire) =
            Wire::sniff(stream, KernelBuffers::NONE, pulse.clone(), budget.reserve(0).unwrap()).await.unwrap();
        assert_eq!(wire.read(&mut [0; 9]).await.unwrap(), 1);
        (caller, wire)
    }

    async fn read(wire: &mut Wire<DuplexStream>, mut bytes: usize) {
        let mut room = vec![0; 64 << 10];
        while bytes > 0 {
            bytes -= wire.read(&mut room).await.unwrap();
        }
    }

    #[tokio::test]
    async fn requests_on_connection_do_not_accumulate() {
        let (budget, pulse) = (ByteBudget::new(1 << 20), Arc::new(Pulse::default()));
        let (mut caller, mut wire) = connected(&budget, &pulse).await;
        for _ in 0..100 {
            // A head, and the body that came with it.
            caller.write_all(&[b'x'; 3000]).await.unwrap();
            read(&mut wire, 3000).await;
            assert!((6000..=16 << 10).contains(&budget.held()), "{}", budget.held());
            drop(pulse.begin());
        }
        assert_eq!(wire.write(b"x").await.unwrap(), 1);
        assert_eq!(budget.held(), 0, "an answer is sent");
    }

    #[tokio::test]
    async fn growing_head_is_counted() {
        let (budget, pulse) = (ByteBudget::new(1 << 20), Arc::new(Pulse::default()));
        let (mut caller, mut wire) = connected(&budget, &pulse).await;
        for kib in 1..=30 {
            caller.write_all(&[b'x'; 1 << 10]).await.unwrap();
            read(&mut wire, 1 << 10).await;
            assert!(budget.held() >= (2 * kib) << 10, "{kib}");
        }
        // What comes beside a body is no head.
        let under_way = pulse.begin();
        caller.write_all(&[b'x'; 30 << 10]).await.unwrap();
        read(&mut wire, 30 << 10).await;
        assert_eq!(budget.held(), 0);
        drop(under_way);
    }

    #[tokio::test]
    async fn one_read_is_bounded_by_buffer() {
        let (budget, pulse) = (ByteBudget::new(1 << 20), Arc::new(Pulse::default()));
        let (mut caller, mut wire) = connected(&budget, &pulse).await;
        caller.write_all(&[b'x'; 30 << 10]).await.unwrap();
        assert_eq!(wire.read(&mut vec![0; 64 << 10]).await.unwrap(), limits::WIRE_BYTES);
    }

    /// The runtime asks the kernel only when the test awaits something, which it does not.
    #[tokio::test]
    async fn pending_kernel_bytes_read_before_close() {
        let (budget, pulse) = (ByteBudget::new(1 << 20), Arc::new(Pulse::default()));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut caller = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = listener.accept().unwrap().0;
        accepted.set_nonblocking(true).unwrap();
        let stream = TcpStream::from_std(accepted).unwrap();
        caller.write_all(b"GET").unwrap();

        let mut sniff = pin!(Wire::sniff(stream, KernelBuffers::TCP, pulse.clone(), budget.reserve(0).unwrap()));
        assert!(poll!(&mut sniff).is_pending());
        let mut looks = Box::pin(pulse.what_has_come_is_read());
        assert!(poll!(&mut looks).is_pending());
        let Poll::Ready(Ok((_, mut wire))) = poll!(&mut sniff) else { panic!("nothing was read") };
        while poll!(&mut looks).is_pending() {}
        assert_eq!(wire.unread(), b"GET");

        let mut room = [0; 16];
        assert_eq!(wire.read(&mut room).now_or_never().unwrap().unwrap(), 3);
        caller.write_all(b" /one").unwrap();
        assert!(poll!(pin!(wire.read(&mut room))).is_pending());
        let mut looks = Box::pin(pulse.what_has_come_is_read());
        assert!(poll!(&mut looks).is_pending());
        assert_eq!(wire.read(&mut room).now_or_never().expect("hyper reads it too").unwrap(), 5);
        assert!(poll!(pin!(wire.read(&mut room))).is_pending(), "there is no more");
        drop(caller);
        assert_eq!(wire.read(&mut room).now_or_never().expect("the end too").unwrap(), 0);
    }
}
