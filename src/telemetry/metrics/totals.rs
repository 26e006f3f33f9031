//! Totals of the metrics.

/// Counts since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Totals {
    /// Requests answered from the store.
    pub hits: u64,
    /// Requests answered after a fill.
    pub misses: u64,
    /// Stored replies served although they could not be proven fresh.
    pub stale_served: u64,
    /// Requests refused before they were looked up.
    pub refused: u64,
    /// Readers that joined a running fill.
    pub fills_shared: u64,
    /// Attempts that ended, in all regions.
    pub attempts: u64,
    /// Attempts that lost their race.
    pub losing_attempts: u64,
    /// Announcements received, whatever their outcome.
    pub announcements: u64,
    pub announcements_applied: u64,
    /// Epoch moves, in all regions.
    pub epochs_moved: u64,
    /// R15 alarms.
    pub alarms: u64,
    /// Warnings that callers seem to mint a token per request.
    pub identity_churn: u64,
    /// Seconds by which the calendar ran ahead of the clock since boot, all treated as pauses (R9).
    pub uncounted_pauses_s: f64,
}
