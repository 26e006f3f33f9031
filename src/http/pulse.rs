//! Activity of one connection, as seen by its own task, by the watch over it, and by connections
//! that need its room.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::task::Poll;

use tokio::sync::Notify;

use crate::http::body::CredentialRefused;
use crate::http::limits;

/// Liveness and activity of a connection. It is written with every request, so it does not read the
/// clock: the watcher (`Pulse::idle_timeout`) looks now and then, and counts from when it first saw
/// a change.
#[derive(Debug, Default)]
pub struct Pulse {
    pub(super) under_way: AtomicU32,
    /// Those of them whose bodies have not arrived.
    pub(super) arriving: AtomicU32,
    pub(super) answered: AtomicBool,
    /// A byte went either way since the last look.
    pub(super) stirred: AtomicBool,
    /// A head has begun and is not complete.
    pub(super) head: AtomicBool,
    /// State of the bytes to be sent, by what the peer has taken since the last look: [`TAKES`],
    /// [`WAITS`] or [`WAITED`].
    pub(super) blocked: AtomicU8,
    /// Answers that are sent as they come, or over HTTP/2.
    pub(super) sending: AtomicU32,
    pub(super) eviction: Eviction,
    /// Number of looks under way at what has arrived, before it is perhaps closed.
    pub(super) last_looks: AtomicU8,
    pub(super) http2: AtomicBool,
    /// Number of complete heads: tells the one that has begun from the one before.
    pub(super) heads: AtomicU32,
    pub(super) refusals: Refusals,
    /// The two moments of a shutdown, as they were announced to this connection.
    pub(super) lingering: AtomicBool,
    pub(super) closing: AtomicBool,
}

/// Requests of a connection whose senders did not prove who they are.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    heads: AtomicU32,
    weight: AtomicU32,
}

/// State of a connection that may have to go because others need its room.
#[derive(Debug, Default)]
pub(super) struct Eviction {
    /// Notified when it was chosen to go.
    pub(super) wanted: Notify,
    pub(super) chosen: AtomicBool,
    /// Number of heads that were complete when it was.
    pub(super) heads: AtomicU32,
    /// It goes, and what the kernel still buffers for its peer with it.
    pub(super) gone: AtomicBool,
}

/// Nothing waits to be sent.
const TAKES: u8 = 0;
/// Something waits.
const WAITS: u8 = 1;
/// Something has waited since the last look, and the peer took nothing of it.
pub(super) const WAITED: u8 = 2;

/// A request under way; ends when dropped.
pub struct UnderWay(Arc<Pulse>);

impl UnderWay {
    /// True if the linger has begun: then its answer announces the end of the connection.
    pub fn lingers(&self) -> bool {
        self.0.lingers()
    }
}

/// A request whose body has not arrived; ends when dropped.
#[derive(Clone, Debug)]
pub struct ArrivingBody {
    _counted: Arc<Arriving>,
}

#[derive(Debug)]
struct Arriving(Arc<Pulse>);

impl Drop for Arriving {
    fn drop(&mut self) {
        self.0.arriving.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An answer being sent; ends when dropped.
#[derive(Debug)]
pub(crate) struct SendingAnswer(Arc<Pulse>);

impl Drop for SendingAnswer {
    fn drop(&mut self) {
        self.0.sending.fetch_sub(1, Ordering::Relaxed);
    }
}

/// While it lives, what has arrived is read even if the runtime does not know of it.
pub(super) struct LastLook<'a>(&'a Pulse);

impl Drop for LastLook<'_> {
    fn drop(&mut self) {
        self.0.last_looks.fetch_sub(1, Ordering::Relaxed);
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

    /// A request under way has a body, which has not arrived.
    pub(crate) fn arrives(self: &Arc<Self>) -> ArrivingBody {
        self.arriving.fetch_add(1, Ordering::Relaxed);
        ArrivingBody { _counted: Arc::new(Arriving(self.clone())) }
    }

    /// A request under way was answered by a refusal of its credential, after `heads` were counted for
    /// it: two, where the fast path read it first.
    pub(super) fn refused(&self, refused: CredentialRefused, heads: u32) {
        let weight = match refused {
            CredentialRefused::Unjudged => 0,
            CredentialRefused::Cheap => 1,
            CredentialRefused::Costly => limits::FORGED_WEIGHT,
        };
        self.refusals.heads.fetch_add(heads, Ordering::Relaxed);
        self.refusals.weight.fetch_add(weight, Ordering::Relaxed);
    }

    /// True if so many credentials were refused that the connection ends.
    pub(super) fn is_refused(&self) -> bool {
        self.refusals.weight.load(Ordering::Relaxed) >= limits::REFUSED_WEIGHT
    }

    /// Number of requests whose senders proved who they are, or did not have to.
    fn good_heads(&self) -> u32 {
        self.heads().saturating_sub(self.refusals.heads.load(Ordering::Relaxed))
    }

    /// True if the connection has answered any request yet.
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
    pub(super) fn answered_one(&self) {
        self.stirred.store(true, Ordering::Relaxed);
        self.answered.store(true, Ordering::Relaxed);
        self.heads.store(self.heads.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.head.store(false, Ordering::Relaxed);
    }

    pub(super) fn note_bytes(&self) {
        self.stirred.store(true, Ordering::Relaxed);
        if self.under_way.load(Ordering::Relaxed) == 0 {
            self.head.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn written(&self, polled: &Poll<io::Result<usize>>) {
        if matches!(polled, Poll::Ready(Ok(_))) {
            self.stirred.store(true, Ordering::Relaxed);
            if self.is_blocked() {
                self.blocked.store(TAKES, Ordering::Relaxed);
            }
        } else if polled.is_pending() && !self.is_blocked() {
            self.blocked.store(WAITS, Ordering::Relaxed);
        }
    }

    /// Number of requests with complete heads.
    pub(crate) fn heads(&self) -> u32 {
        self.heads.load(Ordering::Relaxed)
    }

    /// Rank for closing it when others need its room, the smallest first; `None` while it must
    /// stay.
    pub(crate) fn idleness(&self) -> Option<u8> {
        let (under_way, arriving) = (self.under_way.load(Ordering::Relaxed), self.arriving.load(Ordering::Relaxed));
        if under_way > arriving || self.is_chosen() {
            return None;
        }
        // Of HTTP/2 other frames arrive too.
        let begins_head = self.head.load(Ordering::Relaxed) && !self.http2.load(Ordering::Relaxed);
        let asks = self.has_answered() && !begins_head && self.good_heads() > 0;
        Some(match () {
            () if self.is_sending() => 3,
            // It has room for as long as an ordinary body takes.
            () if arriving > 0 => 1,
            () if !asks => 0,
            () if self.good_heads() < limits::FEW_REQUESTS => 1,
            () => 2,
        })
    }

    /// [`Pulse::idleness`] where memory runs out: a peer that has taken nothing since the last look of
    /// what waits for it comes first.
    pub(crate) fn held_up(&self) -> Option<u8> {
        match self.blocked.load(Ordering::Relaxed) {
            WAITED if !self.is_chosen() => return Some(0),
            WAITS => self.blocked.store(WAITED, Ordering::Relaxed),
            _ => {}
        }
        self.idleness().map(|class| class + 1)
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed) != TAKES
    }

    /// Something of an answer is yet to be sent.
    fn is_sending(&self) -> bool {
        self.is_blocked() || self.sending.load(Ordering::Relaxed) > 0
    }

    /// Begins an answer whose body is sent as it comes, or as the peer takes it.
    pub(crate) fn send(self: &Arc<Self>) -> SendingAnswer {
        self.sending.fetch_add(1, Ordering::Relaxed);
        SendingAnswer(self.clone())
    }

    /// The connection speaks HTTP/2.
    pub(crate) fn is_http2(&self) {
        self.http2.store(true, Ordering::Relaxed);
    }

    /// [`Pulse::idleness`] of a connection that speaks HTTP/2.
    pub(crate) fn idle_http2(&self) -> Option<u8> {
        self.idleness().filter(|_| self.http2.load(Ordering::Relaxed))
    }

    /// Has the connection closed, if it has completed no more than so many heads by then.
    pub(crate) fn evict(&self, heads: u32) {
        self.eviction.heads.store(heads, Ordering::Relaxed);
        self.eviction.chosen.store(true, Ordering::Relaxed);
        self.eviction.wanted.notify_one();
    }

    /// It kept us waiting. If its peer takes nothing of what waits for it, it goes as if evicted.
    pub(crate) fn give_up(&self) {
        if self.is_blocked() {
            self.eviction.gone.store(true, Ordering::Relaxed);
        }
    }

    /// Begins a look at what has arrived that the runtime may not know of.
    pub(super) fn last_look(&self) -> LastLook<'_> {
        self.last_looks.fetch_add(1, Ordering::Relaxed);
        LastLook(self)
    }

    pub(super) fn asks_kernel(&self) -> bool {
        self.last_looks.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn is_chosen(&self) -> bool {
        self.eviction.chosen.load(Ordering::Relaxed)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.eviction.gone.load(Ordering::Relaxed)
    }
}
