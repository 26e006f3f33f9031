//! Connections that peers hold open, and the memory that they make the process hold.
//!
//! Idle connections cost a fixed amount each, so their number is bounded. What a peer adds (half a
//! head, HTTP/2, requests under way) is reserved from a budget as it arrives. When connections or
//! memory run out, those that keep us waiting are closed, longest first, so that callers who ask
//! for something still get in.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::http::bodies::{ByteBudget, Reserved};
use crate::http::limits;
use crate::http::pulse::Pulse;
use crate::tasks::permits::Permits;
use crate::telemetry::metrics::operations::Budget;

/// The open connections of a process's port, and their budget.
pub struct Peers {
    budget: Arc<ByteBudget>,
    open: Mutex<Vec<Open>>,
    /// Time of the last look for connections to close so that others are accepted.
    made_room: Mutex<Option<Instant>>,
    /// Counts scans and arrivals: an order without a clock.
    order: AtomicU64,
    /// Counts what found no room, by the budget's name.
    over_budget: Box<dyn Fn(Budget) + Send + Sync>,
}

#[derive(Debug)]
struct Open {
    pulse: Weak<Pulse>,
    /// Number of requests it had sent at the look.
    heads: u32,
    /// Look at which it was last seen to have sent another, and the looks since.
    since: u64,
    looks: u32,
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").field("budget", &self.budget).finish_non_exhaustive()
    }
}

impl Peers {
    /// Lets peers add up to `bytes` to what their connections cost. `over_budget` counts requests
    /// that found no room, and connections that were closed or refused for lack of it.
    pub fn new(bytes: u64, over_budget: impl Fn(Budget) + Send + Sync + 'static) -> Arc<Self> {
        // What grows is half sent: it leaves to complete requests what these alone may take.
        let budget = ByteBudget::with_room_for_small(bytes, 0, bytes / limits::COMPLETE_SHARE);
        let over_budget = Box::new(over_budget);
        Arc::new(Self {
            budget,
            open: Mutex::default(),
            made_room: Mutex::default(),
            order: AtomicU64::new(0),
            over_budget,
        })
    }

    /// A reservation that grows with what one connection adds.
    pub(crate) fn nothing(&self) -> Option<Reserved> {
        self.budget.reserve(0)
    }

    /// Reserves what a request under way takes. One that is not complete leaves a quarter of the
    /// budget to those that are, since those end by themselves.
    pub fn request(&self, head_bytes: usize, is_complete: bool) -> Option<Reserved> {
        let bytes = limits::REQUEST_BYTES + 2 * head_bytes as u64;
        let left = if is_complete { 0 } else { self.budget.limit() / limits::COMPLETE_SHARE };
        let reserved = self.budget.reserve_leaving(bytes, left);
        if reserved.is_none() {
            (self.over_budget)(Budget::Requests);
        }
        reserved
    }

    /// Reserves what HTTP/2 takes on a connection, and says how many streams it may open. Closes
    /// idle ones of HTTP/2 if there is no room.
    pub(crate) async fn http2(&self, pulse: &Pulse) -> Option<(Reserved, u32)> {
        let (least, most) = (limits::LEAST_STREAMS_PER_CONNECTION, limits::STREAMS_PER_CONNECTION);
        // They may last for ever: half-sent requests and bodies find room beside them.
        let kept_free = self.budget.limit() / limits::HTTP2_SHARE;
        for _ in 0..limits::ROOM_TRIES {
            let left = self.budget.limit().saturating_sub(self.budget.held() + kept_free);
            let streams = u32::try_from(left / limits::STREAMS_SHARE / limits::STREAM_BYTES).unwrap_or(most);
            let streams = streams.clamp(least, most);
            let bytes = limits::HTTP2_BYTES + u64::from(streams) * limits::STREAM_BYTES;
            if let Some(reserved) = self.budget.reserve_leaving(bytes, kept_free) {
                pulse.is_http2();
                return Some((reserved, streams));
            }
            self.close(Pulse::idle_http2);
            tokio::time::sleep(limits::ROOM_WAIT).await;
        }
        (self.over_budget)(Budget::Connections);
        None
    }

    /// A permit to accept a connection. While there is none, idle connections are closed.
    pub(crate) async fn permit(&self, permits: &Permits) -> Option<OwnedSemaphorePermit> {
        loop {
            match tokio::time::timeout(limits::ROOM_WAIT, permits.take()).await {
                Ok(permit) => return permit.ok(),
                Err(_) => self.make_room(),
            }
        }
    }

    /// [`Peers::close_idle`], unless this was done for another listener a moment ago.
    fn make_room(&self) {
        let (now, mut made) = (Instant::now(), self.made_room.lock());
        if made.is_none_or(|at| now - at >= limits::ROOM_WAIT) {
            *made = Some(now);
            self.close_idle();
        }
    }

    /// Takes note of a new connection.
    pub(crate) fn enter(&self, pulse: &Arc<Pulse>) {
        let since = self.order.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open();
        if open.len() == open.capacity() {
            open.retain(|one| one.pulse.strong_count() > 0);
        }
        open.push(Open { pulse: Arc::downgrade(pulse), heads: 0, since, looks: 0 });
    }

    /// Closes a share of the connections that keep us waiting: first those that never completed a
    /// request or have begun a head, then idle ones, each from the longest.
    pub fn close_idle(&self) {
        self.close(Pulse::idleness);
    }

    /// Closes a share of the connections whose peers take nothing of what waits for them, or of idle
    /// ones. Call it when memory runs out.
    pub fn relieve(&self) {
        self.close(Pulse::held_up);
    }

    fn close(&self, idleness: impl Fn(&Pulse) -> Option<u8>) {
        let now = self.order.fetch_add(1, Ordering::Relaxed);
        let mut waiting = Vec::new();
        let mut open = self.open();
        open.retain_mut(|one| {
            let Some(pulse) = one.pulse.upgrade() else { return false };
            let heads = pulse.heads();
            if heads != one.heads {
                (one.heads, one.since, one.looks) = (heads, now, 0);
            } else if let Some(class) = idleness(&pulse) {
                one.looks = one.looks.saturating_add(1);
                if one.looks >= limits::IDLE_LOOKS[usize::from(class.min(2))] {
                    waiting.push((class, one.since, heads, pulse));
                }
            }
            true
        });
        drop(open);
        let most = (waiting.len() / limits::CLOSED_SHARE).max(1);
        waiting.sort_unstable_by_key(|(class, since, ..)| (*class, *since));
        for (_, _, heads, pulse) in waiting.into_iter().take(most) {
            pulse.evict(heads);
            (self.over_budget)(Budget::Connections);
        }
    }

    fn open(&self) -> MutexGuard<'_, Vec<Open>> {
        // A panic cannot leave the list half-written.
        self.open.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Poll;

    use super::*;
    use crate::http::body::CredentialRefused;
    use crate::tasks::Tasks;

    /// Connections that have completed so many requests each.
    fn open(peers: &Peers, answered: &[u32]) -> Vec<Arc<Pulse>> {
        answered
            .iter()
            .map(|times| {
                let pulse = Arc::new(Pulse::default());
                (0..*times).for_each(|_| drop(pulse.begin()));
                peers.enter(&pulse);
                pulse
            })
            .collect()
    }

    fn closed(pulses: &[Arc<Pulse>]) -> Vec<bool> {
        pulses.iter().map(|pulse| pulse.is_chosen()).collect()
    }

    #[test]
    fn unused_connections_are_closed_first() {
        let peers = Peers::new(0, |_| {});
        let pulses = open(&peers, &[1, 0, 1, 0]);
        peers.close_idle();
        assert_eq!(closed(&pulses), [false; 4], "they may be about to ask");
        peers.close_idle();
        assert_eq!(closed(&pulses), [false, true, false, false]);
        peers.close_idle();
        assert_eq!(closed(&pulses), [false, true, false, true]);
        drop(pulses[0].begin());
        (0..limits::IDLE_LOOKS[1]).for_each(|_| peers.close_idle());
        assert_eq!(closed(&pulses), [false, true, true, true], "the other one has asked again");
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_waiters_scan_no_more_often() {
        let (peers, permits) = (Peers::new(0, |_| {}), Permits::new(0));
        let pulses = open(&peers, &[0]);
        let mut waiting = pin!(futures_util::future::join(peers.permit(&permits), peers.permit(&permits)));
        for (waits, chosen) in [(limits::ROOM_WAIT * 3 / 2, false), (limits::ROOM_WAIT, true)] {
            assert!(tokio::time::timeout(waits, &mut waiting).await.is_err());
            assert_eq!(pulses[0].is_chosen(), chosen);
        }
    }

    #[test]
    fn stalled_peer_closed_when_memory_short() {
        let peers = Peers::new(0, |_| {});
        let pulses = open(&peers, &[1, 1, 1]);
        peers.close_idle();
        pulses[1].written(&Poll::Pending);
        peers.relieve();
        assert!(!pulses[1].is_chosen(), "it may be slow");
        peers.relieve();
        assert_eq!(pulses.iter().map(|pulse| pulse.is_chosen()).collect::<Vec<_>>(), [false, true, false]);
        let _answered = pulses[2].begin();
        for _ in 0..9 {
            pulses[2].written(&Poll::Pending);
            peers.relieve();
            pulses[2].written(&Poll::Ready(Ok(1)));
        }
        pulses[2].written(&Poll::Pending);
        assert!(!pulses[2].is_chosen(), "it takes some");
    }

    #[test]
    fn running_requests_are_never_closed() {
        let peers = Peers::new(0, |_| {});
        let pulses = open(&peers, &[0]);
        let under_way = pulses[0].begin();
        (0..3).for_each(|_| peers.close_idle());
        assert!(!pulses[0].is_chosen());
        drop(under_way);
        (0..limits::IDLE_LOOKS[1]).for_each(|_| peers.close_idle());
        assert!(pulses[0].is_chosen());
    }

    #[test]
    fn peers_withholding_bodies_are_closed() {
        let peers = Peers::new(0, |_| {});
        let pulses = open(&peers, &[0, 0]);
        let under_way = [pulses[0].begin(), pulses[0].begin(), pulses[1].begin()];
        let mut arriving = vec![pulses[0].arrives(), pulses[0].arrives(), pulses[1].arrives()];
        peers.close_idle();
        assert!(!pulses[1].is_chosen(), "it has the time that an ordinary body takes");
        // One of two has arrived, and is worked on.
        drop(arriving.swap_remove(0));
        (0..8 * limits::IDLE_LOOKS[1]).for_each(|_| peers.close_idle());
        assert_eq!([pulses[0].is_chosen(), pulses[1].is_chosen()], [false, true]);
        drop((under_way, arriving));
    }

    #[test]
    fn partial_heads_leave_room_for_requests() {
        let peers = Peers::new(100 * limits::REQUEST_BYTES, |_| {});
        let mut heads: Vec<_> = (0..200).map(|_| peers.nothing().unwrap()).collect();
        let grown = heads.iter_mut().filter_map(|head| head.grow_to(limits::WIRE_BYTES as u64).then_some(())).count();
        assert_eq!(grown as u64 * limits::WIRE_BYTES as u64, 75 * limits::REQUEST_BYTES);
        let whole: Vec<_> = (0..200).filter_map(|_| peers.request(0, true)).collect();
        assert_eq!(whole.len(), 25);
    }

    #[tokio::test(start_paused = true)]
    async fn more_connections_allow_fewer_streams_each() {
        let peers = Peers::new(4 << 20, |_| {});
        let mut held = Vec::new();
        while let Some((reserved, streams)) = peers.http2(&Pulse::default()).await {
            held.push((reserved, streams));
        }
        let streams: Vec<u32> = held.iter().map(|(_, streams)| *streams).collect();
        assert!(streams.is_sorted_by(|a, b| a >= b) && streams[0] >= 64, "{streams:?}");
        let least = limits::LEAST_STREAMS_PER_CONNECTION;
        assert!((8..40).contains(&streams.len()) && streams.ends_with(&[least]), "{streams:?}");
        assert!(peers.request(1 << 10, true).is_some(), "complete requests have room");
        drop(held);
        assert!(peers.http2(&Pulse::default()).await.is_some());
    }

    /// Connections that speak HTTP/2, until there is no room for another, and that end when they have
    /// to; each has asked `times`.
    async fn fill_with_http2(peers: &Arc<Peers>, times: u32) {
        let tasks = Tasks::new();
        loop {
            let pulse = Arc::new(Pulse::default());
            let room = tokio::time::timeout(limits::ROOM_WAIT / 2, peers.http2(&pulse)).await;
            let Ok(Some((reserved, _))) = room else { return };
            peers.enter(&pulse);
            (0..times).for_each(|_| drop(pulse.begin()));
            tasks.spawn("connection", async move {
                pulse.evicted().await;
                drop(reserved);
            });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn newcomer_finds_room_among_idle_http2() {
        for times in [0, 1, limits::FEW_REQUESTS] {
            let peers = Peers::new(1 << 20, |_| {});
            fill_with_http2(&peers, times).await;
            let pulse = Arc::new(Pulse::default());
            assert!(peers.http2(&pulse).await.is_some(), "beside some that asked {times} times");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn partial_requests_fit_beside_http2() {
        let peers = Peers::new(4 << 20, |_| {});
        fill_with_http2(&peers, 1).await;
        let half: Vec<_> = (0..200).filter_map(|_| peers.request(1 << 10, false)).collect();
        assert!(half.len() > 90, "{}", half.len());
    }

    #[test]
    fn frames_of_http2_begin_no_head() {
        let peers = Peers::new(0, |_| {});
        let pulses = open(&peers, &[1, 1]);
        pulses[1].is_http2();
        peers.close_idle();
        pulses.iter().for_each(|pulse| pulse.note_bytes());
        (0..3).for_each(|_| peers.close_idle());
        assert_eq!([pulses[0].is_chosen(), pulses[1].is_chosen()], [true, false]);
    }

    #[test]
    fn sending_counts_beside_arriving_body() {
        let pulse = Arc::new(Pulse::default());
        let (_under_way, _arriving) = (pulse.begin(), pulse.arrives());
        assert_eq!(pulse.idleness(), Some(1));
        let _sending = pulse.send();
        assert_eq!(pulse.idleness(), Some(3));
    }

    #[test]
    fn refused_callers_make_room_first() {
        let pulse = Arc::new(Pulse::default());
        for number in 1..=20 {
            drop(pulse.begin());
            pulse.refused(CredentialRefused::Cheap, 1);
            assert_eq!((pulse.idleness(), pulse.is_refused()), (Some(0), number >= 16), "{number}");
        }
        let pulse = Arc::new(Pulse::default());
        (0..9).for_each(|_| drop(pulse.begin()));
        assert_eq!(pulse.idleness(), Some(2));
        for number in 1..=4 {
            drop(pulse.begin());
            pulse.refused(CredentialRefused::Costly, 1);
            assert_eq!((pulse.idleness(), pulse.is_refused()), (Some(2), number == 4), "{number}");
        }
    }

    #[test]
    fn unjudged_callers_make_room_too() {
        let pulse = Arc::new(Pulse::default());
        for number in 1..=20 {
            drop(pulse.begin());
            pulse.refused(CredentialRefused::Unjudged, 1);
            assert_eq!((pulse.idleness(), pulse.is_refused()), (Some(0), false), "{number}");
        }
        drop(pulse.begin());
        assert_eq!(pulse.idleness(), Some(1));
    }

    #[test]
    fn partial_requests_leave_room_for_complete() {
        let refused = Arc::new(AtomicU64::new(0));
        let counted = refused.clone();
        let peers = Peers::new(100 * limits::REQUEST_BYTES, move |budget| {
            assert_eq!(budget, Budget::Requests);
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let half: Vec<_> = (0..200).filter_map(|_| peers.request(0, false)).collect();
        assert_eq!(half.len(), 75);
        let whole: Vec<_> = (0..200).filter_map(|_| peers.request(0, true)).collect();
        assert_eq!((whole.len(), refused.load(Ordering::Relaxed)), (25, 125 + 175));
        drop(half);
        assert!(peers.request(30 << 10, false).is_some());
    }
}
