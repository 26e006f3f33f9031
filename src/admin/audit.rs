//! Audits in `/status` (R17): how many ended how, what share was fresh, and each violation.
//!
//! It holds hashes, versions, times and configured names only. A record's key stands as a hash,
//! keyed with a secret that the process draws at its start.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

/// Results of audits since the process started.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AuditStatus {
    /// `freshness.audit_period` in seconds; 0 is off.
    pub period_s: f64,
    /// Entries that came due, by how their audit ended. `skipped`: the background budget had no
    /// room.
    pub entries: BTreeMap<&'static str, u64>,
    /// Entries for which something newer was seen whose announcement has not arrived yet.
    pub open: usize,
    /// The share that was fresh, for each time window.
    pub fresh: Vec<FreshShare>,
    /// Entries whose change was not announced within a second of being first seen. The oldest are
    /// dropped to make room.
    pub violations: Vec<Violation>,
}

/// Share of audited entries that were fresh within a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FreshShare {
    pub within_s: u64,
    /// 0 to 1; none before the first audit.
    pub share: Option<f64>,
    /// Number of entries that `share` is taken over.
    pub of: u64,
}

impl FreshShare {
    /// Share of `fresh` entries among those that were audited.
    pub fn of(window: Duration, fresh: u64, stale: u64) -> Self {
        let of = fresh + stale;
        Self { within_s: window.as_secs(), share: (of > 0).then(|| fresh as f64 / of as f64), of }
    }
}

/// One entry that was not fresh, and what happened when. Times are RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The type of its first record.
    pub record_type: String,
    /// That record's key, hashed.
    pub key_hash: String,
    /// The region whose reply it was.
    pub answered_by: String,
    /// `confirmed` or `provisional`.
    pub standing: &'static str,
    /// The version that the entry showed.
    pub held_version: Option<u64>,
    pub requested: String,
    /// Time at which a region last confirmed it.
    pub confirmed: String,
    /// The region that showed something newer.
    pub seen_in: String,
    /// The newer version.
    pub seen_version: Option<u64>,
    /// Time at which that region first showed it.
    pub seen: String,
    /// The regions that were LIVE then.
    pub live: Vec<String>,
    /// Arrival of the announcement; `None` if it has not arrived.
    pub announced: Option<String>,
    /// Counted from `seen`.
    pub announced_after_ms: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_share_counts_decided_audits_only() {
        let window = Duration::from_secs(10);
        assert_eq!(FreshShare::of(window, 0, 0), FreshShare { within_s: 10, share: None, of: 0 });
        assert_eq!(FreshShare::of(window, 3, 1), FreshShare { within_s: 10, share: Some(0.75), of: 4 });
    }
}
