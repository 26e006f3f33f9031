//! Changes the store's capacity while it is in use.

use std::sync::atomic::Ordering;

use super::Store;
use crate::cache::limits;

impl Store {
    /// Sets the capacity to `capacity` bytes. It grows at once; it shrinks in steps, so that nobody
    /// waits for a large eviction, and stops if another size is requested meanwhile.
    pub async fn resize(&self, capacity: u64) {
        self.kept.wanted.store(capacity, Ordering::Relaxed);
        loop {
            let next = self.bytes().saturating_sub(limits::GIVEN_UP_STEP).max(capacity);
            self.kept.resize(next);
            self.kept.make_room(next);
            self.settle();
            if next == capacity {
                return;
            }
            tokio::task::yield_now().await;
            if self.kept.wanted.load(Ordering::Relaxed) != capacity {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;
    use crate::cache::content::Content;
    use crate::cache::entry::{Entry, Validity};
    use crate::cache::key::{HashKey, KeyBuffer};
    use crate::cache::rfc9111::StoredFacts;
    use crate::model::ids::RegionId;
    use crate::model::time::{Moment, ShortSpan};

    fn filled(capacity: u64, count: usize) -> Store {
        let store = Store::new(capacity, |_| {});
        let mut buffer = KeyBuffer::new(HashKey::fixed(1));
        for place in 0..count {
            let entry = Arc::new(Entry {
                status: http::StatusCode::OK,
                content: Content::new(&HeaderMap::new(), &Bytes::from(vec![0; 64 * 1024])),
                region: RegionId(0),
                sent: Moment::from_nanos(1),
                age_at_receipt: ShortSpan::default(),
                derived: crate::cache::derived::Derived::NONE,
                json: Default::default(),
                validity: Validity::Unrouted(StoredFacts::default()),
            });
            store.put_unrouted(&mut buffer, &format!("/{place}"), &HeaderMap::new(), &entry);
        }
        store
    }

    #[tokio::test]
    async fn shrinking_evicts_and_growing_keeps() {
        let store = filled(64 << 20, 200);
        let held = store.bytes();
        store.resize(128 << 20).await;
        assert_eq!((store.bytes(), store.capacity()), (held, 128 << 20));
        store.resize(4 << 20).await;
        assert_eq!(store.capacity(), 4 << 20);
        assert!(store.bytes() <= 4 << 20 && store.entries() > 0, "{}", store.bytes());
    }
}
