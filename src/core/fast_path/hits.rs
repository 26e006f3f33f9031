//! Owns how a connection's plain requests are answered without hyper: read, look up, write; and, where the store has
//! nothing, wait for what is asked for, and write that.
//!
//! Before it: [`crate::http::connection::http1`] has a connection between two requests. After it: either the connection is at its end, or a
//! request is next that is not plain, or whose answer is none that could have been stored: both are hyper's. A hit then
//! costs a read, a look-up and a write: no table of headers is filled, for the request or for the answer
//! ([`crate::core::fast_path::plain`], [`crate::core::fast_path::write`]). Why it is worth a way of its own:
//! `docs/decisions/0008-hits-without-hyper.md`.
//!
//! Invariant: what is not answered here is left in the wire, untouched, from its first byte; answers go out in order.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::cache::entry::Hold;
use crate::core::answer::{Outcome, Shown, respond};
use crate::core::fast_path::plain::{Found, Plain};
use crate::core::fast_path::write;
use crate::core::lookup::Asking;
use crate::http::admission::{Door, Head};
use crate::http::connection::wire::{Pulse, Spare, Wire};
use crate::http::connection::{FastPath, Next, Via};
use crate::http::limits::ANSWERS_BYTES;

/// Who is let in, what is stored, and who is asked for the rest: all that it takes to answer a plain request.
#[derive(Clone)]
pub struct AtOnce {
    /// The door that hyper's requests pass too.
    pub door: Arc<Door>,
    /// What is stored and may be served as it is.
    pub stored: Arc<Stored>,
    /// What becomes of a request that the store does not answer.
    pub asked: Arc<Asked>,
    /// The regions' names.
    pub names: Arc<[String]>,
}

/// [`AtOnce`] as the newest configuration has it, for all connections.
pub struct Newest {
    at_once: ArcSwap<AtOnce>,
    /// How often it was replaced: all that a request looks at.
    replaced: AtomicU64,
}

impl Newest {
    /// The first.
    pub fn new(at_once: AtOnce) -> Self {
        Self { at_once: ArcSwap::from_pointee(at_once), replaced: AtomicU64::new(0) }
    }

    /// Every request that is read from now on is answered by this.
    pub fn replace(&self, at_once: AtOnce) {
        self.at_once.store(Arc::new(at_once));
        self.replaced.fetch_add(1, Ordering::Release);
    }
}

/// Looks a request up. What its lines ask for is kept beside them for the next one with the same lines.
pub type Stored = dyn Fn(Head<'_>, &mut Option<Asking>) -> Option<Shown> + Send + Sync;

/// Serves a request, from its beginning: somebody has to be asked. Dropping what it waits for cancels no fill.
pub type Asked = dyn Fn(Head<'_>, &Option<Asking>) -> BoxFuture<'static, Outcome> + Send + Sync;

/// How far the answers came.
enum Taken {
    /// To the end of what has come.
    Short,
    /// So far that they are to be sent first, with this body behind them.
    Enough(Option<Bytes>),
    /// To a request of so many bytes that the store does not answer; what will.
    Asked(usize, BoxFuture<'static, Outcome>),
    /// To something else.
    Left(Next),
}

/// One connection's plain requests.
pub struct Hits {
    newest: Arc<Newest>,
    at_once: Arc<AtOnce>,
    /// How often [`Newest`] had been replaced when it was taken.
    replaced: u64,
    plain: Plain,
    asking: Option<Asking>,
}

/// Each connection begins anew.
impl Clone for Hits {
    fn clone(&self) -> Self {
        Self::new(self.newest.clone())
    }
}

impl FastPath for Hits {
    async fn answer<S>(&mut self, wire: &mut Wire<S>, via: Via) -> io::Result<Next>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        loop {
            let mut out = Spare::to_write();
            let taken = self.take(wire, via, &mut out);
            if !out.is_empty() {
                after_the_others(wire.pulse()).await;
                let body = if let Taken::Enough(Some(body)) = &taken { &body[..] } else { &[] };
                send(wire, &out, body).await?;
            }
            drop(out);
            match taken {
                Taken::Enough(_) => {}
                Taken::Asked(len, outcome) => {
                    if let Some(next) = self.ask(wire, len, outcome).await? {
                        return Ok(next);
                    }
                }
                Taken::Left(next) => return Ok(next),
                Taken::Short if wire.is_full() => return Ok(Next::All),
                Taken::Short => {
                    if !wire.fill().await? {
                        return Ok(Next::Gone);
                    }
                }
            }
        }
    }
}

impl Hits {
    /// None answered yet.
    pub fn new(newest: Arc<Newest>) -> Self {
        let replaced = newest.replaced.load(Ordering::Acquire);
        let at_once = newest.at_once.load_full();
        Self { newest, at_once, replaced, plain: Plain::default(), asking: None }
    }

    /// Takes what the newest configuration has. Lines that were let in before it are checked again.
    fn renew(&mut self) {
        let replaced = self.newest.replaced.load(Ordering::Acquire);
        if self.replaced != replaced {
            self.replaced = replaced;
            self.at_once = self.newest.at_once.load_full();
            self.plain = Plain::default();
            self.asking = None;
        }
    }

    /// Answers a request of `len` bytes when its outcome has come. A caller who hangs up meanwhile is noticed when the
    /// answer is sent, as by hyper, which reads nothing before that (`half_close`).
    async fn ask<S>(
        &self,
        wire: &mut Wire<S>,
        len: usize,
        outcome: BoxFuture<'static, Outcome>,
    ) -> io::Result<Option<Next>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let names = &self.at_once.names;
        let under_way = wire.begin();
        let outcome = outcome.await;
        let shown = match outcome {
            // What may not be stored is as the region sent it, perhaps without a date: that, and a goodbye, are hyper's.
            Outcome::Shown(shown) if !matches!(shown.entry.hold, Hold::Passing) && !under_way.lingers() => shown,
            outcome => return Ok(Some(Next::One(len, Box::new(respond(outcome, names))))),
        };
        drop(under_way);
        let mut out = Spare::to_write();
        let body = write::put(&shown, names, &mut out);
        wire.answered(len);
        send(wire, &out, body.as_deref().unwrap_or_default()).await?;
        Ok(None)
    }

    /// Appends the answers to what has come to `out`, as far as they fit.
    fn take<S>(&mut self, wire: &mut Wire<S>, via: Via, out: &mut Vec<u8>) -> Taken {
        while out.len() < ANSWERS_BYTES {
            self.renew();
            let Self { at_once, plain, asking, .. } = self;
            // A goodbye is said by hyper, with an answer.
            if wire.pulse().lingers() {
                return Taken::Left(Next::All);
            }
            let admits = |headers: &HeaderMap| {
                // These lines were not seen before.
                *asking = None;
                at_once.door.admits(headers, via)
            };
            let (head, len) = match plain.read(wire.unread(), admits) {
                Found::Plain(head, len) => (head, len),
                Found::Part => return Taken::Short,
                Found::Other => return Taken::Left(Next::All),
            };
            let Some(shown) = (at_once.stored)(head, asking) else {
                return Taken::Asked(len, (at_once.asked)(head, asking));
            };
            let body = write::put(&shown, &at_once.names, out);
            wire.answered(len);
            if body.is_some() {
                return Taken::Enough(body);
            }
        }
        Taken::Enough(None)
    }
}

thread_local! {
    /// Which connection this thread answered last, by its pulse's address.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

/// Lets every connection whose request came at the same time be read first. Then their answers go out one right behind
/// the other, and a caller who waits for them is woken once, not for each. A caller who is alone does not wait.
async fn after_the_others(pulse: &Pulse) {
    let me = std::ptr::from_ref(pulse).addr();
    let mut waits = LAST.replace(me) != me;
    poll_fn(|cx| {
        if !std::mem::take(&mut waits) {
            return Poll::Ready(());
        }
        // To the end of the queue of those that are ready.
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

/// Sends `head` and `body` whole, one behind the other.
async fn send<S: AsyncWrite + Unpin>(wire: &mut Wire<S>, head: &[u8], body: &[u8]) -> io::Result<()> {
    let (mut sent, all) = (0, head.len() + body.len());
    poll_fn(|cx| {
        while sent < all {
            let wire = Pin::new(&mut *wire);
            let polled = match head.get(sent..) {
                Some(rest) if body.is_empty() => wire.poll_write(cx, rest),
                Some(rest) if !rest.is_empty() => {
                    wire.poll_write_vectored(cx, &[IoSlice::new(rest), IoSlice::new(body)])
                }
                _ => wire.poll_write(cx, &body[sent - head.len()..]),
            };
            match std::task::ready!(polled)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => sent += count,
            }
        }
        Poll::Ready(Ok(()))
    })
    .await
}
