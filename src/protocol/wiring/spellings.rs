//! Keys that a region announces and nobody reads, of which some hold or resemble one that is read.
//!
//! That a key holds another one happens by chance (`acme/7` is a record of its own), and so it takes
//! several, and most of what the region announced of the type, or several records that are read. That
//! a key which nobody reads differs from a read one by letter case alone is hardly chance, and it is
//! seen beside keys that are announced as they are read: a region may write some of its keys one way
//! and some the other.

use crate::model::ids::RegionId;
use crate::model::time::Moment;
use crate::protocol::limits::{CASE_DOUBT, MISNAMED_KEYS, REGIONS};

/// Difference between an announced key that nobody reads and the read one that it probably means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySpelling {
    /// Text around it.
    Around,
    LetterCase,
}

/// Announcements of one region and record type that nobody reads.
#[derive(Clone, Copy, Debug, Default)]
struct Unread {
    all: u64,
    around: u64,
    /// Hashes of the first different read records that were inside announced keys.
    inside: [Option<u64>; MISNAMED_KEYS as usize],
    other_case: u64,
    other_case_at: Moment,
}

/// Unread keys of every region.
#[derive(Debug, Default)]
pub(super) struct KeySpellings([Unread; REGIONS]);

impl KeySpellings {
    /// `region` announced a key that nobody reads; `meant` is the hash of the read record that it
    /// probably means.
    pub(super) fn note(&mut self, region: RegionId, meant: Option<(u64, KeySpelling)>, now: Moment) {
        let Some(unread) = self.0.get_mut(region.index()) else { return };
        unread.all += 1;
        match meant {
            Some((hash, KeySpelling::Around)) => {
                unread.around += 1;
                if !unread.inside.contains(&Some(hash))
                    && let Some(free) = unread.inside.iter_mut().find(|it| it.is_none())
                {
                    *free = Some(hash);
                }
            }
            Some((_, KeySpelling::LetterCase)) => {
                unread.other_case += 1;
                unread.other_case_at = now;
            }
            None => {}
        }
    }

    /// `region` announced a key as it is read: what it announces besides may be other records.
    pub(super) fn met(&mut self, region: RegionId) {
        if let Some(unread) = self.0.get_mut(region.index()) {
            let Unread { other_case, other_case_at, .. } = *unread;
            *unread = Unread { other_case, other_case_at, ..Unread::default() };
        }
    }

    /// Returns whether `region` writes keys in another form than they are read.
    pub(super) fn misnames(&self, region: RegionId) -> bool {
        self.0.get(region.index()).is_some_and(|unread| {
            let is_most = unread.around.saturating_mul(2) >= unread.all;
            unread.around >= MISNAMED_KEYS && (is_most || unread.inside.iter().all(Option::is_some))
        })
    }

    /// Returns whether `region` lately wrote keys in another letter case than they are read.
    pub(super) fn differs_in_case(&self, region: RegionId, now: Moment) -> bool {
        self.0
            .get(region.index())
            .is_some_and(|unread| unread.other_case >= MISNAMED_KEYS && now.since(unread.other_case_at) < CASE_DOUBT)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const EU: RegionId = RegionId(0);

    fn after(meant: &[Option<(u64, KeySpelling)>]) -> KeySpellings {
        let mut spellings = KeySpellings::default();
        meant.iter().for_each(|meant| spellings.note(EU, *meant, Moment::ZERO));
        spellings
    }

    fn around(hash: u64) -> Option<(u64, KeySpelling)> {
        Some((hash, KeySpelling::Around))
    }

    #[test]
    fn chance_containment_is_no_misnaming() {
        assert!(!after(&[around(1)]).misnames(EU));
        assert!(!after(&[around(1), around(2)]).misnames(EU));
        assert!(!after(&[around(1), None, None, around(1), None, None, around(1)]).misnames(EU), "the same one");
        assert!(after(&[around(1), None, around(1), around(1)]).misnames(EU), "most of what it announces");
        assert!(after(&[around(1), None, None, None, around(2), None, around(3)]).misnames(EU), "several records");
        let mut met = after(&[around(1), around(2), around(3)]);
        assert!(met.misnames(EU) && !met.misnames(RegionId(1)));
        met.met(EU);
        assert!(!met.misnames(EU));
    }

    #[test]
    fn other_letter_case_counts_beside_matches() {
        let case = Some((1, KeySpelling::LetterCase));
        let mut spellings = after(&[case, None, None, None, None, case]);
        assert!(!spellings.differs_in_case(EU, Moment::ZERO));
        spellings.note(EU, case, Moment::ZERO);
        spellings.met(EU);
        let last = Moment::ZERO + (CASE_DOUBT - Duration::from_secs(1));
        assert!(spellings.differs_in_case(EU, last) && !spellings.misnames(EU));
        assert!(!spellings.differs_in_case(EU, last + Duration::from_secs(1)), "none came since");
    }
}
