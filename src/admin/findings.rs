//! Findings: what `nearside doctor`, `/status` and the log say about a configuration that does not
//! fit the service, and what to write instead.
//!
//! [`crate::telemetry::observed`] and the freshness protocol note what two sources say; this
//! compares them. It is pure, so the same facts give the same findings. A healthy sidecar has none.

use crate::model::ids::RegionSet;

mod evidence;
mod finding;
mod names;
mod records;
mod regions;
pub mod report;
mod routes;
mod topics;
pub mod unrouted;

pub use evidence::Evidence;
pub use finding::{Check, Finding};
pub(crate) use names::list;

/// All findings, in the order of the checks, then of the subjects.
pub fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut found = topics::findings(evidence);
    found.extend(records::findings(evidence));
    found.extend(regions::findings(evidence));
    found.extend(routes::findings(evidence));
    found.sort_by(|left, right| (left.check, &left.subject).cmp(&(right.check, &right.subject)));
    found
}

/// The record types whose announcements miss what is read here, each with the regions concerned.
/// Entries of these types do not earn the full TTL from these regions (R21).
pub fn types_with_missed_announcements(evidence: &Evidence<'_>) -> Vec<(String, RegionSet)> {
    records::types_with_missed_announcements(evidence)
}

#[cfg(test)]
mod tests;
