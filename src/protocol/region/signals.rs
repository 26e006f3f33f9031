//! Signals from which a region's proof is made.

use crate::model::time::Moment;

/// Signals of a region's subscription, strong proof's and weak proof's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signals {
    /// Time at which the newest message that arrived was published.
    pub(super) strong: Option<Moment>,
    pub(super) polled: Option<Moment>,
    pub(super) attested: Option<Moment>,
    /// The last look at the attributes failed, so missing weak proof says nothing about the
    /// subscription.
    pub(super) unanswered: bool,
    /// Weak proof no longer counts: strong proof can be had here, or nothing else is accepted.
    pub(super) weak_refused: bool,
    /// Something arrived that could not be verified, and nothing has been verified since (R14).
    pub(super) weak_withheld: bool,
    pub(super) heartbeat_seen: bool,
}

impl Signals {
    /// Forgets every signal: what came until now proves nothing any more.
    pub(super) fn forget(&mut self) {
        self.strong = None;
        self.polled = None;
        self.attested = None;
    }
}
