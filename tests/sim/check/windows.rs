//! Owns which windows of faults excuse what, and when.

use std::time::Duration;

use super::super::faults::Fault;
use super::super::plan::{RECOVERY, Window};

/// True if a fault's window, or what follows it, covers this moment.
pub(super) fn near(window: &Window, at: Duration) -> bool {
    window.from <= at && at < window.until + RECOVERY
}

/// True if a fault puts copies between regions and the sidecar.
pub(super) const fn holds_copies(fault: Fault) -> bool {
    matches!(fault, Fault::IntermediaryAge | Fault::AgedIntermediary | Fault::ReloadAll)
}

/// True if a fault excuses labels while it lasts: those that last throughout do not.
pub(super) fn excuses(window: &Window) -> bool {
    use Fault::*;
    !matches!(
        window.fault,
        LateWinner
            | AbsentThenLagging
            | FleetLags
            | RegionEtags
            | ManyUrls
            | PublisherSkew
            | AbsentAgainstPresent
            | WriteThrough
            | OwnWrite
            | Part
            | TooLarge
            | Directives
            | LostAnswer
    )
}
