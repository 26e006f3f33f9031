//! A caller whose credential was verified.

use super::issuer::VerifiedToken;
use crate::model::time::Wall;

/// A verified caller, as a connection or the process remembers it: who it is, and no decision.
#[derive(Clone, Debug)]
pub struct Known {
    pub(super) token: VerifiedToken,
    /// Time after which its signature is verified again.
    pub(super) until: Wall,
    /// The issuers' epoch when the verification began.
    pub(super) epoch: u64,
}

impl Known {
    /// True while it may be taken for who it was.
    pub(super) fn holds(&self, now: Wall, epoch: u64) -> bool {
        now < self.until && epoch == self.epoch
    }
}
