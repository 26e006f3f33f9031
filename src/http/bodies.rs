//! Bodies that are held in memory: each is bounded by its own limit, all of them together by a
//! [`ByteBudget`].
//!
//! Bytes are reserved as they arrive, not as a sender promises them, so a sender that promises much
//! and sends nothing holds nothing. Large bodies leave part of a budget to small ones, so that a
//! few slow uploads cannot lock everybody out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::body::Body;
use memmap2::MmapMut;

use crate::http::limits::{
    BODY_STEP_BYTES, FIRST_BODY_BYTES, HEAP_BODY_BYTES, MAPPED_BODY_BYTES, SMALL_BODIES_BYTES, SMALL_BODY_BYTES,
};

#[derive(Debug)]
pub struct ByteBudget {
    limit: u64,
    /// The size up to which a body is small, and the bytes that only small ones may take.
    small: u64,
    for_small: u64,
    held: AtomicU64,
}

/// Part of a budget; given back when it is dropped.
#[derive(Debug)]
pub struct Reserved {
    budget: Arc<ByteBudget>,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRead {
    #[error("the body is too large")]
    TooLarge,
    /// The budget is spent; there may be room later.
    #[error("too many bytes of bodies are held")]
    NoRoom,
    #[error("the body ended early or is malformed")]
    Broken,
}

impl ByteBudget {
    /// Returns a budget of `limit` bytes, of which [`SMALL_BODIES_BYTES`] are for small bodies
    /// alone.
    pub fn new(limit: u64) -> Arc<Self> {
        Self::with_room_for_small(limit, SMALL_BODY_BYTES as u64, SMALL_BODIES_BYTES as u64)
    }

    /// A body of up to `small` bytes is small, and `for_small` bytes are for those alone.
    pub fn with_room_for_small(limit: u64, small: u64, for_small: u64) -> Arc<Self> {
        Arc::new(Self { limit, small, for_small, held: AtomicU64::new(0) })
    }

    /// Reserves `bytes` at once; `None` when there is no room.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reserved> {
        let mut reserved = Reserved { budget: self.clone(), bytes: 0 };
        reserved.grow_to(bytes).then_some(reserved)
    }

    /// Reserves `bytes` if `free` bytes stay free beside them.
    pub fn reserve_leaving(self: &Arc<Self>, bytes: u64, free: u64) -> Option<Reserved> {
        let most = self.limit.saturating_sub(free);
        self.held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
                held.checked_add(bytes).filter(|sum| *sum <= most)
            })
            .ok()?;
        Some(Reserved { budget: self.clone(), bytes })
    }

    pub const fn limit(&self) -> u64 {
        self.limit
    }

    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Takes `more` bytes for a body that then holds `all`.
    fn take(&self, more: u64, all: u64) -> bool {
        let kept_free = if all > self.small { self.for_small } else { 0 };
        let limit = self.limit.saturating_sub(kept_free);
        self.held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
                held.checked_add(more).filter(|sum| *sum <= limit)
            })
            .is_ok()
    }
}

impl Reserved {
    /// Reserves up to `bytes` in all. Without room it returns false and changes nothing.
    pub fn grow_to(&mut self, bytes: u64) -> bool {
        let has_room = bytes <= self.bytes || self.budget.take(bytes - self.bytes, bytes);
        if has_room {
            self.bytes = self.bytes.max(bytes);
        }
        has_room
    }
}

impl Reserved {
    /// Gives back what is beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        let back = self.bytes.saturating_sub(bytes);
        self.budget.held.fetch_sub(back, Ordering::Relaxed);
        self.bytes -= back;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A body being collected into one piece of memory, whose size is what is reserved.
#[derive(Debug)]
pub struct Gathering {
    memory: Memory,
    reserved: Reserved,
    /// Its length if that is known, else its upper bound.
    most: usize,
}

#[derive(Debug)]
enum Memory {
    Heap(Vec<u8>),
    /// Separate pages. They are taken as they are written to, growing copies nothing, and they go
    /// back to the system with the body. An allocator often keeps what it took for large pieces.
    Mapped(MmapMut, usize),
}

impl Gathering {
    pub fn new(most: usize, budget: &Arc<ByteBudget>) -> Self {
        let reserved = Reserved { budget: budget.clone(), bytes: 0 };
        Self { memory: Memory::Heap(Vec::new()), reserved, most }
    }

    pub fn len(&self) -> usize {
        self.as_ref().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes room for all of it at once: the sender is trusted to send what it promised.
    ///
    /// # Errors
    /// [`NotRead::NoRoom`].
    pub fn make_room(&mut self) -> Result<(), NotRead> {
        self.reach(self.most)
    }

    /// # Errors
    /// When the body gets too large, or there is no room.
    pub fn push(&mut self, mut more: impl Buf) -> Result<(), NotRead> {
        let needed = self.len() + more.remaining();
        if needed > self.most {
            return Err(NotRead::TooLarge);
        }
        self.reach(needed)?;
        while more.has_remaining() {
            let chunk = more.chunk();
            let taken = chunk.len();
            match &mut self.memory {
                Memory::Heap(bytes) => bytes.extend_from_slice(chunk),
                Memory::Mapped(pages, len) => {
                    pages[*len..*len + taken].copy_from_slice(chunk);
                    *len += taken;
                }
            }
            more.advance(taken);
        }
        Ok(())
    }

    /// Makes room for at least `needed` bytes in all.
    fn reach(&mut self, needed: usize) -> Result<(), NotRead> {
        if needed as u64 <= self.reserved.bytes {
            return Ok(());
        }
        let steps = [FIRST_BODY_BYTES, HEAP_BODY_BYTES, SMALL_BODY_BYTES];
        let step = steps.into_iter().find(|step| needed <= *step);
        let wanted = step.unwrap_or_else(|| needed.next_multiple_of(BODY_STEP_BYTES)).min(self.most);
        if !self.reserved.grow_to(wanted as u64) {
            return Err(NotRead::NoRoom);
        }
        if let Memory::Heap(bytes) = &mut self.memory {
            if wanted <= HEAP_BODY_BYTES {
                bytes.reserve_exact(wanted - bytes.len());
                return Ok(());
            }
            // Room for all that may come; no page of it is taken before it is written to.
            let mut pages = MmapMut::map_anon(self.most).map_err(|_| NotRead::NoRoom)?;
            pages[..bytes.len()].copy_from_slice(bytes);
            self.memory = Memory::Mapped(pages, bytes.len());
        }
        Ok(())
    }

    /// The body, to be kept for long: its part of the budget is given back at once.
    pub fn release(self) -> Bytes {
        match self.memory {
            Memory::Heap(bytes) => bytes.into(),
            // A process may have only so many mappings.
            Memory::Mapped(pages, len) if len < MAPPED_BODY_BYTES => Bytes::copy_from_slice(&pages[..len]),
            Memory::Mapped(pages, len) => Bytes::from_owner(pages).slice(..len),
        }
    }

    /// The body, whose part of the budget is given back with its last handle.
    pub fn into_bytes(self) -> Bytes {
        if self.is_empty() { Bytes::new() } else { Bytes::from_owner(self) }
    }
}

impl AsRef<[u8]> for Gathering {
    fn as_ref(&self) -> &[u8] {
        match &self.memory {
            Memory::Heap(bytes) => bytes,
            Memory::Mapped(pages, len) => &pages[..*len],
        }
    }
}

/// Reads a body to its end: at most `most` bytes, and no more than `budget` has room for.
///
/// # Errors
/// See [`NotRead`].
pub async fn whole<B: Body + Unpin>(mut body: B, most: usize, budget: &Arc<ByteBudget>) -> Result<Bytes, NotRead> {
    let promised = body.size_hint();
    if promised.lower() > most as u64 {
        return Err(NotRead::TooLarge);
    }
    // Not above `most`, as checked just now.
    let length = promised.exact().map_or(most, |length| length as usize);
    let mut gathering = Gathering::new(length, budget);
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(|_| NotRead::Broken)?.into_data() {
            gathering.push(data)?;
        }
    }
    Ok(gathering.into_bytes())
}

#[cfg(test)]
mod tests {
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[tokio::test]
    async fn body_holds_budget_until_last_handle() {
        let budget = ByteBudget::new(4 * MIB);
        let read = whole(Full::new(Bytes::from(vec![7; 1 << 20])), 2 << 20, &budget).await.unwrap();
        assert_eq!((read.len(), budget.held()), (1 << 20, MIB));
        let slice = read.slice(..10);
        drop(read);
        assert_eq!(budget.held(), MIB);
        drop(slice);
        assert_eq!(budget.held(), 0);
    }

    async fn read(bytes: usize, budget: &Arc<ByteBudget>) -> Result<Bytes, NotRead> {
        whole(Full::new(Bytes::from(vec![7; bytes])), 8 << 20, budget).await
    }

    #[tokio::test]
    async fn large_bodies_leave_room_for_small() {
        let budget = ByteBudget::new(2 * MIB);
        let most = 2 * MIB as usize - SMALL_BODIES_BYTES;
        let _first = read(most, &budget).await.unwrap();
        assert_eq!(read(SMALL_BODY_BYTES + 1, &budget).await, Err(NotRead::NoRoom));
        let small: Vec<_> = futures_util::future::join_all(
            (0..SMALL_BODIES_BYTES / SMALL_BODY_BYTES).map(|_| read(SMALL_BODY_BYTES, &budget)),
        )
        .await;
        assert!(small.iter().all(Result::is_ok));
        assert_eq!(read(1, &budget).await, Err(NotRead::NoRoom));
        assert_eq!(budget.held(), 2 * MIB);
        drop(small);
        assert_eq!(read(8 << 20 | 1, &budget).await, Err(NotRead::TooLarge));
        assert_eq!(budget.held(), most as u64);
    }

    #[tokio::test]
    async fn tiny_chunks_cost_one_extra_step() {
        let budget = ByteBudget::new(2 * MIB);
        let chunks = (0..100_000).map(|_| Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(b"x"))));
        let read = whole(StreamBody::new(futures_util::stream::iter(chunks)), 1 << 20, &budget).await.unwrap();
        assert_eq!(read.len(), 100_000);
        assert!(budget.held() <= 100_000 + BODY_STEP_BYTES as u64, "{}", budget.held());
    }

    #[tokio::test]
    async fn body_round_trips_and_leaves_budget() {
        for length in [1, FIRST_BODY_BYTES, SMALL_BODY_BYTES, SMALL_BODY_BYTES + 1, MAPPED_BODY_BYTES, 3 << 20] {
            let budget = ByteBudget::new(8 * MIB);
            let sent: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            for most in [length, 4 << 20] {
                let mut gathering = Gathering::new(most, &budget);
                sent.chunks(1000).for_each(|chunk| gathering.push(chunk).unwrap());
                assert!(budget.held() >= length as u64);
                let kept = gathering.release();
                assert_eq!((kept[..] == sent, budget.held()), (true, 0), "{length}");
                assert_eq!(whole(Full::new(kept), most, &budget).await.unwrap(), sent);
            }
        }
    }

    #[test]
    fn gathering_reserves_nothing_in_advance() {
        let budget = ByteBudget::new(MIB);
        let gathering = Gathering::new(1 << 20, &budget);
        assert_eq!((budget.held(), gathering.len()), (0, 0));
    }
}
