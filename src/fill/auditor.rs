//! Findings of audits, and the bound on audits under way ([`super::audit`] carries them out).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;

use super::limits;
use crate::cache::key::Key;
use crate::model::time::Moment;
use crate::protocol::audit::{AuditEnding, Audits, Suspicion, Timeline};

/// Findings of audits, and the bound on audits under way.
#[derive(Debug)]
pub struct Auditor {
    audits: Mutex<Audits<Key>>,
    pub(super) room: Arc<Semaphore>,
    /// Set while a walk is running.
    pub(super) runs: AtomicBool,
}

impl Default for Auditor {
    fn default() -> Self {
        Self {
            audits: Mutex::default(),
            room: Arc::new(Semaphore::new(limits::AUDITS)),
            runs: AtomicBool::new(false),
        }
    }
}

impl Auditor {
    /// Number of entries that wait for an announcement of what an audit saw.
    pub fn open(&self) -> usize {
        self.audits().open_count()
    }

    /// The violations that are remembered, oldest first.
    pub fn violations(&self, now: Moment) -> Vec<Timeline> {
        self.audits().violations(now)
    }

    /// Follows a suspicion while a walk is running; false if none is, or there is no room.
    pub(super) fn follow(&self, suspicion: Suspicion<Key>) -> bool {
        // Read under the lock that the end of a walk takes, so that nothing is opened after it.
        let mut audits = self.audits();
        self.runs.load(Ordering::Relaxed) && audits.open(suspicion)
    }

    /// The walk ends, and with it all that it would have looked at again.
    pub(super) fn stop(&self) -> Vec<AuditEnding> {
        let mut audits = self.audits();
        self.runs.store(false, Ordering::Relaxed);
        audits.abandon()
    }

    pub(super) fn audits(&self) -> MutexGuard<'_, Audits<Key>> {
        // A suspicion is added or taken whole: a panic elsewhere cannot leave half of one.
        self.audits.lock()
    }
}
