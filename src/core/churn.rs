//! Notices callers that mint a new token per request.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::core::keyed_hashes::Identity;
use crate::core::limits;
use crate::model::ids::RecordId;
use crate::model::time::Moment;

/// Callers that mint a new token per request would never hit under `exact`.
///
/// Bounded: at most `RECORDS_WATCHED` records at a time, each with at most as many identities as
/// raise the warning.
#[derive(Default)]
pub struct Churn {
    seen: Mutex<Watched>,
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
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// How many times the warning was raised since the start.
    pub fn raised(&self) -> u64 {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).raised
    }
}
