//! Writes that pass through the sidecar, and what they mean for the records that their paths show
//! (R20).
//!
//! A caller that writes through a sidecar reads its own write: the region that took a write counts
//! as its announcer. A write whose outcome is unknown, because the connection broke or the caller
//! hung up, may have been done. Only its answer is unknown: the region it was sent to is not, and
//! counts as the one that took it.

use std::sync::Arc;

use http::{Method, StatusCode};

use crate::fill::effects::apply_actions;
use crate::fill::settings::Settings;
use crate::http::exchange::{Failure, Streamed};
use crate::model::ids::{RecordId, RegionId, Version};
use crate::routing::router::Matched;
use crate::switch::{Rule, is_on};

/// A write under way. If it is dropped without an outcome, the write may have been done.
pub(crate) struct Write {
    settings: Arc<Settings>,
    records: Vec<RecordId>,
    deletes: bool,
    /// The one region that it is sent to; `None` if there is none to send it to.
    sent_to: Option<RegionId>,
    ended: bool,
}

impl Write {
    /// A request with an unsafe method for a path that shows these records.
    pub(crate) fn begin(
        settings: &Arc<Settings>,
        method: &Method,
        records: &[RecordId],
        sent_to: Option<RegionId>,
    ) -> Self {
        let deletes = *method == Method::DELETE;
        Self { settings: settings.clone(), records: records.to_vec(), deletes, sent_to, ended: false }
    }

    /// A region answered. A 4xx refuses; any other status, even a 5xx, may mean that it was done.
    /// Versions of a reply that `is_records` is false for may be of something else at the same path.
    pub(crate) fn answered(mut self, head: &Streamed, is_records: bool) {
        self.ended = true;
        if head.status.is_client_error() {
            return;
        }
        let all = is_records && head.status.is_success() && head.versions.len() == self.records.len();
        for (index, id) in self.records.iter().enumerate() {
            let stated = head.versions.get(index).copied().filter(|version| all && *version != Version::NONE);
            note(&self.settings, *id, Some(head.region), stated, self.deletes);
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
            self.records.iter().for_each(|id| note(&self.settings, *id, by, None, self.deletes));
        }
    }
}

/// A successful write names another path that it changed (`Location`, `Content-Location`).
pub(crate) fn touched(settings: &Arc<Settings>, target: &str, region: RegionId, outcome: Option<StatusCode>) {
    let path = target.split('?').next().unwrap_or(target);
    let Some(matched) = settings.router.find(path) else { return };
    let by = outcome.map(|_| region);
    records(settings, &matched).into_iter().for_each(|id| note(settings, id, by, None, false));
}

fn note(settings: &Arc<Settings>, id: RecordId, by: Option<RegionId>, version: Option<Version>, deletes: bool) {
    apply_actions(settings, settings.shared.freshness.wrote(id, by, version, deletes, settings.shared.clock.now()));
}

fn records(settings: &Settings, matched: &Matched<'_>) -> Vec<RecordId> {
    matched
        .records()
        .filter_map(|(record_type, key)| settings.shared.keyed_hashes.record(record_type, &key))
        .collect()
}
