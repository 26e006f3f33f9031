//! Plain HTTP/1.1 requests without hyper, from the bytes read to the bytes written. A hit then
//! costs a read, a lookup and a write, and fills no header table. Where the store has nothing, the
//! answer is awaited here and written the same way. `listen.fast = false` switches this off.
//! `docs/decisions/0008-hits-without-hyper.md` says why it is worth a path of its own.
//!
//! What is not answered here stays in the wire, untouched, from its first byte. Answers go out in
//! order.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use tokio::io::{AsyncRead, AsyncWrite};

use http::HeaderValue;

use crate::access::credentials::Credentials;
use crate::access::gate::{Gate, Ruling, Turn};
use crate::cache::entry::Validity;
use crate::http::admission::{Admission, Head, Refusal};
use crate::http::connection::spare::Spare;
use crate::http::connection::wire::Wire;
use crate::http::connection::{FastPath, Next, Via};
use crate::http::limits::ANSWERS_BYTES;
use crate::http::pulse::Pulse;
use crate::http::server_tls::peer::PeerCertificate;
use crate::request::answer::{Outcome, respond};
use crate::request::caller::Caller;
use crate::request::current::Current;
use crate::request::gated::{Gated, is_behind};
use crate::request::lookup::lookup;
use crate::request::serve::{after_a_look, at_once, execute_plan, serve};
use crate::request::settings::Settings;
use crate::shape::shown::Shown;

pub mod plain;
pub mod write;

use plain::{Parsed, Plain};

/// Progress of the answers.
enum Taken {
    /// To the end of what has arrived.
    Short,
    /// So far that they should be sent first, followed by this body.
    Enough(Option<Bytes>),
    /// To a request of this many bytes that the store does not answer; the future that will.
    Asked(usize, BoxFuture<'static, Outcome>),
    /// To something else.
    Left(Next),
}

/// Answers plain requests: the settings, or what stands for them where only the reading is tried.
pub trait Answers: Send + Sync + 'static {
    fn admission(&self) -> &Admission;

    /// The regions' names.
    fn names(&self) -> &[String];

    /// True if plain requests are answered here at all.
    fn is_fast(&self) -> bool;

    /// Looks up the stored answer, or returns the future that will have one. `caller` is remembered
    /// for the next request with the same lines; `peer` is the certificate that it presented.
    fn find(
        self: &Arc<Self>,
        caller: &mut Option<Caller>,
        peer: Option<&Arc<PeerCertificate>>,
        head: Head<'_>,
    ) -> Result<Shown, BoxFuture<'static, Outcome>>;
}

impl Answers for Settings {
    fn admission(&self) -> &Admission {
        &self.admission
    }

    fn names(&self) -> &[String] {
        &self.fill.shared.names
    }

    fn is_fast(&self) -> bool {
        self.fill.config.listen.fast
    }

    fn find(
        self: &Arc<Self>,
        caller: &mut Option<Caller>,
        peer: Option<&Arc<PeerCertificate>>,
        head: Head<'_>,
    ) -> Result<Shown, BoxFuture<'static, Outcome>> {
        let caller = caller.get_or_insert_with(|| Caller::of(head.headers));
        if let Some(gate) = &self.shared.gate {
            self.pass_gate(gate, caller, peer, head)?;
        }
        at_once(self, lookup(self, caller, head, false)).map_err(|found| {
            let Some(held) = self.admission.hold() else {
                self.fill.shared.metrics.requests.refused(Refusal::Crowded.reason());
                return ready(Outcome::Refused(Refusal::Crowded)).boxed();
            };
            let asked = execute_plan(self.clone(), found, head.admitted());
            let stated = stated_to(caller).cloned();
            async move {
                let _held = held;
                asked.await.stating(stated)
            }
            .boxed()
        })
    }
}

impl Settings {
    /// Decides about a request at a node. The future answers it if that takes time, or if it is denied.
    fn pass_gate(
        self: &Arc<Self>,
        gate: &Arc<Gate>,
        caller: &mut Caller,
        peer: Option<&Arc<PeerCertificate>>,
        head: Head<'_>,
    ) -> Result<(), BoxFuture<'static, Outcome>> {
        let memory = caller.gate.get_or_insert_default();
        let credentials = Credentials::of(head.headers, peer.map(Arc::as_ref));
        let Gated { ruling, newer } = memory.ask(gate, head.method, head.path(), credentials, Turn::First);
        let pending = match ruling {
            Ruling::Decided(Err(denial)) => {
                return Err(ready(Outcome::Denied(denial).stating(memory.stated().cloned())).boxed());
            }
            Ruling::Decided(Ok(())) if !is_behind(gate, newer) => return Ok(()),
            Ruling::Decided(Ok(())) => None,
            Ruling::Pending(pending) => Some(pending),
        };
        let Some(held) = self.admission.hold() else {
            self.fill.shared.metrics.requests.refused(Refusal::Crowded.reason());
            return Err(ready(Outcome::Refused(Refusal::Crowded)).boxed());
        };
        let (settings, gate, peer) = (self.clone(), gate.clone(), peer.cloned());
        let (admitted, stated) = (head.admitted(), memory.stated().cloned());
        Err(async move {
            let _held = held;
            match pending {
                Some(pending) => match pending.await {
                    Ok(()) if is_behind(&gate, newer) => after_a_look(settings, gate, admitted, peer).await,
                    Ok(()) => serve(&settings, admitted).await.stating(stated),
                    Err(denial) => Outcome::Denied(denial).stating(stated),
                },
                None => after_a_look(settings, gate, admitted, peer).await,
            }
        }
        .boxed())
    }
}

/// The line by which answers to this caller state the grants, at a node.
#[inline]
fn stated_to(caller: &Caller) -> Option<&HeaderValue> {
    caller.gate.as_ref().and_then(|memory| memory.stated())
}

/// One connection's plain requests.
pub struct Hits<T = Settings> {
    current: Arc<Current<T>>,
    settings: Arc<T>,
    /// Number of replacements of [`Current`] when `settings` was taken.
    replaced: u64,
    plain: Plain,
    /// The caller whose lines are in `plain`.
    caller: Option<Caller>,
    /// Certificate that the connection's caller presented.
    peer: Option<Arc<PeerCertificate>>,
}

impl<T> Hits<T> {
    fn new(current: Arc<Current<T>>, peer: Option<Arc<PeerCertificate>>) -> Self {
        let replaced = current.replaced();
        let settings = current.load_full();
        Self { current, settings, replaced, plain: Plain::default(), caller: None, peer }
    }

    /// Switches to the newest settings. Lines admitted under the old one are checked again.
    fn renew(&mut self) {
        let replaced = self.current.replaced();
        if self.replaced != replaced {
            self.replaced = replaced;
            self.settings = self.current.load_full();
            self.plain = Plain::default();
            self.caller = None;
        }
    }
}

impl<T: Answers> FastPath for Arc<Current<T>> {
    type Kept = Hits<T>;

    fn begin(&self, peer: Option<&Arc<PeerCertificate>>) -> Hits<T> {
        Hits::new(self.clone(), peer.cloned())
    }

    async fn answer<S>(hits: &mut Hits<T>, wire: &mut Wire<S>, via: Via) -> io::Result<Next>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        loop {
            let mut out = Spare::to_write();
            let taken = hits.take(wire, via, &mut out);
            if !out.is_empty() {
                after_the_others(wire.pulse()).await;
                let body = if let Taken::Enough(Some(body)) = &taken { &body[..] } else { &[] };
                send(wire, &out, body).await?;
            }
            drop(out);
            match taken {
                Taken::Enough(_) => {}
                Taken::Asked(len, outcome) => {
                    if let Some(next) = hits.ask(wire, len, outcome).await? {
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

impl<T: Answers> Hits<T> {
    /// Answers a request of `len` bytes once its outcome is there. A caller who hangs up meanwhile
    /// is noticed when the answer is sent. hyper does the same: it reads nothing before that
    /// (`half_close`).
    async fn ask<S>(
        &self,
        wire: &mut Wire<S>,
        len: usize,
        outcome: BoxFuture<'static, Outcome>,
    ) -> io::Result<Option<Next>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let names = self.settings.names();
        let under_way = wire.begin();
        let (outcome, stated) = outcome.await.unstated();
        let shown = match outcome {
            // Left to hyper: a reply that may not be stored, which is as the region sent it,
            // perhaps without a date; and an answer that announces the end of the connection.
            Outcome::Shown(shown)
                if !matches!(shown.entry.validity, Validity::Uncacheable) && !under_way.lingers() =>
            {
                shown
            }
            outcome => return Ok(Some(Next::One(len, Box::new(respond(outcome.stating(stated), names))))),
        };
        drop(under_way);
        let mut out = Spare::to_write();
        let body = write::put(&shown, stated.as_ref(), names, &mut out);
        wire.answered(len);
        send(wire, &out, body.as_deref().unwrap_or_default()).await?;
        Ok(None)
    }

    /// Appends the answers to what has arrived to `out`, as far as they fit.
    fn take<S>(&mut self, wire: &mut Wire<S>, via: Via, out: &mut Vec<u8>) -> Taken {
        while out.len() < ANSWERS_BYTES {
            self.renew();
            let Self { settings, plain, caller, peer, .. } = self;
            // The end of the connection is announced by hyper, with an answer.
            if wire.pulse().lingers() || !settings.is_fast() {
                return Taken::Left(Next::All);
            }
            let parsed = plain.read(wire.unread(), |headers| {
                // These lines are new.
                *caller = None;
                settings.admission().admits(headers, via)
            });
            let (head, len) = match parsed {
                Parsed::Plain(head, len) => (head, len),
                Parsed::Part => return Taken::Short,
                Parsed::Other => return Taken::Left(Next::All),
            };
            let shown = match settings.find(caller, peer.as_ref(), head) {
                Ok(shown) => shown,
                Err(asked) => return Taken::Asked(len, asked),
            };
            let body = write::put(&shown, caller.as_ref().and_then(stated_to), settings.names(), out);
            wire.answered(len);
            if body.is_some() {
                return Taken::Enough(body);
            }
        }
        Taken::Enough(None)
    }
}

thread_local! {
    /// The connection that this thread answered last, by its pulse's address.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

/// Lets all connections whose requests came at the same time be read first. Then their answers go
/// out one right after the other, and a caller who waits for several is woken once instead of once
/// for each. A connection that is alone does not wait.
async fn after_the_others(pulse: &Pulse) {
    let me = std::ptr::from_ref(pulse).addr();
    let mut waits = LAST.replace(me) != me;
    poll_fn(|cx| {
        if !std::mem::take(&mut waits) {
            return Poll::Ready(());
        }
        // Moves this task to the end of the queue of ready ones.
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

/// Sends all of `head` and `body`, one after the other, and has what the stream itself buffers sent
/// too: TLS holds a record until it is flushed.
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
        Pin::new(&mut *wire).poll_flush(cx)
    })
    .await
}

#[cfg(test)]
mod tests;
