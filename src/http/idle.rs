//! Ends of connections that wait for too long or have to make room.
//!
//! hyper's own header timeout runs from the end of the last answer, so it cannot tell a caller who
//! idles from one who drips a head; [`Pulse`] can. A connection without a request under way is
//! closed `HEADER_WAIT` after the first byte of a head, or `IDLE_WAIT` after the last byte either
//! way (of HTTP/2, answers to our PINGs included); at most `HEADER_WAIT` later than that, never
//! earlier. At the end of the process `LAST_REPLY_WAIT` is all that silence may last, and a peer
//! that keeps us waiting is given up before the drain's deadline.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::http::connection::Shutdown;
use crate::http::limits;
use crate::http::pulse::{Pulse, WAITED};
use crate::tasks::Tasks;

impl Pulse {
    /// Notes the two moments of a shutdown as they come; never resolves.
    pub async fn closed(&self, shutdown: &Shutdown) -> Infallible {
        let lingering = async {
            shutdown.lingering.cancelled().await;
            self.lingering.store(true, Ordering::Relaxed);
        };
        let closing = async {
            shutdown.closing.cancelled().await;
            self.what_has_come_is_read().await;
            self.closing.store(true, Ordering::Relaxed);
        };
        tokio::join!(lingering, closing);
        std::future::pending().await
    }

    /// Resolves when the connection has kept us waiting for too long, or keeps the drain of `tasks`
    /// waiting.
    pub async fn idle_timeout(&self, tasks: &Tasks) {
        let (mut last, mut head): (_, Option<(u32, Instant)>) = (Instant::now(), None);
        let (mut look_every, mut silence, mut drain) = (LOOK_EVERY, limits::IDLE_WAIT, None);
        loop {
            // Until then it was allowed to be silent, so it has its time from there on.
            let begun = tokio::select! {
                () = tokio::time::sleep(look_every) => None,
                draining = tasks.draining(), if drain.is_none() => Some(draining),
            };
            if let Some(draining) = begun {
                (look_every, silence) =
                    (draining.look_every(LAST_LOOK_EVERY), draining.silence(limits::LAST_REPLY_WAIT));
                drain = begun;
            }
            let now = Instant::now();
            let stirred = self.stirred.swap(false, Ordering::Relaxed);
            let is_under_way = self.under_way.load(Ordering::Relaxed) > 0;
            if stirred || begun.is_some() || is_under_way {
                last = now;
            }
            // However busy the peer is, it is all that is waited for.
            if !is_under_way && drain.is_some_and(|draining| now >= draining.given_up_at()) {
                return;
            }
            let heads = self.heads.load(Ordering::Relaxed);
            head = match head.filter(|(known, _)| *known == heads) {
                _ if !self.head.load(Ordering::Relaxed) => None,
                None => Some((heads, now)),
                begun => begun,
            };
            // Frames arrive on an idle HTTP/2 connection too, so there only the idle wait applies; and who
            // still takes an answer has as long for the next head.
            let begun = head.filter(|_| !self.http2.load(Ordering::Relaxed));
            let most = if self.is_blocked() { limits::IDLE_WAIT } else { limits::HEADER_WAIT };
            let drips = begun.is_some_and(|(_, since)| now - since >= most);
            if !drips && now - last < silence {
                continue;
            }
            self.what_has_come_is_read().await;
            if self.heads() == heads && (drips || !self.stirred.load(Ordering::Relaxed)) {
                return;
            }
        }
    }

    /// Resolves when the connection has to go, unless a request has come since that was decided.
    pub(crate) async fn evicted(&self) {
        loop {
            self.eviction.wanted.notified().await;
            self.what_has_come_is_read().await;
            let [under_way, arriving] = [&self.under_way, &self.arriving].map(|count| count.load(Ordering::Relaxed));
            let has_asked = under_way > arriving || self.heads() != self.eviction.heads.load(Ordering::Relaxed);
            // Who has taken nothing for a while is closed whatever it asks.
            if self.blocked.load(Ordering::Relaxed) == WAITED || !has_asked {
                return self.eviction.gone.store(true, Ordering::Relaxed);
            }
            self.eviction.chosen.store(false, Ordering::Relaxed);
        }
    }

    /// Has what is polled beside it read all that has arrived. Who closes a connection while a
    /// request waits in the kernel, which a machine that was held up may have overlooked, makes that
    /// request fail at a caller who did nothing wrong.
    pub(crate) async fn what_has_come_is_read(&self) {
        let _look = self.last_look();
        // What is beside it is polled between the two, and perhaps before the first.
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
    }
}

/// Time between two looks at a connection: it may exceed its limits by at most twice this.
const LOOK_EVERY: Duration = limits::HEADER_WAIT.checked_div(2).expect("two is not zero");
/// Time between two looks at the end of the process.
const LAST_LOOK_EVERY: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Poll;

    use super::*;

    /// Returns whether a connection goes that asked as it was chosen.
    async fn goes(pulse: &Arc<Pulse>) -> bool {
        pulse.evict(pulse.heads());
        drop(pulse.begin());
        let goes = tokio::time::timeout(limits::ROOM_WAIT, pulse.evicted()).await.is_ok();
        assert_eq!((pulse.is_gone(), pulse.is_chosen()), (goes, goes));
        goes
    }

    #[tokio::test(start_paused = true)]
    async fn request_spares_chosen_connection_unless_stalled() {
        let pulse = Arc::new(Pulse::default());
        assert!(!goes(&pulse).await);
        pulse.written(&Poll::Pending);
        assert!(!goes(&pulse).await, "its answer has just begun to wait");
        // Memory ran out, and it has taken nothing since.
        pulse.held_up();
        assert!(goes(&pulse).await);
    }
}
