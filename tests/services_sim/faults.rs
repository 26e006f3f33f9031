//! Faults of the world.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// Processes are killed at any instant, or stopped, and started again.
    Killed,
    /// Processes are killed right after one of their calls.
    KilledAfterCall,
    /// Processes are paused for up to 40 s: longer than a lease.
    Paused,
    /// A place's tables fail for up to three seconds.
    TablesFail,
    /// Calls take up to two seconds.
    Slow,
    Throttled,
    /// Writes take place, and their callers receive an error.
    LostAnswers,
    /// A feed repeats, reorders and splits.
    Unruly,
    /// A stream leaves changes out for ever.
    Skips,
    /// A feed is behind by up to eight seconds.
    FeedLags,
    /// A feed cannot be read for up to half a minute.
    FeedStops,
    /// A feed forgets what was not read yet.
    Trimmed,
    /// A stream's shard ends while somewhere nobody can read it, and two others follow.
    Resharded,
    /// A topic refuses some messages of a call, or all calls.
    Refuses,
    /// Announcements reach a region's nodes up to 20 s late, twice, and in another order.
    DeliveredLate,
    /// Some announcements and heartbeats never reach a region's nodes.
    DeliveriesLost,
    /// Nothing reaches a region's nodes.
    NothingDelivered,
    /// Somebody's hands free a lease: two processes believe that they hold it, until one wants to
    /// renew it.
    StolenLease,
    /// A region loses its table, and knows it.
    LostRegion,
    /// A region loses its table, and does not know it.
    LostContexts,
    LostViews,
    /// The views and everything that their service knows.
    LostMapping,
    /// The catalogue's records, which are then written anew.
    LostRecords,
    /// Somebody's hands remove views.
    Removed,
    /// A definition changes while an older process still runs.
    NewDefinition,
    /// The processes' calendars differ by up to ten seconds.
    Skewed,
}

impl Fault {
    pub(crate) const ALL: [Self; 26] = [
        Self::Killed,
        Self::KilledAfterCall,
        Self::Paused,
        Self::TablesFail,
        Self::Slow,
        Self::Throttled,
        Self::LostAnswers,
        Self::Unruly,
        Self::Skips,
        Self::FeedLags,
        Self::FeedStops,
        Self::Trimmed,
        Self::Resharded,
        Self::Refuses,
        Self::DeliveredLate,
        Self::DeliveriesLost,
        Self::NothingDelivered,
        Self::StolenLease,
        Self::LostRegion,
        Self::LostContexts,
        Self::LostViews,
        Self::LostMapping,
        Self::LostRecords,
        Self::Removed,
        Self::NewDefinition,
        Self::Skewed,
    ];

    /// Only a sweep mends it.
    pub(crate) const fn needs_sweep(self) -> bool {
        matches!(self, Self::Skips | Self::LostContexts | Self::LostViews | Self::Removed)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
