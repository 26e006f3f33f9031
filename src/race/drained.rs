//! The regions that an operator took out: races, passes and background work do not ask them.

use std::sync::atomic::{AtomicU16, Ordering};

use crate::model::ids::{RegionId, RegionSet};

/// A set of regions that is changed one at a time and read with every plan.
#[derive(Debug, Default)]
pub(crate) struct Drained {
    regions: AtomicU16,
}

impl Drained {
    pub(crate) fn set(&self) -> RegionSet {
        RegionSet(self.regions.load(Ordering::Acquire))
    }

    /// Adds one of `all`; returns whether it is new. `None`, and nothing is added, when it is the
    /// last that is not in the set and `force` is not set. Of two calls at once, only one can take
    /// the last but one.
    pub(crate) fn add(&self, region: RegionId, all: RegionSet, force: bool) -> Option<bool> {
        let added = self.regions.fetch_update(Ordering::AcqRel, Ordering::Acquire, |drained| {
            let more = RegionSet(drained).with(region);
            (force || !more.covers(all)).then_some(more.0)
        });
        match added {
            Ok(before) => Some(!RegionSet(before).contains(region)),
            // The region is in the set already.
            Err(now) if RegionSet(now).contains(region) => Some(false),
            Err(_) => None,
        }
    }

    /// Takes one out; returns whether it was in.
    pub(crate) fn take(&self, region: RegionId) -> bool {
        let before = self.regions.fetch_and(!RegionSet::EMPTY.with(region).0, Ordering::AcqRel);
        RegionSet(before).contains(region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_region_drains_only_by_force() {
        let (drained, all) = (Drained::default(), RegionSet::first(2));
        assert_eq!(drained.add(RegionId(0), all, false), Some(true));
        assert_eq!(drained.add(RegionId(0), all, false), Some(false));
        assert_eq!(drained.add(RegionId(1), all, false), None);
        assert_eq!(drained.set(), RegionSet::first(1));
        assert_eq!(drained.add(RegionId(1), all, true), Some(true));
        assert_eq!(drained.add(RegionId(1), all, false), Some(false), "it is so already");
        assert!(drained.take(RegionId(0)) && !drained.take(RegionId(0)));
        assert_eq!(drained.set(), RegionSet::EMPTY.with(RegionId(1)));
    }
}
