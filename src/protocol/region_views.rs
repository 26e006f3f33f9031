//! State of the regions for the read path: a snapshot that is replaced, never changed, so that
//! reading takes no lock. The reader compares every time in it with *now*, so that a paused process
//! fails safe (R9).

use std::sync::Arc;
use std::time::Duration;

use super::event::{Grade, SubscriptionState};
use crate::model::ids::{Epoch, RegionId, RegionSet, TypeId};
use crate::model::time::{Moment, Wall};

/// All regions, in the order of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionViews {
    pub regions: Vec<RegionView>,
    /// Regions that state no bound, and those that earn no full TTL, by record type (R21).
    /// The last one stands for all further types. Empty if every region states a bound for every
    /// type.
    pub withheld: Arc<[TypeDoubts]>,
    /// Time from which on what is made has a bound and the full TTL from every region, whatever its
    /// type. `None` while some region withholds one.
    pub withheld_until: Option<Moment>,
}

/// One region as the read path sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionView {
    pub state: SubscriptionState,
    /// Grade of the newest proof.
    pub grade: Grade,
    /// Time at which the newest proof was published, on our clock.
    pub proof: Moment,
    /// Until when the lease holds: proof + 15 s or + 75 s.
    pub lease_until: Moment,
    /// Moves when messages may have been lost.
    pub epoch: Epoch,
    /// Since when the region has been LIVE with this epoch. Only meaningful while `state` is LIVE.
    pub unbroken_since: Moment,
    /// Everything the region ingested through this time is known here.
    pub watermark: Option<Wall>,
    /// Watermark on our clock, fixed when the heartbeat arrived. `bound` is taken from it, so that
    /// a later step of the wall clock cannot make an answer look younger.
    pub watermark_at: Option<Moment>,
    /// Time until which all that it announced should be here: its watermark or, without one, its newest
    /// proof.
    pub known_through: Moment,
}

/// Regions that withhold something from a record type (R21).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeDoubts {
    /// The regions that state no bound for it.
    pub(crate) no_bound: Withheld,
    /// The regions whose announcements are seen to miss it, so that they earn it no full TTL.
    pub(crate) no_full_ttl: Withheld,
}

/// The regions that withhold something from a type, now and for what was made before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    now: RegionSet,
    /// Regions that state none for what was made before this time.
    then: (RegionSet, Moment),
}

impl RegionView {
    /// Lag of its watermark behind `now`, in whole seconds rounded up; `None` without one.
    pub fn bound(&self, now: Moment) -> Option<u64> {
        self.watermark_at.map(|at| whole_seconds(now.since(at)))
    }
}

/// Rounds up, so that a bound is never understated.
pub(crate) const fn whole_seconds(span: Duration) -> u64 {
    span.as_secs() + (span.subsec_nanos() > 0) as u64
}

impl RegionViews {
    pub(crate) fn new(regions: Vec<RegionView>, withheld: Arc<[TypeDoubts]>) -> Self {
        let withheld_until = withheld.iter().try_fold(Moment::ZERO, |until, of_one| {
            let (bound, ttl) = (of_one.no_bound.until()?, of_one.no_full_ttl.until()?);
            Some(until.max(bound).max(ttl))
        });
        Self { regions, withheld, withheld_until }
    }

    /// Greatest age, in whole seconds rounded up, of an answer to a request made now:
    /// now minus the newest watermark of the regions whose lease holds and that state a bound for
    /// every type (R21). `None` without one.
    pub fn bound(&self, now: Moment) -> Option<u64> {
        let live = self.live(now);
        let withheld =
            self.withheld.iter().fold(RegionSet::EMPTY, |all, of_one| RegionSet(all.0 | of_one.no_bound.now().0));
        let watermarks = (0u8..).map(RegionId).zip(&self.regions);
        let watermarks = watermarks.filter(|(id, _)| live.contains(*id) && !withheld.contains(*id));
        watermarks.filter_map(|(_, region_view)| region_view.bound(now)).min()
    }

    /// Says whether one of `regions`, which had these epochs, has noticed no loss since and is
    /// known up to a time from `at` on, so that whatever it announced before is here. While nothing
    /// arrives from it, or it has not ingested a change itself, that an announcement is missing
    /// says nothing of names and keys.
    pub(crate) fn is_known_since(&self, at: Moment, regions: RegionSet, epochs: &[Epoch]) -> bool {
        let mut known = regions.iter().filter_map(|id| self.regions.get(id.index()).zip(epochs.get(id.index())));
        known.any(|(region_view, epoch)| region_view.epoch == *epoch && region_view.known_through >= at)
    }

    /// The epochs of all regions.
    pub(crate) fn epochs(&self) -> Box<[Epoch]> {
        self.regions.iter().map(|region_view| region_view.epoch).collect()
    }

    /// The regions that state no bound for these record types, for what was made at `made` (R21).
    #[inline]
    pub(crate) fn withheld(&self, types: impl Iterator<Item = TypeId>, made: Moment) -> RegionSet {
        self.doubted(types, made, |doubts| doubts.no_bound)
    }

    /// The regions that earn these record types no full TTL, for what was made at `made` (R21).
    #[inline]
    pub(crate) fn strays(&self, types: impl Iterator<Item = TypeId>, made: Moment) -> RegionSet {
        self.doubted(types, made, |doubts| doubts.no_full_ttl)
    }

    #[inline]
    fn doubted(
        &self,
        types: impl Iterator<Item = TypeId>,
        made: Moment,
        which: impl Fn(&TypeDoubts) -> Withheld,
    ) -> RegionSet {
        // Usually no region withholds anything, and a hit need look no further.
        if self.withheld_until.is_some_and(|until| made >= until) {
            return RegionSet::EMPTY;
        }
        let Some(last) = self.withheld.len().checked_sub(1) else { return RegionSet::EMPTY };
        types.fold(RegionSet::EMPTY, |all, record_type| {
            let doubts = &self.withheld[usize::from(record_type.0).min(last)];
            RegionSet(all.0 | which(doubts).of(made).0)
        })
    }

    /// The regions whose lease holds at `now`.
    pub fn live(&self, now: Moment) -> RegionSet {
        let regions = (0u8..).map(RegionId).zip(&self.regions);
        let live = regions.filter(|(_, it)| it.state == SubscriptionState::Live && now <= it.lease_until);
        live.map(|(id, _)| id).collect()
    }
}

impl Withheld {
    /// The regions in `now` withhold it now. Those that no longer do still do for what was made
    /// before `until`.
    pub(crate) fn turn(&mut self, now: RegionSet, until: Moment) {
        let ended = RegionSet(self.now.0 & !now.0);
        if !ended.is_empty() {
            self.then = (RegionSet(self.then.0.0 | ended.0), until);
        }
        self.now = now;
    }

    /// These regions too withhold it from what was made before `until`.
    pub(crate) fn ended(&mut self, regions: RegionSet, until: Moment) {
        self.then = (RegionSet(self.then.0.0 | regions.0), self.then.1.max(until));
    }

    /// From here on, no region withholds it. `None` while one does.
    pub(crate) fn until(self) -> Option<Moment> {
        self.now.is_empty().then_some(self.then.1)
    }

    /// The regions that withhold it from what was made at `made`.
    pub(crate) fn of(self, made: Moment) -> RegionSet {
        let (then, until) = self.then;
        if made < until { RegionSet(self.now.0 | then.0) } else { self.now }
    }

    /// The regions that withhold it from what is requested now.
    pub(crate) const fn now(self) -> RegionSet {
        self.now
    }
}
