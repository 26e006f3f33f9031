//! Owns what `/status` shows of audits (R17): how many ended how, the share that was fresh, and each violation.
//!
//! Before it: `app` gathers it. After it: [`super::status`] serves it. Invariant: hashes, versions, times and configured
//! names only; a record's key is shown as a hash under a key that the process drew at its start.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

/// What audits have found since the process started.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AuditStatus {
    /// `freshness.audit_period`, seconds; 0 is off.
    pub period_s: f64,
    /// Entries that came due, by how their audit ended; `skipped` is what the background budget had no room for.
    pub entries: BTreeMap<&'static str, u64>,
    /// Entries in which something newer was seen and that wait for their announcement.
    pub open: usize,
    /// The share that was fresh, by how soon.
    pub fresh: Vec<Share>,
    /// Entries whose change was not announced within a second of its first sight; the oldest make way.
    pub violations: Vec<Violation>,
}

/// How many audited entries were fresh within a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The time, seconds.
    pub within_s: u64,
    /// 0 to 1; none before the first audit.
    pub share: Option<f64>,
    /// How many entries it is a share of.
    pub of: u64,
}

impl Share {
    /// Of so many fresh and so many stale ones.
    pub fn of(window: Duration, (fresh, stale): (u64, u64)) -> Self {
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
    /// `confirmed` or `provisional`: how much it counted.
    pub standing: &'static str,
    /// The version it showed.
    pub held_version: Option<u64>,
    /// When it was requested.
    pub requested: String,
    /// When a region last confirmed it.
    pub confirmed: String,
    /// The region that showed something newer.
    pub seen_in: String,
    /// The version that it showed.
    pub seen_version: Option<u64>,
    /// When that was.
    pub seen: String,
    /// The regions that were LIVE then.
    pub live: Vec<String>,
    /// When the announcement arrived; none while, or if, it did not.
    pub announced: Option<String>,
    /// How long after the first sight.
    pub announced_after_ms: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_what_was_decided_and_of_nothing_before() {
        let window = Duration::from_secs(10);
        assert_eq!(Share::of(window, (0, 0)), Share { within_s: 10, share: None, of: 0 });
        assert_eq!(Share::of(window, (3, 1)), Share { within_s: 10, share: Some(0.75), of: 4 });
    }
}
