//! R22, as far as versions go: the newest version of the grants that a sidecar holds the regions to.
//!
//! It moves by a verified announcement, or when two regions state a version (one, where only one is
//! configured), never by the reply of one region among several: that may have wrong settings or a
//! wrong document. It never goes back, except when it turns out that no second region reaches it
//! within the worst lag. RELOAD and RESET do not touch it: they speak of records.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::model::ids::{RegionId, RegionSet};
use crate::model::time::{Moment, Wall};
use crate::protocol::event::Alarm;
use crate::switch::{Rule, is_on};

/// A version is the time of a write, in Unix milliseconds: one further ahead of the calendar than
/// this is nobody's.
const AHEAD: Duration = Duration::from_secs(300);

/// Floor of the grants' version. Reading it takes no lock.
#[derive(Debug)]
pub struct GrantsFloor {
    floor: AtomicU64,
    heard: Mutex<Heard>,
}

/// Statements of the regions.
#[derive(Debug)]
struct Heard {
    regions: Vec<OfRegion>,
    /// Since when the floor is what it is.
    since: Moment,
    worst_lag: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfRegion {
    /// The highest version that it announced or stated, as far as it is believed.
    highest: u64,
    /// The highest version that its nodes stated.
    stated: u64,
    /// From this version on it is not believed alone: no other region reached it in time.
    doubted: Option<u64>,
}

/// Knowledge of the regions' grants, for those who look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantsView {
    /// 0 while nothing is known.
    pub floor: u64,
    /// Regions that announced or stated the floor, or a newer version.
    pub vouching: RegionSet,
    /// The version that each region's nodes stated last; 0 for none.
    pub stated: Vec<u64>,
}

impl OfRegion {
    fn is_doubted(&self, version: u64) -> bool {
        self.doubted.is_some_and(|doubted| version >= doubted)
    }
}

impl GrantsFloor {
    /// No floor, over this many regions.
    pub fn new(regions: usize, worst_lag: Duration) -> Self {
        let heard = Heard { regions: vec![OfRegion::default(); regions], since: Moment::ZERO, worst_lag };
        Self { floor: AtomicU64::new(0), heard: Mutex::new(heard) }
    }

    /// Takes another worst lag into use.
    pub fn tune(&self, worst_lag: Duration) {
        self.heard().worst_lag = worst_lag;
    }

    /// The floor; 0 while nothing is known of grants, and then nothing needs a permit.
    #[inline]
    pub fn floor(&self) -> u64 {
        self.floor.load(Ordering::Relaxed)
    }

    /// True if a refusal by this version may beat what other regions still give: two regions know it, or
    /// the only one. So a region with wrong settings or a wrong document refuses nobody.
    pub fn vouches_for(&self, version: u64) -> bool {
        shared(&self.heard().regions, |region| region.highest) >= version || !is_on(Rule::R22)
    }

    /// The floor, who vouches for it, and what each region states.
    pub fn view(&self) -> GrantsView {
        let (floor, heard) = (self.floor(), self.heard());
        let regions = (0..).map(RegionId).zip(&heard.regions);
        let vouching = regions.filter(|(_, region)| floor > 0 && region.highest >= floor).map(|(id, _)| id).collect();
        GrantsView { floor, vouching, stated: heard.regions.iter().map(|region| region.stated).collect() }
    }

    /// Notes a verified announcement.
    pub fn announced(&self, region: RegionId, version: u64, now: Moment, wall: Wall) -> Option<Alarm> {
        if is_ahead(version, wall) {
            return Some(Alarm::GrantsAhead);
        }
        let mut heard = self.heard();
        let of_region = heard.regions.get_mut(region.index())?;
        // What no node of it stated in time is not believed for being said again.
        if !of_region.is_doubted(version) {
            of_region.highest = of_region.highest.max(version);
            self.raise(&mut heard, version, now);
            self.raise_to_shared(&mut heard, now);
        }
        None
    }

    /// Notes the version that a region's answer to a request from `sent` states.
    pub fn stated(&self, region: RegionId, version: u64, sent: Moment, now: Moment, wall: Wall) -> Option<Alarm> {
        if is_ahead(version, wall) {
            return Some(Alarm::GrantsAhead);
        }
        let floor = self.floor();
        let mut heard = self.heard();
        let of_region = heard.regions.get_mut(region.index())?;
        if of_region.stated == version && version == floor {
            return None;
        }
        of_region.stated = of_region.stated.max(version);
        of_region.highest = of_region.highest.max(version);
        self.raise_to_shared(&mut heard, now);
        let is_contradiction = version < self.floor() && sent >= heard.since + heard.worst_lag;
        if is_contradiction { self.drop_unreached(&mut heard, now) } else { None }
    }

    /// Raises the floor to the highest version that two regions know.
    fn raise_to_shared(&self, heard: &mut Heard, now: Moment) {
        let shared = shared(&heard.regions, |region| region.highest);
        for of_region in &mut heard.regions {
            // Another region reached it after all.
            of_region.doubted = of_region.doubted.filter(|doubted| *doubted > shared);
        }
        self.raise(heard, shared, now);
    }

    fn raise(&self, heard: &mut Heard, version: u64, now: Moment) {
        if version > self.floor() {
            heard.since = now;
            self.floor.store(version, Ordering::Relaxed);
        }
    }

    /// R15: a floor that no region's nodes reach in time, or that one of several regions alone knows, is
    /// dropped to what the others state.
    fn drop_unreached(&self, heard: &mut Heard, now: Moment) -> Option<Alarm> {
        let floor = self.floor();
        let reached = heard.regions.iter().filter(|region| region.stated >= floor).count();
        let known = heard.regions.iter().filter(|region| region.highest >= floor).count();
        if reached > 1 || reached == 1 && (known > 1 || heard.regions.len() == 1) {
            return None;
        }
        for of_region in heard.regions.iter_mut().filter(|region| region.highest >= floor) {
            of_region.doubted = Some(of_region.doubted.unwrap_or(floor).min(floor));
            of_region.highest = of_region.stated.min(floor - 1);
        }
        let others = heard.regions.iter().map(|region| region.highest).max().unwrap_or(0);
        let stated = heard.regions.iter().filter(|region| !region.is_doubted(region.stated));
        let highest = stated.map(|region| region.stated).max().unwrap_or(others);
        self.floor.store(highest.max(1), Ordering::Relaxed);
        heard.since = now;
        Some(Alarm::GrantsUnreached)
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        // Each change is merged by maximum: a panic elsewhere leaves at worst a lower floor.
        self.heard.lock()
    }
}

fn is_ahead(version: u64, wall: Wall) -> bool {
    version > (wall + AHEAD).as_millis()
}

/// The highest version that two regions have, or the only one.
fn shared(regions: &[OfRegion], of: impl Fn(&OfRegion) -> u64) -> u64 {
    let mut versions: Vec<u64> = regions.iter().map(of).collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.get(1).or(versions.first()).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: RegionId = RegionId(0);
    const B: RegionId = RegionId(1);
    const C: RegionId = RegionId(2);
    const LAG: Duration = Duration::from_secs(60);
    /// A calendar by which small versions lie in the past.
    const WALL: Wall = Wall::from_millis(1_800_000_000_000);

    fn at(second: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(1_000 + second)
    }

    fn floor_over(regions: usize) -> GrantsFloor {
        GrantsFloor::new(regions, LAG)
    }

    fn states(floor: &GrantsFloor, region: RegionId, version: u64, second: u64) -> Option<Alarm> {
        floor.stated(region, version, at(second), at(second), WALL)
    }

    #[test]
    fn one_region_moves_no_floor() {
        let floor = floor_over(3);
        assert_eq!(states(&floor, A, 7, 0), None);
        assert_eq!(floor.floor(), 0);
        assert_eq!(states(&floor, B, 9, 0), None);
        assert_eq!(floor.floor(), 7);
        assert_eq!(states(&floor, B, 3, 1), None);
        assert_eq!(floor.floor(), 7);
    }

    #[test]
    fn view_names_who_vouches() {
        let floor = floor_over(3);
        assert_eq!(floor.view(), GrantsView { stated: vec![0; 3], ..GrantsView::default() });
        states(&floor, A, 7, 0);
        states(&floor, C, 9, 0);
        let vouching = [A, C].into_iter().collect();
        assert_eq!(floor.view(), GrantsView { floor: 7, vouching, stated: vec![7, 0, 9] });
    }

    #[test]
    fn only_region_moves_the_floor() {
        let floor = floor_over(1);
        states(&floor, A, 7, 0);
        assert_eq!(floor.floor(), 7);
        // It is alone: nobody contradicts it, and its other nodes may lag.
        assert_eq!(states(&floor, A, 5, 100), None);
        assert_eq!(floor.floor(), 7);
    }

    #[test]
    fn announcement_moves_the_floor() {
        let floor = floor_over(3);
        assert_eq!(floor.announced(A, 7, at(0), WALL), None);
        assert_eq!(floor.floor(), 7);
        assert_eq!(floor.announced(B, 6, at(0), WALL), None);
        assert_eq!(floor.floor(), 7);
    }

    #[test]
    fn far_version_is_not_believed() {
        let floor = floor_over(1);
        let far = (WALL + AHEAD).as_millis() + 1;
        assert_eq!(floor.announced(A, far, at(0), WALL), Some(Alarm::GrantsAhead));
        assert_eq!(states(&floor, A, far, 0), Some(Alarm::GrantsAhead));
        assert_eq!(floor.floor(), 0);
        assert_eq!(floor.announced(A, far - 1, at(0), WALL), None);
        assert_eq!(floor.floor(), far - 1);
    }

    #[test]
    fn unreached_floor_ends_after_worst_lag() {
        let floor = floor_over(3);
        floor.announced(A, 9, at(0), WALL);
        assert_eq!(states(&floor, B, 7, 59), None);
        assert_eq!(states(&floor, C, 7, 59), None);
        assert_eq!(floor.floor(), 9);
        assert_eq!(states(&floor, B, 7, 60), Some(Alarm::GrantsUnreached));
        assert_eq!(floor.floor(), 7);
        // It is not believed alone again.
        assert_eq!(floor.announced(A, 10, at(61), WALL), None);
        assert_eq!(states(&floor, A, 10, 61), None);
        assert_eq!(floor.floor(), 7);
        // A second region has it: then it is true.
        states(&floor, C, 10, 62);
        assert_eq!(floor.floor(), 10);
        floor.announced(A, 11, at(63), WALL);
        assert_eq!(floor.floor(), 11);
    }

    /// Two regions announce a document that no node can read.
    #[test]
    fn unreadable_document_is_dropped() {
        let floor = floor_over(3);
        floor.announced(A, 9, at(0), WALL);
        floor.announced(B, 9, at(0), WALL);
        states(&floor, A, 7, 10);
        assert_eq!(states(&floor, B, 7, 60), Some(Alarm::GrantsUnreached));
        assert_eq!(floor.floor(), 7);
        floor.announced(A, 9, at(70), WALL);
        floor.announced(B, 9, at(70), WALL);
        assert_eq!(floor.floor(), 7);
        states(&floor, A, 9, 80);
        states(&floor, B, 9, 80);
        assert_eq!(floor.floor(), 9);
    }

    #[test]
    fn announced_floor_outlasts_a_region_that_is_off() {
        let floor = floor_over(3);
        floor.announced(A, 9, at(0), WALL);
        floor.announced(B, 9, at(0), WALL);
        states(&floor, B, 9, 1);
        assert_eq!(states(&floor, C, 7, 1_000), None);
        assert_eq!(floor.floor(), 9);
    }

    #[test]
    fn shared_floor_outlasts_a_laggard() {
        let floor = floor_over(3);
        floor.announced(A, 9, at(0), WALL);
        states(&floor, A, 9, 1);
        states(&floor, B, 9, 1);
        assert_eq!(states(&floor, C, 7, 1_000), None);
        assert_eq!(floor.floor(), 9);
    }

    #[test]
    fn lone_region_is_dropped_by_contradiction() {
        let floor = floor_over(2);
        floor.announced(A, 9, at(0), WALL);
        states(&floor, A, 9, 1);
        assert_eq!(floor.floor(), 9);
        // Without a word from the other it stays, however long.
        states(&floor, A, 9, 5_000);
        assert_eq!(floor.floor(), 9);
        assert_eq!(states(&floor, B, 8, 5_001), Some(Alarm::GrantsUnreached));
        assert_eq!(floor.floor(), 8);
    }
}
