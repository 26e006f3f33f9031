//! Owns every counter and histogram, under the names that operators see.
//!
//! Labels are closed sets of words (region names, verdicts, outcomes): never a key, a path or a token.

use std::time::Duration;

use crate::freshness::words::RegionId;

/// All of the process's metrics; cheap to record, from any thread.
#[derive(Debug, Default)]
pub struct Metrics {}

impl Metrics {
    /// A request was answered from the store.
    pub fn hit(&self, _took: Duration) {}
    /// A stored reply was served although it could not be shown fresh; why, in a stable word.
    pub fn stale(&self, _why: &'static str) {}
    /// A request was answered after a fill; the verdict of what it got and who gave it.
    pub fn miss(&self, _verdict: &'static str, _region: Option<RegionId>, _took: Duration) {}
    /// A request was refused before it was looked up; why, in a stable word.
    pub fn refused(&self, _why: &'static str) {}
    /// A reader joined a fill that was under way.
    pub fn fill_shared(&self) {}
    /// A leg ended: its verdict or failure word.
    pub fn leg(&self, _region: RegionId, _verdict: &'static str, _took: Duration) {}
    /// A leg lost its race.
    pub fn loser(&self, _region: RegionId) {}
    /// An announcement's end: applied, duplicate, unrouted, undecodable, forged, expired, wrong-topic, ...
    pub fn announcement(&self, _region: Option<RegionId>, _outcome: &'static str) {}
    /// From `ingested_at` to applied here.
    pub fn propagation(&self, _region: RegionId, _took: Duration) {}
    /// A region's epoch moved; why.
    pub fn epoch_moved(&self, _region: RegionId, _why: &'static str) {}
    /// R15: somebody should look; why.
    pub fn alarm(&self, _region: RegionId, _why: &'static str) {}
    /// Many identities per record: callers seem to mint a token per request.
    pub fn churn(&self) {}
}
