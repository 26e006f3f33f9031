//! A switch per guard of the services, so that their simulation can show that each is needed: the
//! same as `protocol::switch` for the rules of the protocol. Without the feature `switches` every
//! guard is on, [`is_on`] is a constant, and nothing of this is left in the program.
//!
//! A guard that is off leaves what somebody would write who does not know why it is there; the
//! variants say what.

/// What keeps the services' promises, one by one; and what keeps those of a sidecar about forms,
/// fields and batches, whose simulation is that of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guard {
    /// Off: the catalogue puts a record whatever is there by now.
    VersionInCondition,
    /// Off: a version is the last one plus 1, and knows nothing of the calendar and the history.
    VersionFromCalendar,
    /// Off: the history is written after the record, in a transaction of its own.
    HistoryWithRecord,
    /// Off: an idempotency key is remembered after the request took place.
    RememberedWithRecord,
    /// Off: references are written after the inputs were read, and after the view.
    ReferencesFirst,
    /// Off: a view is written whatever was written since its note was read.
    NoteInCondition,
    /// Off: an older definition may replace what a newer one made.
    DefinitionFirst,
    /// Off: a version of a view is the last one plus 1, and knows nothing of the calendar.
    ViewVersionFromCalendar,
    /// Off: positions are written down before what was read is applied.
    CheckpointAfterApply,
    /// Off: positions are written down by whoever believes to hold the lease.
    CheckpointFenced,
    /// Off: the time through which a feed was applied counts when it is read.
    ThroughAfterApply,
    /// Off: a feed was applied through the time of the shard that got farthest.
    ThroughIsLeast,
    /// Off: what follows a shard counts as read through the time at which the shard's end was read.
    ChildrenHoldTime,
    /// Off: a region puts whatever the feed brings.
    PutIfNewer,
    /// Off: a region announces, then puts.
    PutBeforeAnnounce,
    /// Off: what the table refused as not newer is not announced.
    AnnounceRefused,
    /// Off: announcements are left to a task of their own.
    AnnounceBeforeCheckpoint,
    /// Off: what was removed is announced and put as a deletion.
    RemovalIsNoDeletion,
    /// Off: the position from which the feed is read is taken after the scan.
    PositionBeforeScan,
    /// Off: a region that lost its place in the feed scans and says nothing.
    ReloadAfterScan,
    /// Off: a feed that was trimmed is read from its oldest change on.
    ScanAfterTrim,
    /// Off: nobody compares views with records.
    ViewSweep,
    /// Off: nobody compares a region's copies with the views.
    RegionSweep,
    /// Off: a node answers from its store whatever floor is stated.
    FloorBeforeStore,
    /// Off: who joins a read gets what it brings, whatever floor they state.
    FollowersCompare,
    /// Off: who insists joins a read that began before.
    InsistingReadsAnew,
    /// Off: when the table fails, what is stored is given to whoever insists or states a floor.
    StoredIsNoAnswer,
    /// Off: a node answers from a table that is not complete.
    CompleteFirst,
    /// Off: what was made of an entry's body moves on to whatever replaces it.
    DerivedOfItsBytes,
    /// Off: who wants something made of a region's bytes shares that with callers of any identity.
    ShapeOfItsIdentity,
    /// Off: a part of a batch states the bound of those before it.
    BoundOfItsPart,
}

impl Guard {
    /// Those of forms, fields and batches.
    pub const OF_SHAPES: [Self; 3] = [Self::DerivedOfItsBytes, Self::ShapeOfItsIdentity, Self::BoundOfItsPart];

    /// Those of the services.
    pub const ALL: [Self; 28] = [
        Self::VersionInCondition,
        Self::VersionFromCalendar,
        Self::HistoryWithRecord,
        Self::RememberedWithRecord,
        Self::ReferencesFirst,
        Self::NoteInCondition,
        Self::DefinitionFirst,
        Self::ViewVersionFromCalendar,
        Self::CheckpointAfterApply,
        Self::CheckpointFenced,
        Self::ThroughAfterApply,
        Self::ThroughIsLeast,
        Self::ChildrenHoldTime,
        Self::PutIfNewer,
        Self::PutBeforeAnnounce,
        Self::AnnounceRefused,
        Self::AnnounceBeforeCheckpoint,
        Self::RemovalIsNoDeletion,
        Self::PositionBeforeScan,
        Self::ReloadAfterScan,
        Self::ScanAfterTrim,
        Self::ViewSweep,
        Self::RegionSweep,
        Self::FloorBeforeStore,
        Self::FollowersCompare,
        Self::InsistingReadsAnew,
        Self::StoredIsNoAnswer,
        Self::CompleteFirst,
    ];
}

/// Whether `guard` is carried out on this thread.
#[cfg(not(feature = "switches"))]
#[inline(always)]
pub const fn is_on(_guard: Guard) -> bool {
    true
}

#[cfg(feature = "switches")]
pub use switched::{GuardOff, is_on, off};

#[cfg(feature = "switches")]
mod switched {
    use std::cell::Cell;

    use super::Guard;

    thread_local! {
        static OFF: Cell<u32> = const { Cell::new(0) };
    }

    /// Whether `guard` is carried out on this thread.
    pub fn is_on(guard: Guard) -> bool {
        OFF.get() & bit(guard) == 0
    }

    /// Turns `guard` off on this thread for as long as the value lives.
    #[must_use]
    pub fn off(guard: Guard) -> GuardOff {
        OFF.set(OFF.get() | bit(guard));
        GuardOff(guard)
    }

    #[derive(Debug)]
    pub struct GuardOff(Guard);

    impl Drop for GuardOff {
        fn drop(&mut self) {
            OFF.set(OFF.get() & !bit(self.0));
        }
    }

    const fn bit(guard: Guard) -> u32 {
        1 << guard as u32
    }
}

#[cfg(all(test, feature = "switches"))]
mod tests {
    use super::*;

    #[test]
    fn a_guard_is_off_only_while_somebody_wants_it() {
        for guard in Guard::ALL {
            let off = off(guard);
            assert_eq!(Guard::ALL.iter().filter(|other| !is_on(**other)).collect::<Vec<_>>(), [&guard]);
            drop(off);
        }
        assert!(Guard::ALL.into_iter().all(is_on));
    }
}
