//! Writes that pass through the sidecar, and what they mean for the records that their paths show
//! (R20).
//!
//! Whoever writes through a sidecar reads their own write: the region that took a write counts as
//! its announcer. A write whose outcome is unknown, because the connection broke or the caller hung
//! up, may have been done. Only its answer is unknown: the region it was sent to is not, and counts
//! as the one that took it.

use std::sync::Arc;

use http::{Method, StatusCode};

use super::Core;
use crate::core::router::Matched;
use crate::http::exchange::{Failure, Streamed};
use crate::model::ids::{RecordId, RegionId, Version};
use crate::protocol::switch::{Rule, is_on};

/// A write under way. If it is dropped without an outcome, the write may have been done.
pub(crate) struct Write {
    core: Arc<Core>,
    records: Vec<RecordId>,
    deletes: bool,
    /// The one region that it is sent to; `None` if there is none to send it to.
    sent_to: Option<RegionId>,
    ended: bool,
}

impl Write {
    /// A request with an unsafe method for a path that shows these records.
    pub(crate) fn begin(core: &Arc<Core>, method: &Method, records: &[RecordId], sent_to: Option<RegionId>) -> Self {
        let deletes = *method == Method::DELETE;
        Self { core: core.clone(), records: records.to_vec(), deletes, sent_to, ended: false }
    }

    /// A region answered. A 4xx refuses; any other status, even a 5xx, may mean that it was done.
    /// Versions of a reply that `is_records` is false for may be of something else at the same path.
    pub(crate) fn answered(mut self, head: &Streamed, is_records: bool) {
        self.ended = true;
        if head.status.is_client_error() {
            return;
        }
        let stated = |place: usize| {
            let all = is_records && head.status.is_success() && head.versions.len() == self.records.len();
            head.versions.get(place).copied().filter(|version| all && *version != Version::NONE)
        };
        for (place, id) in self.records.iter().enumerate() {
            note(&self.core, *id, Some(head.region), stated(place), self.deletes);
        }
    }

    pub(crate) fn failed(mut self, failure: &Failure) {
        self.ended = failure.is_without_effect();
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        if !self.ended {
            let by = self.sent_to.filter(|_| is_on(Rule::LostAnswers));
            self.records.iter().for_each(|id| note(&self.core, *id, by, None, self.deletes));
        }
    }
}

/// A successful write names another path that it changed (`Location`, `Content-Location`).
pub(crate) fn touched(core: &Arc<Core>, target: &str, region: RegionId, outcome: Option<StatusCode>) {
    let path = target.split('?').next().unwrap_or(target);
    let Some(matched) = core.router.find(path) else { return };
    let by = outcome.map(|_| region);
    records(core, &matched).into_iter().for_each(|id| note(core, id, by, None, false));
}

fn note(core: &Arc<Core>, id: RecordId, by: Option<RegionId>, version: Option<Version>, deletes: bool) {
    core.carry_out(core.freshness.wrote(id, by, version, deletes, core.clock.now()));
}

fn records(core: &Core, matched: &Matched<'_>) -> Vec<RecordId> {
    matched.records().filter_map(|(record_type, key)| core.keyring.record(record_type, &key)).collect()
}
