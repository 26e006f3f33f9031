//! Doubted values (R15): versions that jumped, and floors that no region reaches. One set per
//! shard, under the shard's lock, tells [`super::merge`] which versions may not raise a floor. A
//! doubt outlives the record's cell, so that repeating the version after the entry has gone does
//! not raise the floor either.
//!
//! The set is bounded. A doubt that nobody has touched for longer than `worst_lag` makes way. Where
//! all are in use, a new one finds no room and comes up again later. So a restore of more records
//! than there is room for is worked off part by part, and no doubt pushes another out before its
//! time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::ids::{RegionId, Version};
use crate::model::time::Moment;
use crate::switch::{Rule, is_on};

/// The doubts of one shard, by record.
#[derive(Debug)]
pub(crate) struct Doubts {
    known: BTreeMap<u64, Doubt>,
    room: usize,
    idle: Duration,
    /// No doubt makes way before this: all were looked at, and all are in use.
    full_until: Moment,
}

#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// No version from here on raises the floor; `None` while only the floor itself is watched.
    version: Option<Version>,
    /// The region that first spoke for that version. It takes another to confirm it.
    region: Option<RegionId>,
    /// The floor that no reachable region reached, and since when.
    unreached: Option<(Version, Moment)>,
    /// The record's answers are labelled.
    open: bool,
    /// The highest version announced while this one was doubted. It is the floor if the doubted
    /// version turns out to be right.
    announced: Option<Version>,
    /// Only a reply spoke for it: once all regions agree on something else, it is over.
    replied: bool,
    /// Time at which it began.
    began: Moment,
    /// Time at which it was last added to, or looked up because of a reply.
    used: Moment,
}

impl Doubt {
    const fn blank(now: Moment) -> Self {
        Self {
            version: None,
            region: None,
            unreached: None,
            open: false,
            announced: None,
            replied: false,
            began: now,
            used: now,
        }
    }

    fn is_since(&self, since: Moment) -> bool {
        self.began > since && is_on(Rule::LateResets)
    }
}

impl Doubts {
    /// Has room for this many doubts; one unused for longer than `idle` makes way.
    pub(crate) const fn new(room: usize, idle: Duration) -> Self {
        Self { known: BTreeMap::new(), room, idle, full_until: Moment::ZERO }
    }

    /// True if the record's answers are labelled.
    pub(crate) fn is_open(&self, hash: u64) -> bool {
        self.known.get(&hash).is_some_and(|doubt| doubt.open)
    }

    /// The version from which on none may raise the record's floor.
    pub(crate) fn version(&self, hash: u64) -> Option<Version> {
        self.known.get(&hash)?.version
    }

    /// Doubts `version`, which `region` spoke for. Returns whether that is news.
    pub(crate) fn add(&mut self, hash: u64, version: Version, region: RegionId, now: Moment, replied: bool) -> bool {
        let Some(doubt) = self.of(hash, now) else { return true };
        doubt.replied = replied && (doubt.replied || !doubt.open);
        let lower = doubt.version.is_none_or(|known| version < known);
        let news = !doubt.open || lower;
        if lower {
            doubt.version = Some(version);
            doubt.region = Some(region);
            // Nobody knows whether what was announced belongs with this version: it may lie further
            // above it than versions jump.
            doubt.announced = None;
        }
        doubt.region.get_or_insert(region);
        doubt.open = true;
        news
    }

    /// Doubts a floor that only replies stood for. Nobody knows whose it was, so no single region
    /// confirms it.
    pub(crate) fn disbelieve(&mut self, hash: u64, version: Version, now: Moment) {
        let Some(doubt) = self.of(hash, now) else { return };
        *doubt = Doubt { version: Some(version), replied: true, ..Doubt::blank(now) };
    }

    /// `version` was announced and not believed. What lies further than `max_jump` above the
    /// doubted version is nobody's.
    pub(crate) fn announced(&mut self, hash: u64, version: Version, max_jump: u64) {
        if let Some(doubt) = self.known.get_mut(&hash)
            && version.is_credible()
            && doubt.version.is_some_and(|doubted| version.0.saturating_sub(doubted.0) <= max_jump)
        {
            doubt.announced = doubt.announced.max(Some(version));
        }
    }

    /// The floor, if a second region says that it has the doubted version. The doubt is then over.
    pub(crate) fn settle(&mut self, hash: u64, version: Version, region: RegionId) -> Option<Version> {
        let doubt = self.known.get(&hash)?;
        let doubted = doubt.version.filter(|doubted| version >= *doubted && doubted.is_credible())?;
        doubt.region.filter(|first| *first != region)?;
        let announced = doubt.announced;
        self.known.remove(&hash);
        Some(announced.map_or(doubted, |announced| announced.max(doubted)))
    }

    /// An announcement moved the record. An ordinary one ends the labelling, but the version stays
    /// doubted.
    pub(crate) fn close(&mut self, hash: u64, still_open: bool) {
        if let Some(doubt) = self.known.get_mut(&hash) {
            doubt.open = still_open;
        }
    }

    /// A region has the floor.
    pub(crate) fn reached(&mut self, hash: u64) {
        if let Some(doubt) = self.known.get_mut(&hash) {
            doubt.unreached = None;
            if doubt.version.is_none() {
                self.known.remove(&hash);
            }
        }
    }

    /// All regions agree on something ordinary, so a doubt that only a reply raised is no longer
    /// open. Returns whether it was such a doubt. What an announcement said, or a floor that was
    /// dropped, may still turn out to be right.
    pub(crate) fn agreed(&mut self, hash: u64) -> bool {
        match self.known.get_mut(&hash) {
            Some(doubt) if doubt.replied => {
                doubt.open = false;
                true
            }
            _ => false,
        }
    }

    /// There was a reason why no region has the floor, so there is nothing to doubt.
    pub(crate) fn dismiss(&mut self, hash: u64) {
        self.known.remove(&hash);
    }

    pub(crate) fn tune(&mut self, worst_lag: Duration) {
        self.idle = worst_lag;
    }

    /// No reachable region has the floor. Once that has lasted for longer than `worst_lag`, the
    /// floor is doubted (`announcer` spoke for it, if anyone is known to have) and this returns
    /// true: it must be dropped. Replies that were `made` then say nothing about later times.
    pub(crate) fn unreached(
        &mut self,
        hash: u64,
        floor: Version,
        announcer: Option<RegionId>,
        made: Moment,
        now: Moment,
    ) -> bool {
        let worst_lag = self.idle;
        let Some(doubt) = self.of(hash, now) else { return false };
        let since = match doubt.unreached {
            Some((watched, since)) if watched == floor => since,
            _ => now,
        };
        if made.since(since) <= worst_lag {
            doubt.unreached = Some((floor, since));
            return false;
        }
        doubt.unreached = None;
        if doubt.version.is_none_or(|version| floor < version) {
            doubt.version = Some(floor);
            doubt.announced = None;
        }
        doubt.region = announcer;
        doubt.open = true;
        doubt.replied = false;
        true
    }

    /// Versions began anew at `since` (R19): what has been doubted since before says nothing now.
    /// Except for the records that are not covered.
    pub(crate) fn forget(&mut self, since: Moment, is_covered: impl Fn(u64) -> bool) {
        self.known.retain(|hash, doubt| doubt.is_since(since) || !is_covered(*hash));
    }

    /// Forgets the doubts about one record.
    pub(crate) fn forget_of(&mut self, hash: u64, since: Moment) {
        if self.known.get(&hash).is_some_and(|doubt| !doubt.is_since(since)) {
            self.known.remove(&hash);
        }
    }

    /// The doubt of a record, marked as used `now`; `None` if there is no room for another.
    fn of(&mut self, hash: u64, now: Moment) -> Option<&mut Doubt> {
        if !self.known.contains_key(&hash) && !self.make_room(now) {
            return None;
        }
        let doubt = self.known.entry(hash).or_insert_with(|| Doubt::blank(now));
        doubt.used = now;
        Some(doubt)
    }

    fn make_room(&mut self, now: Moment) -> bool {
        if self.known.len() < self.room {
            return true;
        }
        if now < self.full_until {
            return false;
        }
        let Some((oldest, used)) = self.known.iter().map(|(key, doubt)| (*key, doubt.used)).min_by_key(|it| it.1)
        else {
            return false;
        };
        if now.since(used) <= self.idle {
            self.full_until = used + self.idle;
            return false;
        }
        self.known.remove(&oldest);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(60);

    fn at(second: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(second)
    }

    #[test]
    fn doubts_evict_idle_least_recently_used() {
        let mut doubts = Doubts::new(3, IDLE);
        for record in 0..3 {
            assert!(doubts.add(record, Version(9), RegionId(0), at(record), true));
        }
        doubts.add(3, Version(9), RegionId(0), at(60), true);
        assert_eq!((doubts.version(0), doubts.version(3)), (Some(Version(9)), None), "all are in use");
        doubts.add(0, Version(9), RegionId(0), at(61), true);
        doubts.add(3, Version(9), RegionId(0), at(62), true);
        assert_eq!((doubts.version(0), doubts.version(1)), (Some(Version(9)), None), "1 was idle for longest");
        assert_eq!((doubts.version(3), doubts.known.len()), (Some(Version(9)), 3));
    }

    /// R15: 20,000 restored records, and room for 1,000 doubts: none stays below its floor for
    /// ever.
    #[test]
    fn excess_floors_are_dropped_in_parts() {
        let mut doubts = Doubts::new(1_000, IDLE);
        let mut waiting: Vec<u64> = (0..20_000).collect();
        let mut second = 0;
        while !waiting.is_empty() {
            second += 61;
            assert!(second < 61 * 100, "{} records wait for ever", waiting.len());
            waiting.retain(|record| !doubts.unreached(*record, Version(6), None, at(second), at(second)));
        }
        assert!(doubts.known.len() <= 1_000);
    }

    #[test]
    fn announced_above_right_doubt_becomes_floor() {
        // Nothing, or an impossible one from before.
        for before in [None, Some(900_000_000_000_000_000)] {
            let mut doubts = Doubts::new(3, IDLE);
            if let Some(version) = before {
                doubts.add(7, Version(version), RegionId(0), at(1), false);
                doubts.announced(7, Version(version), 1_000);
            }
            drop_twelve(&mut doubts);
            assert_eq!(doubts.settle(7, Version(12), RegionId(1)), Some(Version(12)), "{before:?}");
        }
        let mut doubts = Doubts::new(3, IDLE);
        drop_twelve(&mut doubts);
        doubts.add(7, Version(15), RegionId(0), at(64), false);
        doubts.announced(7, Version(15), 1_000);
        doubts.announced(7, Version(9_000), 1_000);
        doubts.announced(7, Version(u64::MAX), u64::MAX);
        assert_eq!(doubts.settle(7, Version(12), RegionId(1)), Some(Version(15)));
    }

    /// Nobody reaches version 12 for longer than the worst lag.
    fn drop_twelve(doubts: &mut Doubts) {
        for second in [2, 63] {
            doubts.unreached(7, Version(12), Some(RegionId(0)), at(second), at(second));
        }
    }
}
