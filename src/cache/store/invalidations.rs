//! Times at which unrouted URIs were last invalidated (RFC 9111, 4.4). A reply to an earlier
//! request is neither stored nor shared.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::cache::key::KeyRef;
use crate::cache::limits;
use crate::model::time::Moment;

/// Nanoseconds since boot, indexed by a URI's hash. Two URIs that share a place cost a stored
/// reply, no more.
pub(super) struct Invalidations(Box<[AtomicU64]>);

impl Invalidations {
    pub(super) fn new() -> Self {
        Self((0..limits::INVALIDATIONS).map(|_| AtomicU64::new(0)).collect())
    }

    pub(super) fn note(&self, primary: KeyRef<'_>, now: Moment) {
        self.place(primary).fetch_max(now.as_nanos(), Ordering::SeqCst);
    }

    pub(super) fn note_all(&self, now: Moment) {
        for place in &self.0 {
            place.fetch_max(now.as_nanos(), Ordering::SeqCst);
        }
    }

    pub(super) fn latest(&self, primary: KeyRef<'_>) -> Moment {
        Moment::from_nanos(self.place(primary).load(Ordering::SeqCst))
    }

    fn place(&self, primary: KeyRef<'_>) -> &AtomicU64 {
        &self.0[primary.hash() as usize & (limits::INVALIDATIONS - 1)]
    }
}
