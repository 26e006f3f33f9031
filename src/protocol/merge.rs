//! Effects of an announcement, a served version or an unreachable floor on a record's state (R1,
//! R13, R15, R18, R19). Pure: a state goes in, a state comes out, and [`super::records`] stores it.
//!
//! A floor only rises, by the maximum of what is credible, except in [`reset`], [`accept_absence`]
//! and [`drop_floor`], and where it is [`Effect::Undercut`]. So any order and any number of copies
//! of the same messages end at the same floor (R13).

use std::time::Duration;

use super::record::{Claim, Marker, Snapshot, Written, span_of};
use crate::model::ids::{Generation, RegionId, RegionSet, Version};
use crate::model::time::Moment;
use crate::switch::{Rule, is_on};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Announced {
    /// The region whose topic carried it, or that took the write.
    pub(crate) region: RegionId,
    /// `None` if the publisher knows no version.
    pub(crate) version: Option<Version>,
    /// Time at which it was published, or written.
    pub(crate) at: Moment,
    /// DELETED rather than CHANGED.
    pub(crate) deleted: bool,
    /// Nobody announced it: it was written through this sidecar, and this region took it (R20).
    pub(crate) written: bool,
}

/// Rules for changes of a state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// A version that is above the floor by more than this may not raise it (R15).
    pub(crate) max_jump: u64,
    /// Regions that announce a change without a version within this time of each other announce the
    /// same change (R4).
    pub(crate) worst_lag: Duration,
    /// A version from here on may not raise the floor until a second region serves it (R15).
    pub(crate) doubted: Option<Version>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// One more region announced what the marker says.
    Joined,
    /// Only the floor rose.
    Raised,
    /// The generation moved: older fills, and entries without a version, no longer count.
    Moved,
    /// R15: the version is doubted. If it was announced, the generation moved, but not the floor.
    Jumped,
    /// R15: the floor is doubted: it was only served, and an announcement lies further below it
    /// than versions jump.
    Undercut,
}

impl Rules {
    fn allow(self, floor: Version, version: Version) -> bool {
        let jumps = floor != Version::NONE && version.0.saturating_sub(floor.0) > self.max_jump;
        !is_on(Rule::R15) || version.is_credible() && !jumps && self.doubted.is_none_or(|doubted| version < doubted)
    }
}

/// R1, R2, R13, R15: an announcement arrives; `next` is a generation that nothing had before.
///
/// A version at the floor that the marker already announced is not newer: its region joins the
/// marker. A version at the floor that was only served so far moves the generation once, for the
/// entries that state no version. So does one below a floor that nobody has announced yet.
pub(crate) fn announce(
    state: &mut Snapshot,
    said: Announced,
    rules: Rules,
    now: Moment,
    next: impl FnOnce() -> Generation,
) -> Effect {
    let Some(version) = said.version.filter(|version| *version != Version::NONE) else {
        return change_unversioned(state, said, rules, now, next());
    };
    if version <= state.floor && is_on(Rule::R13) {
        if version < state.floor && state.at_floor {
            return Effect::None;
        }
        if version < state.floor {
            // Served before it was announced, and surpassed. What states a version can be judged by
            // it. What states none, such as an absence, may be from before this change (R3).
            state.generation = next();
            state.changed |= !said.deleted;
            if state.floor.0 - version.0 > rules.max_jump && is_on(Rule::R15) {
                announced_at(state, said, version, rules, now);
                said_nothing_certain(state, now);
                return Effect::Undercut;
            }
            return Effect::Moved;
        }
        if let Some(marker) = state.marker.as_mut().filter(|_| state.at_floor) {
            let known = marker.regions.contains(said.region);
            marker.regions = marker.regions.with(said.region);
            return if known { Effect::None } else { Effect::Joined };
        }
    } else if !rules.allow(state.floor, version) {
        change_unversioned(state, said, rules, now, next());
        state.escaped = true;
        return Effect::Jumped;
    }
    state.generation = next();
    if std::mem::take(&mut state.escaped) {
        // What is stored may state a version that nobody believes, so no version protects it from
        // this change.
        said_nothing_certain(state, now);
    }
    announced_at(state, said, version, rules, now);
    Effect::Moved
}

/// Versions do not show whether this generation's news is in what was made before `now`.
const fn said_nothing_certain(state: &mut Snapshot, now: Moment) {
    state.unversioned = state.generation;
    state.unversioned_at = now;
}

fn announced_at(state: &mut Snapshot, said: Announced, version: Version, rules: Rules, now: Moment) {
    state.written = written(state, said, Claim::Stated, rules, now);
    state.floor = version;
    state.marker = Some(Marker { regions: RegionSet::EMPTY.with(said.region), at: now, deleted: said.deleted });
    state.at_floor = true;
    state.changed = !said.deleted;
}

/// R20: the write that counts after this announcement: the announcement itself if it is a write,
/// else the one before, unless both state a version and so can be compared. Nothing shows that what
/// is announced now is that write rather than a change from before it, so the write counts until
/// all regions have it.
fn written(state: &Snapshot, said: Announced, claim: Claim, rules: Rules, now: Moment) -> Option<Written> {
    if said.written {
        return Some(Written { by: said.region, claim });
    }
    let before = still_written(state, now, rules.worst_lag)?;
    match (before.claim, claim) {
        (Claim::Stated, Claim::Stated) => None,
        (Claim::Stated, _) => Some(Written { claim: Claim::Unstated, ..before }),
        _ => Some(before),
    }
}

/// R20: the earlier write, when the marker moves to `now`; `None` if it is over by then.
fn still_written(state: &Snapshot, now: Moment, worst_lag: Duration) -> Option<Written> {
    let (before, marker) = (state.as_of(now, worst_lag).written?, state.marker?);
    // A slot's time is rounded up, so the marker may seem to be later than now.
    let next_span = span_of(now, worst_lag) > span_of(marker.at, worst_lag);
    let claim = if next_span { Claim::UnstatedBefore } else { before.claim };
    Some(Written { claim, ..before })
}

/// R4, R6: a change without a version always moves the generation. A region that is not in the
/// marker yet is taken to announce the same change; one that is in it announces the next.
fn change_unversioned(state: &mut Snapshot, said: Announced, rules: Rules, now: Moment, next: Generation) -> Effect {
    let same = state.marker.filter(|marker| {
        let alike = !state.at_floor && marker.deleted == said.deleted;
        alike && !said.written && !marker.regions.contains(said.region) && now.since(marker.at) <= rules.worst_lag
    });
    let regions = same.map_or(RegionSet::EMPTY, |marker| marker.regions).with(said.region);
    state.written = written(state, said, Claim::Unstated, rules, now);
    // A reader to whom the record was gone must not get it from a region that has not ingested the
    // deletion (R20).
    let gone = state.marker.is_some_and(|marker| marker.deleted) && !said.written && state.unstated_by().is_some();
    state.marker = Some(Marker { regions, at: now, deleted: said.deleted || gone });
    state.at_floor = false;
    if said.deleted {
        state.changed = false;
    }
    state.generation = next;
    said_nothing_certain(state, now);
    Effect::Moved
}

/// R18: the generation moves, the floor stays, and the last announcement still stands. If it has
/// been surpassed, its announcers do not speak for what is said now. Nor does anybody speak for a
/// write that nobody knows to have been done (`regions` is empty).
pub(crate) fn reload(state: &mut Snapshot, regions: RegionSet, now: Moment, next: Generation, worst_lag: Duration) {
    state.written = still_written(state, now, worst_lag);
    state.generation = next;
    said_nothing_certain(state, now);
    match &mut state.marker {
        Some(marker) if !marker.is_surpassed() && !regions.is_empty() => marker.at = now,
        other => *other = Some(Marker { regions, at: now, deleted: false }),
    }
    state.at_floor &= !regions.is_empty();
}

/// R19: versions went back, so nothing said or served before may be compared with what comes now.
/// The record begins anew, in a generation that makes everything stored out of date. Regions that
/// say so soon after each other speak of one restore.
pub(crate) fn reset(state: &mut Snapshot, regions: RegionSet, now: Moment, next: Generation, worst_lag: Duration) {
    let blank = state.floor == Version::NONE && !state.at_floor;
    let before = state.marker.filter(|marker| blank && !marker.is_surpassed() && now.since(marker.at) <= worst_lag);
    let regions = RegionSet(regions.0 | before.map_or(RegionSet::EMPTY, |marker| marker.regions).0);
    *state = Snapshot {
        generation: next,
        unversioned: next,
        unversioned_at: now,
        marker: Some(Marker { regions, at: now, deleted: false }),
        ..Snapshot::default()
    };
}

/// R15: every configured region says the same, at or above the floor, so nothing is left to doubt.
pub(crate) fn agreed(state: &mut Snapshot) {
    state.escaped = false;
}

/// R1, R15: a region answered with this version.
pub(crate) fn serve(state: &mut Snapshot, version: Version, rules: Rules) -> Effect {
    if version <= state.floor {
        return Effect::None;
    }
    if !rules.allow(state.floor, version) {
        state.escaped = true;
        return Effect::Jumped;
    }
    raise(state, version);
    Effect::Raised
}

/// R15: a second region serves what was doubted.
pub(crate) fn settle(state: &mut Snapshot, version: Version) {
    state.escaped = false;
    if version > state.floor {
        raise(state, version);
    }
}

fn raise(state: &mut Snapshot, version: Version) {
    state.floor = version;
    surpass(state);
}

/// The floor is no longer the one that was announced, so it no longer matters who announced it. But
/// what was made before that announcement is still too old (R8, R18), and the region that took a
/// write must still be waited for (R20).
fn surpass(state: &mut Snapshot) {
    if std::mem::take(&mut state.at_floor) {
        state.marker = state.marker.map(|marker| Marker { regions: RegionSet::ALL, at: marker.at, deleted: false });
    }
}

/// R6, R15: for longer than `worst_lag`, every reachable region has said that the record is not
/// there, without a version. Either the DELETED that would have said so was lost, or the floor was
/// nobody's. The record begins anew, and with it what is stored: without a floor above it, a
/// version from before would pass for fresh. So would an intermediary's copy from before, if no
/// marker said when this happened (R8).
pub(crate) fn accept_absence(state: &mut Snapshot, now: Moment, next: Generation) {
    *state = Snapshot {
        generation: next,
        unversioned: next,
        unversioned_at: now,
        marker: Some(Marker { regions: RegionSet::ALL, at: now, deleted: false }),
        ..Snapshot::default()
    };
}

/// R15: no reachable region has the floor; `best` is the highest version that one of them has.
pub(crate) fn drop_floor(state: &mut Snapshot, best: Version) {
    state.floor = best;
    surpass(state);
    state.changed = false;
    state.escaped = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: RegionId = RegionId(0);
    const B: RegionId = RegionId(1);
    const EASY: Rules = Rules { max_jump: 1_000, worst_lag: Duration::from_secs(60), doubted: None };

    /// A state with a counter for its generations.
    #[derive(Default)]
    struct World {
        state: Snapshot,
        generations: u64,
        now: u64,
    }

    impl World {
        fn announce(&mut self, region: RegionId, version: Option<u64>, deleted: bool) -> Effect {
            self.now += 1;
            let at = Moment::from_nanos(self.now);
            let said = Announced { region, version: version.map(Version), at, deleted, written: false };
            let generations = &mut self.generations;
            announce(&mut self.state, said, EASY, Moment::from_nanos(self.now), || {
                *generations += 1;
                Generation(*generations)
            })
        }

        fn changed(&mut self, region: RegionId, version: u64) -> Effect {
            self.announce(region, Some(version), false)
        }

        fn regions(&self) -> RegionSet {
            self.state.marker.expect("there is a marker").regions
        }
    }

    /// R13.
    #[test]
    fn same_version_joins_marker_moves_nothing() {
        let mut world = World::default();
        assert_eq!(world.changed(A, 5), Effect::Moved);
        let first = world.state;
        assert_eq!(world.changed(B, 5), Effect::Joined);
        assert_eq!(world.state.generation, first.generation);
        assert_eq!(world.state.marker.map(|marker| marker.at), first.marker.map(|marker| marker.at));
        assert_eq!(world.regions(), RegionSet::first(2));
        assert_eq!(world.changed(B, 5), Effect::None, "a duplicate");
    }

    /// R1, R13.
    #[test]
    fn older_announcement_changes_nothing() {
        let mut world = World::default();
        world.changed(A, 6);
        let newer = world.state;
        assert_eq!(world.changed(B, 5), Effect::None);
        assert_eq!(world.announce(B, Some(5), true), Effect::None, "DELETED after re-creation");
        assert_eq!(world.state, newer);
    }

    /// R3: only the generation can tell about an entry without a version.
    #[test]
    fn announcing_served_version_moves_generation_once() {
        let mut world = World::default();
        world.changed(A, 5);
        assert_eq!(serve(&mut world.state, Version(6), EASY), Effect::Raised);
        assert_eq!(world.regions(), RegionSet::ALL, "who announced 5 no longer matters");
        let before = world.state.generation;
        assert_eq!(world.changed(A, 6), Effect::Moved);
        assert!(world.state.generation > before);
        assert!(world.state.matches(Version(6), before), "an entry at 6 is not asked again");
        assert!(!world.state.matches(Version::NONE, before));
        assert_eq!(world.changed(B, 6), Effect::Joined);
    }

    /// R3, R6, R13: an absence that was stored before may be from before this change.
    #[test]
    fn announcement_below_served_floor_evicts_versionless() {
        let mut world = World::default();
        assert_eq!(serve(&mut world.state, Version(6), EASY), Effect::Raised);
        let stored = world.state.generation;
        assert_eq!(world.announce(A, Some(4), true), Effect::Moved);
        assert!(!world.state.changed, "a DELETED bars no absence");
        assert_eq!(world.changed(A, 5), Effect::Moved);
        assert_eq!((world.state.floor, world.state.changed), (Version(6), true));
        assert!(!world.state.matches(Version::NONE, stored));
        assert!(world.state.matches(Version(6), stored), "a version at the floor is as fresh as it was");
        assert_eq!(world.changed(A, 6), Effect::Moved, "the floor is announced");
        let announced = world.state;
        assert_eq!(world.changed(B, 5), Effect::None, "what was announced has been surpassed by an announcement");
        assert_eq!(world.state, announced);
    }

    /// R4.
    #[test]
    fn versionless_change_moves_only_generation() {
        let mut world = World::default();
        world.changed(A, 5);
        let before = world.state.generation;
        assert_eq!(world.announce(A, None, false), Effect::Moved);
        assert_eq!(world.state.floor, Version(5));
        assert!(!world.state.matches(Version(5), before), "the version cannot show that it is the new one");
        assert_eq!(world.regions(), RegionSet::EMPTY.with(A));
        assert_eq!(world.announce(B, None, false), Effect::Moved);
        assert_eq!(world.regions(), RegionSet::first(2), "B announces the same change");
        assert_eq!(world.announce(B, None, false), Effect::Moved);
        assert_eq!(world.regions(), RegionSet::EMPTY.with(B), "B announces the next");
        world.now += 61_000_000_000;
        assert_eq!(world.announce(A, Some(0), false), Effect::Moved, "0 is no version");
        assert_eq!(world.regions(), RegionSet::EMPTY.with(A), "no region lags that far");
    }

    /// R6.
    #[test]
    fn versionless_deletion_moves_generation_admits_absence() {
        let mut world = World::default();
        world.changed(A, 5);
        assert!(world.state.changed);
        world.announce(A, None, true);
        assert_eq!(world.state.floor, Version(5));
        assert!(!world.state.changed);
        assert!(world.state.marker.is_some_and(|marker| marker.deleted));
        world.announce(A, Some(6), true);
        assert_eq!((world.state.floor, world.state.changed), (Version(6), false));
    }

    /// R18.
    #[test]
    fn reload_moves_generation_keeps_floor_announcers() {
        let mut world = World::default();
        world.changed(A, 5);
        let before = world.state;
        reload(&mut world.state, RegionSet::EMPTY.with(B), Moment::from_nanos(99), Generation(50), EASY.worst_lag);
        assert_eq!(world.state.floor, before.floor);
        assert!(!world.state.matches(Version(5), before.generation));
        assert_eq!(world.regions(), RegionSet::EMPTY.with(A));
        assert_eq!(world.changed(B, 5), Effect::Joined);
    }

    /// R19.
    #[test]
    fn reset_drops_floor_and_stored_entries() {
        let mut world = World::default();
        world.changed(A, 9);
        let before = world.state.generation;
        let from = RegionSet::EMPTY.with(A);
        reset(&mut world.state, from, Moment::from_nanos(99), Generation(50), EASY.worst_lag);
        assert_eq!((world.state.floor, world.regions()), (Version::NONE, from));
        assert!(!world.state.matches(Version(9), before), "from before the restore");
        assert!(world.state.matches(Version(4), Generation(50)));
        reset(&mut world.state, RegionSet::EMPTY.with(B), Moment::from_nanos(100), Generation(51), EASY.worst_lag);
        assert_eq!(world.regions(), RegionSet::first(2), "the same restore, in the next region");
    }

    /// R8, R18.
    #[test]
    fn version_served_after_reload_keeps_marker() {
        let mut world = World::default();
        world.changed(A, 5);
        let at = Moment::from_nanos(99);
        reload(&mut world.state, RegionSet::EMPTY.with(B), at, Generation(50), EASY.worst_lag);
        assert_eq!(serve(&mut world.state, Version(6), EASY), Effect::Raised);
        assert_eq!(world.state.marker.map(|marker| (marker.at, marker.regions)), Some((at, RegionSet::ALL)));
        assert!(!world.state.at_floor);
    }

    /// R15.
    #[test]
    fn version_jump_moves_generation_not_floor() {
        for version in [1_006, crate::model::limits::VERSION_CEILING, u64::MAX] {
            let mut world = World::default();
            world.changed(A, 5);
            let before = world.state.generation;
            assert_eq!(world.changed(A, version), Effect::Jumped);
            assert_eq!(world.state.floor, Version(5));
            assert!(world.state.generation > before && world.state.escaped);
        }
        let mut world = World::default();
        assert_eq!(
            world.changed(A, crate::model::limits::VERSION_CEILING),
            Effect::Jumped,
            "nobody's, without a floor too"
        );
        assert_eq!(world.state.floor, Version::NONE);
        let mut world = World::default();
        assert_eq!(world.changed(A, 1_005), Effect::Moved, "a record without a last version cannot jump");
        assert_eq!(world.changed(A, 2_005), Effect::Moved, "a jump of exactly max_jump");
        assert_eq!(serve(&mut world.state, Version(u64::MAX), EASY), Effect::Jumped, "in a reply too");
    }

    /// R15: the first reply for a record may have stated anything.
    #[test]
    fn announcement_far_below_undercuts_served_floor() {
        for (served, effect, floor) in
            [(1 << 61, Effect::Undercut, 5), (1_006, Effect::Undercut, 5), (1_005, Effect::Moved, 1_005)]
        {
            let mut world = World::default();
            assert_eq!(serve(&mut world.state, Version(served), EASY), Effect::Raised);
            let stored = world.state.generation;
            assert_eq!(world.changed(B, 5), effect, "{served}");
            assert_eq!((world.state.floor, world.state.changed), (Version(floor), true));
            let undercut = effect == Effect::Undercut;
            assert_eq!(world.state.matches(Version(served), stored), !undercut, "no stored version protects");
            assert_eq!(world.changed(A, 5) == Effect::Joined, undercut, "the announcement is the floor");
        }
        let mut world = World::default();
        world.changed(A, 1 << 61);
        assert_eq!(world.changed(B, 5), Effect::None, "announced once");
        assert_eq!(world.state.floor, Version(1 << 61));
    }

    /// R15: an entry that states 2^61 must not outlive the announcement of 6.
    #[test]
    fn doubted_version_protects_no_stored_entry() {
        let mut world = World::default();
        world.changed(A, 5);
        serve(&mut world.state, Version(1 << 61), EASY);
        let stored = world.state.generation;
        assert!(world.state.matches(Version(1 << 61), stored));
        world.changed(B, 6);
        assert!(!world.state.matches(Version(1 << 61), stored));
        assert!(!world.state.escaped, "6 is an ordinary version");
    }

    impl World {
        fn wrote(&mut self, region: RegionId, version: Option<u64>, now: Moment) {
            let said = Announced { region, version: version.map(Version), at: now, deleted: false, written: true };
            announce(&mut self.state, said, EASY, now, || Generation(self.generations + 1));
            self.generations += 1;
        }

        fn changed_at(&mut self, region: RegionId, now: Moment) {
            let said = Announced { region, version: None, at: now, deleted: false, written: false };
            announce(&mut self.state, said, EASY, now, || Generation(self.generations + 1));
            self.generations += 1;
        }

        fn taker(&self, now: Moment) -> Option<RegionId> {
            self.state.as_of(now, EASY.worst_lag).unstated_by()
        }
    }

    fn at(tenths: u64) -> Moment {
        Moment::ZERO + Duration::from_millis(100 * tenths)
    }

    /// R20.
    #[test]
    fn write_stays_expired_after_two_spans() {
        let mut world = World::default();
        world.wrote(A, None, at(50));
        assert_eq!((world.taker(at(650)), world.taker(at(651))), (Some(A), None), "nothing was announced");
        world.changed_at(B, at(1_150));
        assert_eq!(world.taker(at(1_150)), None, "it was over when B announced the next");

        let mut world = World::default();
        world.wrote(A, None, at(10));
        for tenths in [599, 1_100, 1_199] {
            world.changed_at(B, at(tenths));
            assert_eq!(world.taker(at(tenths)), Some(A));
        }
        assert_eq!(world.taker(at(1_200)), None, "two spans");

        let mut world = World::default();
        world.wrote(A, None, at(10));
        for tenths in [500, 1_000] {
            let next = Generation(world.generations + 1);
            reload(&mut world.state, RegionSet::EMPTY.with(B), at(tenths), next, EASY.worst_lag);
            assert_eq!(world.taker(at(tenths)), Some(A));
        }
        reload(&mut world.state, RegionSet::EMPTY.with(B), at(1_500), Generation(9), EASY.worst_lag);
        assert_eq!(world.taker(at(1_500)), None, "a RELOAD keeps it no longer alive than an announcement");
    }

    /// R20: a slot's time is rounded up, and threads are not in step.
    #[test]
    fn future_marker_ends_no_write() {
        let mut world = World::default();
        world.wrote(A, None, at(600));
        world.changed_at(B, at(599));
        assert_eq!(world.taker(at(600)), Some(A));
    }

    /// R20: what the write stated cannot be compared with what states nothing.
    #[test]
    fn versioned_write_counts_only_against_versionless() {
        let mut world = World::default();
        world.wrote(A, Some(6), at(1));
        assert_eq!(world.taker(at(1)), None, "the floor speaks for it");
        world.changed_at(B, at(2));
        assert_eq!(world.taker(at(2)), Some(A));
        let mut world = World::default();
        world.wrote(A, Some(6), at(1));
        world.changed(B, 7);
        assert_eq!(world.state.written, None);
    }

    /// R4, R18, R20: no region is known to have what a write of unknown outcome did.
    #[test]
    fn reload_and_surpassing_silence_old_announcers() {
        let mut world = World::default();
        world.changed(A, 5);
        serve(&mut world.state, Version(6), EASY);
        reload(&mut world.state, RegionSet::EMPTY.with(B), Moment::from_nanos(9), Generation(50), EASY.worst_lag);
        assert_eq!(world.regions(), RegionSet::EMPTY.with(B));
        reload(&mut world.state, RegionSet::EMPTY, Moment::from_nanos(9), Generation(51), EASY.worst_lag);
        assert_eq!((world.regions(), world.state.at_floor), (RegionSet::EMPTY, false));
    }

    /// R6, R19: all regions called it absent; none announced that.
    #[test]
    fn accepted_absence_is_no_announced_deletion() {
        let mut world = World::default();
        world.changed(A, 5);
        accept_absence(&mut world.state, at(1), Generation(50));
        assert!(world.state.marker.is_some_and(|marker| marker.is_surpassed() && !marker.deleted));
        reset(&mut world.state, RegionSet::EMPTY.with(A), at(2), Generation(51), EASY.worst_lag);
        assert_eq!(world.regions(), RegionSet::EMPTY.with(A));
    }
}
