//! Messages of a region's topic, and the times at which all subscribers had applied them.

use std::collections::BTreeMap;

use nearside::model::time::Moment;
use serde_json::Value;

use crate::aws::topic::Topics;

/// A change of one view that a region announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Announced {
    pub(super) view: String,
    pub(super) key: String,
    pub(super) version: Option<u64>,
    /// Time at which the last copy was applied and acknowledged; `None` while one is on its way.
    pub(super) taken: Option<Moment>,
}

impl Announced {
    /// The changes that were published on `topic` at or after `since`, once each; heartbeats are
    /// none.
    pub(super) fn since(topics: &Topics, topic: &str, since: Moment) -> Vec<Self> {
        let mut copies: BTreeMap<String, Self> = BTreeMap::new();
        for sent in topics.sent(topic).into_iter().filter(|sent| sent.published >= since) {
            let taken = sent.taken.get().copied();
            if let Some(known) = copies.get_mut(&sent.id) {
                known.taken = known.taken.zip(taken).map(|(one, other)| one.max(other));
                continue;
            }
            let said: Value = serde_json::from_str(&sent.message).unwrap_or_default();
            if let (Some(view), Some(key)) = (text(&said, "recordType"), text(&said, "key")) {
                let version = said["version"].as_str().and_then(|version| version.parse().ok());
                copies.insert(sent.id, Self { view, key, version, taken });
            }
        }
        copies.into_values().collect()
    }
}

fn text(said: &Value, member: &str) -> Option<String> {
    said[member].as_str().map(str::to_owned)
}
