//! Terms for judging a race's replies: floors, and the entry behind its validators. Floors and
//! generations are read each time; announcers are those at the race's start (R4).

use super::question::Terms;
use super::verdict::{Known, Scales};
use crate::model::ids::RegionSet;
use crate::model::time::Moment;
use crate::protocol::record::Snapshot;

pub(crate) enum Standard {
    Routed { floors: Box<dyn Fn() -> Vec<Snapshot> + Send + Sync>, known: Option<Known> },
    Unrouted,
}

impl Standard {
    pub(crate) fn of(terms: Terms, now: Moment) -> Self {
        match terms {
            Terms::Routed { records, known, worst_lag } => {
                let begun: Vec<Snapshot> =
                    records.iter().map(|record| record.snapshot().as_of(now, worst_lag)).collect();
                let floors = Box::new(move || {
                    let records = records.iter().zip(&begun);
                    records.map(|(record, begun)| record.snapshot().announced_by(begun)).collect()
                });
                Self::Routed { floors, known }
            }
            Terms::Unrouted => Self::Unrouted,
        }
    }

    pub(crate) fn floors(&self) -> Vec<Snapshot> {
        match self {
            Self::Routed { floors, .. } => floors(),
            Self::Unrouted => Vec::new(),
        }
    }

    pub(crate) fn known(&self) -> Option<&Known> {
        match self {
            Self::Routed { known, .. } => known.as_ref(),
            Self::Unrouted => None,
        }
    }

    pub(crate) fn scales<'a>(&'a self, floors: &'a [Snapshot]) -> Scales<'a> {
        match self {
            Self::Routed { known, .. } => Scales::Routed { records: floors, known: known.as_ref() },
            Self::Unrouted => Scales::Unrouted,
        }
    }

    /// The regions that took the writes of these records that passed through this sidecar and still
    /// count (R20).
    pub(crate) fn writers(&self) -> RegionSet {
        self.floors().into_iter().filter_map(|floor| floor.written).map(|written| written.by).collect()
    }

    /// The regions that announced the newest changes of all the records.
    pub(crate) fn announcers(&self) -> RegionSet {
        let markers = self.floors().into_iter().filter_map(|floor| floor.marker);
        markers.map(|marker| marker.regions.0).reduce(|all, one| all & one).map_or(RegionSet::EMPTY, RegionSet)
    }
}
