//! Notices callers that mint a new token per request.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use parking_lot::Mutex;

use super::limits;
use crate::model::ids::RecordId;
use crate::model::time::Moment;
use crate::routing::keyed_hashes::Identity;
use crate::telemetry::rate_limiter::RateLimiter;

/// Callers that mint a new token per request would never hit under `exact`.
///
/// Bounded: at most `RECORDS_WATCHED` records at a time, each with at most as many identities as
/// raise the warning.
#[derive(Default)]
pub struct Churn {
    seen: Mutex<Watched>,
    /// Limits what is logged of them.
    pub(super) lines: RateLimiter,
}

#[derive(Default)]
struct Watched {
    since: Moment,
    records: HashMap<RecordId, HashSet<u128>>,
    raised: u64,
}

const RECORDS_WATCHED: usize = 1024;
const WATCH_FOR: Duration = Duration::from_secs(600);

impl Churn {
    /// Notes a fill of `record` for `identity`; true when the record just reached the number that
    /// raises the warning.
    pub fn note(&self, record: RecordId, identity: Identity, now: Moment) -> bool {
        let mut seen = self.seen.lock();
        if now.since(seen.since) > WATCH_FOR {
            seen.records.clear();
            seen.since = now;
        }
        if seen.records.len() >= RECORDS_WATCHED && !seen.records.contains_key(&record) {
            return false;
        }
        let callers = seen.records.entry(record).or_default();
        if callers.len() >= limits::IDENTITIES_PER_RECORD || !callers.insert(identity.0) {
            return false;
        }
        let raised = callers.len() == limits::IDENTITIES_PER_RECORD;
        seen.raised += u64::from(raised);
        raised
    }

    /// Number of warnings raised since the start.
    pub fn raised(&self) -> u64 {
        self.seen.lock().raised
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::TypeId;

    #[test]
    fn many_callers_per_record_warn_once() {
        let churn = Churn::default();
        let record = RecordId { record_type: TypeId(0), hash: 1 };
        let now = Moment::ZERO;
        let raised = (1..=200u128).filter(|id| churn.note(record, Identity(*id), now)).count();
        assert_eq!((raised, churn.raised()), (1, 1));
        let other = RecordId { hash: record.hash ^ 1, ..record };
        assert!((0..1000).all(|_| !churn.note(other, Identity(7), now)));
    }
}
