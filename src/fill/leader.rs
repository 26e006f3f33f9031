//! The leader of one fill, which its followers wait for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::flights::{FillKey, FillResult, ResultCell};
use super::outcome::{Failed, Filled, Lack};
use super::settings::Settings;
use crate::cache::key::Key;
use crate::race::question::Purpose;

/// Leads one fill: hands its result to the followers, and makes way for the next fill whatever
/// happens.
pub(crate) struct Leader {
    pub(super) settings: Arc<Settings>,
    pub(super) fill_key: FillKey,
    /// Key under which a failure for its reader alone is remembered ([`Ask::own_key`](super::ask::Ask::own_key)).
    pub(super) own_key: Option<Key>,
    pub(super) cell: ResultCell,
    pub(super) purpose: Purpose,
    pub(super) shared: bool,
    pub(super) wanted: Option<CancellationToken>,
    pub(super) counted: bool,
    /// Held until the race is decided.
    pub(super) turn: Option<OwnedSemaphorePermit>,
}

impl Leader {
    /// Waits until a race may begin, but no longer than one may take; false if it may not begin.
    pub(super) async fn take_turn(&mut self) -> bool {
        let turns = self.settings.shared.fills.turns.clone();
        self.turn = match turns.clone().try_acquire_owned() {
            Ok(turn) => Some(turn),
            Err(_) => {
                let within = self.settings.regions.deadline();
                tokio::time::timeout(within, turns.acquire_owned()).await.ok().and_then(Result::ok)
            }
        };
        self.turn.is_some()
    }

    /// Resolves once, when a reader starts to wait for what began in the background.
    pub(super) async fn wanted(&mut self) {
        match &self.wanted {
            Some(wanted) => wanted.cancelled().await,
            None => std::future::pending().await,
        }
        self.wanted = None;
        self.purpose = Purpose::Foreground;
    }

    pub(super) fn is_background(&self) -> bool {
        self.purpose == Purpose::Background
    }

    /// Gives all readers the result. A later reader finds the store or begins a new
    /// fill; but a failure with a reader waiting is remembered. It is not remembered that no region
    /// has what was announced, or the newest grants, because one may have it in a moment.
    pub(super) fn finish(&mut self, filled: Filled) {
        let fills = &self.settings.shared.fills;
        match &filled {
            Filled::Got(_) => {
                fills.errors.forget(&self.fill_key.key);
                self.own_key.iter().for_each(|own| fills.errors.forget(own));
            }
            Filled::Failed(failed) if failed.lack != Lack::Answers => {}
            _ if self.purpose == Purpose::Background || !self.settings.is_newest() => {}
            failed => {
                let own = self.own_key.as_ref().filter(|_| failed.is_for_its_reader());
                let key = own.unwrap_or(&self.fill_key.key);
                fills.errors.note(key, self.fill_key.generation, failed, self.settings.shared.clock.now());
            }
        }
        self.clear();
        let purpose = self.purpose;
        // Nobody else sets it, and a leader finishes once.
        let _ = self.cell.set(FillResult { filled, purpose });
    }

    pub(super) fn fail(&mut self, failed: Failed) {
        self.finish(Filled::Failed(Arc::new(failed)));
    }

    pub(super) fn clear(&mut self) {
        self.turn = None;
        if std::mem::take(&mut self.counted) {
            if self.shared {
                self.settings.shared.fills.shard(&self.fill_key).remove(&self.fill_key);
            }
            self.settings.shared.fills.under_way.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Leader {
    /// The readers of a fill that broke get a result too.
    fn drop(&mut self) {
        self.clear();
        if !self.cell.initialized() {
            let _ = self.cell.set(FillResult { filled: Filled::broken(), purpose: self.purpose });
        }
    }
}
