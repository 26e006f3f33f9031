//! Terms for judging a race's replies: floors, and the entry behind its validators. Floors and
//! generations are read each time; announcers are those at the race's start (R4).

use std::sync::Arc;

use super::question::Terms;
use super::verdict::{self, Known, Scales};
use crate::http::exchange::Reply;
use crate::model::ids::RegionSet;
use crate::model::time::Moment;
use crate::protocol::event::Alarm;
use crate::protocol::grants_floor::GrantsFloor;
use crate::protocol::record::Snapshot;

pub(crate) enum Standard {
    Routed { floors: Box<dyn Fn() -> Vec<Snapshot> + Send + Sync>, known: Option<Known>, grants: Arc<GrantsFloor> },
    Unrouted,
}

impl Standard {
    pub(crate) fn of(terms: Terms, now: Moment) -> Self {
        match terms {
            Terms::Routed { records, known, worst_lag, grants } => {
                let begun: Vec<Snapshot> =
                    records.iter().map(|record| record.snapshot().as_of(now, worst_lag)).collect();
                let floors = Box::new(move || {
                    let records = records.iter().zip(&begun);
                    records.map(|(record, begun)| record.snapshot().announced_by(begun)).collect()
                });
                Self::Routed { floors, known, grants }
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
            Self::Routed { known, grants, .. } => {
                Scales::Routed { records: floors, known: known.as_ref(), grants: grants.floor() }
            }
            Self::Unrouted => Scales::Unrouted,
        }
    }

    /// R22: takes note of the version that a reply states, before anything is judged by it.
    pub(crate) fn note_stated(&self, reply: &Reply, now: Moment) -> Option<Alarm> {
        let Self::Routed { grants, .. } = self else { return None };
        // An unreadable statement has no version.
        let stated = reply.grants.as_ref().filter(|stated| stated.version > 0)?;
        // A 5xx decided nothing.
        if verdict::is_worthless(reply.status) {
            return None;
        }
        grants.stated(reply.region, stated.version, reply.sent, now, reply.sent_wall)
    }

    /// R22: whether a refusal by this version of the grants may beat good replies by older ones.
    pub(crate) fn vouches_for(&self, version: u64) -> bool {
        match self {
            Self::Routed { grants, .. } => grants.vouches_for(version),
            Self::Unrouted => false,
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
