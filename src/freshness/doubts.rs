//! Owns what is not believed (R15): versions that jumped, floors that no region reaches.
//!
//! Before it: [`super::records`], one set per shard, under the shard's lock. After it: [`super::merge`] is told which
//! versions may not raise a floor. A doubt outlives the record's cell, so that saying the version again after the entry
//! has gone does not raise the floor either.
//!
//! Invariant: at most [`limits::DOUBTS_PER_SHARD`]; a doubt that makes way can at worst come up again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::words::{RegionId, Version};
use crate::clock::Moment;
use crate::limits;

/// The doubts of one shard, by record.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    known: BTreeMap<u64, Doubt>,
}

#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// No version from here on raises the floor; `None` while only the floor itself is watched.
    version: Option<Version>,
    /// Who spoke for that version first; it takes another to confirm it.
    region: Option<RegionId>,
    /// The floor that no reachable region reached, and since when.
    unreached: Option<(Version, Moment)>,
    /// The record's answers are labelled.
    open: bool,
    /// Only a reply spoke for it: when all regions agree on something else, it is over.
    replied: bool,
    since: Moment,
}

impl Doubts {
    /// Whether the record's answers are labelled.
    pub(super) fn is_open(&self, hash: u64) -> bool {
        self.known.get(&hash).is_some_and(|doubt| doubt.open)
    }

    /// The version from which on none may raise the record's floor.
    pub(super) fn version(&self, hash: u64) -> Option<Version> {
        self.known.get(&hash)?.version
    }

    /// Doubts `version`, which `region` spoke for; returns whether that is news.
    pub(super) fn add(&mut self, hash: u64, version: Version, region: RegionId, now: Moment, replied: bool) -> bool {
        let doubt = self.of(hash, now);
        doubt.replied = replied && (doubt.replied || !doubt.open);
        let lower = doubt.version.is_none_or(|known| version < known);
        let news = !doubt.open || lower;
        if lower {
            doubt.version = Some(version);
            doubt.region = Some(region);
        }
        doubt.region.get_or_insert(region);
        doubt.open = true;
        news
    }

    /// Doubts a floor that only replies stood for, and of which it is not known whose: no single region confirms it.
    pub(super) fn disbelieve(&mut self, hash: u64, version: Version, now: Moment) {
        let doubt = self.of(hash, now);
        *doubt = Doubt {
            version: Some(version),
            region: None,
            unreached: None,
            open: false,
            replied: true,
            since: doubt.since,
        };
    }

    /// The doubted version, when this reply comes from a second region that has it: the doubt is over.
    pub(super) fn settle(&mut self, hash: u64, version: Version, region: RegionId) -> Option<Version> {
        let doubt = self.known.get(&hash)?;
        let doubted = doubt.version.filter(|doubted| version >= *doubted && doubted.is_credible())?;
        doubt.region.filter(|first| *first != region)?;
        self.known.remove(&hash);
        Some(doubted)
    }

    /// An announcement moved the record. An ordinary one ends the labelling; the version stays doubted.
    pub(super) fn close(&mut self, hash: u64, still_open: bool) {
        if let Some(doubt) = self.known.get_mut(&hash) {
            doubt.open = still_open;
        }
    }

    /// A region has the floor.
    pub(super) fn reached(&mut self, hash: u64) {
        if let Some(doubt) = self.known.get_mut(&hash) {
            doubt.unreached = None;
            if doubt.version.is_none() {
                self.known.remove(&hash);
            }
        }
    }

    /// All regions agree on something ordinary: a doubt that only a reply raised is no longer open; returns whether it was
    /// such a one. What an announcement said, or a floor that was dropped, may yet turn out to be so.
    pub(super) fn agreed(&mut self, hash: u64) -> bool {
        match self.known.get_mut(&hash) {
            Some(doubt) if doubt.replied => {
                doubt.open = false;
                true
            }
            _ => false,
        }
    }

    /// There was a reason why no region has the floor.
    pub(super) fn dismiss(&mut self, hash: u64) {
        self.known.remove(&hash);
    }

    /// No reachable region has the floor. Once that has been so for longer than `worst_lag`, the floor is doubted
    /// (`announcer` spoke for it, if anyone is known to have) and this returns true: it must be dropped.
    pub(super) fn unreached(
        &mut self,
        hash: u64,
        floor: Version,
        announcer: Option<RegionId>,
        now: Moment,
        worst_lag: Duration,
    ) -> bool {
        let doubt = self.of(hash, now);
        let since = match doubt.unreached {
            Some((watched, since)) if watched == floor => since,
            _ => now,
        };
        if now.since(since) <= worst_lag {
            doubt.unreached = Some((floor, since));
            return false;
        }
        doubt.unreached = None;
        doubt.version = Some(doubt.version.map_or(floor, |version| version.min(floor)));
        doubt.region = announcer;
        doubt.open = true;
        doubt.replied = false;
        true
    }

    /// Versions begin anew (R19).
    pub(super) fn clear(&mut self) {
        self.known.clear();
    }

    fn of(&mut self, hash: u64, now: Moment) -> &mut Doubt {
        if self.known.len() >= limits::DOUBTS_PER_SHARD && !self.known.contains_key(&hash) {
            let oldest = self.known.iter().min_by_key(|(_, doubt)| doubt.since).map(|(key, _)| *key);
            oldest.map(|key| self.known.remove(&key));
        }
        let blank = Doubt { version: None, region: None, unreached: None, open: false, replied: false, since: now };
        self.known.entry(hash).or_insert(blank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_are_bounded_and_the_oldest_makes_way() {
        let mut doubts = Doubts::default();
        for second in 0..=limits::DOUBTS_PER_SHARD as u64 {
            let now = Moment::ZERO + Duration::from_secs(second);
            assert!(doubts.add(second, Version(9), RegionId(0), now, true));
        }
        assert_eq!(doubts.known.len(), limits::DOUBTS_PER_SHARD);
        assert_eq!(doubts.version(0), None);
        assert_eq!(doubts.version(1), Some(Version(9)));
    }
}
