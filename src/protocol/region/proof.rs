//! A region's proof, of which there are grades, and how long each holds (R9).

use std::time::Duration;

use super::RegionState;
use crate::model::time::Moment;
use crate::protocol::event::Grade;
use crate::protocol::limits;
use crate::switch::{Rule, is_on};

/// The proof with the longest lease.
pub(super) struct Proof {
    pub(super) grade: Grade,
    pub(super) at: Moment,
    pub(super) lease_until: Moment,
}

impl RegionState {
    pub(super) fn proof(&self, now: Moment) -> Option<Proof> {
        let strong = self.signals.strong.map(|at| {
            let lease_until = lease_until(at, limits::STRONG_LEASE);
            Proof { grade: Grade::Path, at, lease_until }
        });
        match (strong, self.weak(now)) {
            _ if self.paused => None,
            (Some(strong), Some(weak)) if weak.lease_until > strong.lease_until => Some(weak),
            (strong, weak) => strong.or(weak),
        }
    }

    /// Weak proof takes both halves, and begins 60 s after the subscription was made. A poll says
    /// that what is in the queue is known here, which soon goes out of date. The attributes say
    /// that the topic still sends to the queue, which stays true until somebody changes it.
    fn weak(&self, now: Moment) -> Option<Proof> {
        let begins = self.subscribed? + limits::WEAK_PROOF_AFTER;
        let (polled, attested) = (self.signals.polled?, self.signals.attested?);
        let lease_until = lease_until(polled, limits::WEAK_LEASE).min(lease_until(attested, limits::ATTESTED_FOR));
        let is_accepted = !self.signals.weak_refused && !self.signals.weak_withheld && now >= begins;
        is_accepted.then_some(Proof { grade: Grade::Weak, at: polled, lease_until })
    }

    /// R9: whether a proof's lease holds.
    pub(super) fn is_proven(&self, now: Moment) -> bool {
        self.proof(now).is_some_and(|proof| now <= proof.lease_until)
    }
}

/// R9: until when a proof from `at` holds.
fn lease_until(at: Moment, length: Duration) -> Moment {
    if is_on(Rule::R9) { at + length } else { Moment::from_nanos(u64::MAX) }
}
