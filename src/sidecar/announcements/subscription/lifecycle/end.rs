//! Reasons why a subscription ends.

/// Reason why a subscription is no longer held.
pub(super) enum End {
    Stopping,
    /// Freshness wants another.
    Asked,
    /// It, or its queue, is gone; why, in a stable word.
    Lost(&'static str),
}
