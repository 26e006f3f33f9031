//! The newest of something that a reload replaces.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};

/// The newest settings; `app` keeps them.
pub struct Current<T> {
    newest: ArcSwap<T>,
    /// Number of replacements: the only thing that a plain request looks at.
    replaced: AtomicU64,
}

impl<T> Current<T> {
    pub fn new(first: Arc<T>) -> Self {
        Self { newest: ArcSwap::new(first), replaced: AtomicU64::new(0) }
    }

    /// For as long as a request takes.
    pub fn load(&self) -> Guard<Arc<T>> {
        self.newest.load()
    }

    /// To keep.
    pub fn load_full(&self) -> Arc<T> {
        self.newest.load_full()
    }

    /// Every request read from now on is answered under `newest`.
    pub fn replace(&self, newest: Arc<T>) {
        self.newest.store(newest);
        self.replaced.fetch_add(1, Ordering::Release);
    }

    pub fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Acquire)
    }
}
