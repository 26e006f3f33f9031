//! What the read path sees of the regions: a snapshot that is replaced, never changed, so that
//! reading takes no lock. The reader compares every time in it with *now*, so that a paused process
//! fails safe (R9).

use std::sync::Arc;
use std::time::Duration;

use super::event::{Grade, SubscriptionState};
use crate::model::ids::{Epoch, RegionId, RegionSet, TypeId};
use crate::model::time::{Moment, Wall};

/// All regions, in the order of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Horizon {
    pub regions: Vec<Sight>,
    /// Regions that state no bound, and those that earn no full TTL, by record type (R21).
    /// The last one stands for all further types. Empty if every region states a bound for every
    /// type.
    pub withheld: Arc<[TypeDoubts]>,
    /// What was made from here on has a bound and the full TTL from every region, whatever its
    /// type. `None` while some region withholds one.
    pub withheld_until: Option<Moment>,
}

/// One region as the read path sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    pub state: SubscriptionState,
    /// How good the newest proof is.
    pub grade: Grade,
    /// When the newest proof was published, on our clock.
    pub proof: Moment,
    /// Until when the lease holds: proof + 15 s or + 75 s.
    pub lease_until: Moment,
    /// Moves when messages may have been lost.
    pub epoch: Epoch,
    /// Since when the region has been LIVE with this epoch. Only meaningful while `state` is LIVE.
    pub unbroken_since: Moment,
    /// Everything the region ingested through this time is known here.
    pub watermark: Option<Wall>,
    /// The same on our clock, fixed when the heartbeat arrived. `bound` is taken from it, so that a
    /// later step of the wall clock cannot make an answer look younger.
    pub watermark_at: Option<Moment>,
    /// Time until which all that it announced should be here: its watermark or, without one, its newest
    /// proof.
    pub heard_of: Moment,
}

/// What regions withhold from a record type (R21).
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

impl Sight {
    /// How far its watermark is behind `now`, in whole seconds rounded up; `None` without one.
    pub fn bound(&self, now: Moment) -> Option<u64> {
        self.watermark_at.map(|at| whole_seconds(now.since(at)))
    }
}

/// Rounds up, so that a bound is never understated.
pub(crate) const fn whole_seconds(span: Duration) -> u64 {
    span.as_secs() + (span.subsec_nanos() > 0) as u64
}

impl Horizon {
    pub(crate) fn new(regions: Vec<Sight>, withheld: Arc<[TypeDoubts]>) -> Self {
        let latest = |until: Moment, of_one: &TypeDoubts| {
            let (bound, ttl) = (of_one.no_bound.until()?, of_one.no_full_ttl.until()?);
            Some(until.max(bound).max(ttl))
        };
        let withheld_until = withheld.iter().try_fold(Moment::ZERO, latest);
        Self { regions, withheld, withheld_until }
    }

    /// How old, in whole seconds rounded up, an answer to a request made now can be at most: now
    /// minus the newest watermark of the regions whose lease holds and that state a bound for every
    /// type (R21). `None` without one.
    pub fn bound(&self, now: Moment) -> Option<u64> {
        let live = self.live(now);
        let withheld =
            self.withheld.iter().fold(RegionSet::EMPTY, |all, of_one| RegionSet(all.0 | of_one.no_bound.now().0));
        let speaks = |id: u8| live.contains(RegionId(id)) && !withheld.contains(RegionId(id));
        let watermarks = (0u8..).zip(&self.regions).filter(|(id, _)| speaks(*id));
        watermarks.filter_map(|(_, sight)| sight.bound(now)).min()
    }

    /// Says whether one of `regions`, which had these epochs, has noticed no loss since and was heard of a
    /// time from `at` on, so that whatever it announced before is here. While nothing arrives from it, or it has
    /// not ingested a change itself, that an announcement is missing says nothing of names and keys.
    pub(crate) fn is_heard_since(&self, at: Moment, regions: RegionSet, epochs: &[Epoch]) -> bool {
        let is_heard = |id: RegionId| {
            let (sight, epoch) = (self.regions.get(id.index())?, epochs.get(id.index())?);
            Some(sight.epoch == *epoch && sight.heard_of >= at)
        };
        regions.iter().any(|id| is_heard(id) == Some(true))
    }

    /// The epochs of all regions.
    pub(crate) fn epochs(&self) -> Box<[Epoch]> {
        self.regions.iter().map(|sight| sight.epoch).collect()
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
        let of = |record_type: TypeId| which(&self.withheld[usize::from(record_type.0).min(last)]).of(made);
        types.fold(RegionSet::EMPTY, |all, record_type| RegionSet(all.0 | of(record_type).0))
    }

    /// The regions whose lease holds at `now`.
    pub fn live(&self, now: Moment) -> RegionSet {
        let live = |sight: &Sight| sight.state == SubscriptionState::Live && now <= sight.lease_until;
        (0u8..).zip(&self.regions).filter(|(_, sight)| live(sight)).map(|(id, _)| RegionId(id)).collect()
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
