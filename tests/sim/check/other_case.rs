//! Owns how often each region has written a key that is read in another letter case.
//!
//! Before it: [`super::super::run`] tells of each. After it: whether so many came that the sidecar
//! must have noticed. Invariant: what came before that excuses nothing that comes after it.

use std::time::Duration;

use super::super::faults::Fault;
use super::super::plan::{Plan, RECOVERY, REGIONS};

/// So many are no accident (R21).
const ENOUGH: usize = 3;
/// From the last of them to the next answer that knows of it.
const TICK: Duration = Duration::from_secs(2);

/// Per region, how many came, and when enough had come.
#[derive(Debug, Default)]
pub(crate) struct OtherCase([(usize, Option<Duration>); REGIONS]);

impl OtherCase {
    /// Another one came.
    pub(crate) fn note(&mut self, region: usize, at: Duration) {
        let (count, enough) = &mut self.0[region];
        *count += 1;
        if *count == ENOUGH {
            *enough = Some(at);
        }
    }

    /// True if enough came of `region`.
    pub(crate) fn is_plain(&self, region: usize, at: Duration) -> bool {
        self.0[region].1.is_some_and(|since| since + TICK <= at)
    }

    /// True if a region writes this key so, or what it made stale is still held, and nobody can
    /// know it yet.
    pub(super) fn is_hidden(&self, plan: &Plan, key: usize, at: Duration) -> bool {
        let lasts = plan.window(Fault::LetterCase).is_some_and(|window| at <= window.until + plan.ttl + RECOVERY);
        let mut writers = (0..plan.topics).filter(|region| writes(plan, *region));
        lasts && plan.is_key_in_other_case(key) && writers.any(|region| !self.is_plain(region, at))
    }

    /// True if everybody can know of each topic that its region writes keys so: none proves
    /// anything.
    pub(super) fn is_all_plain(&self, plan: &Plan, at: Duration) -> bool {
        (0..plan.topics).all(|region| writes(plan, region) && self.is_plain(region, at))
    }
}

/// True if `region` writes keys so at any time.
fn writes(plan: &Plan, region: usize) -> bool {
    plan.windows.iter().any(|window| window.fault == Fault::LetterCase && window.is_at(region))
}
