//! What a region's topic carried, and when everybody who listens had applied it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::lab::aws::topic::Topics;
use crate::model::time::Moment;

/// A change of one view that a region announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Announced {
    pub(super) view: String,
    pub(super) key: String,
    pub(super) version: Option<u64>,
    /// When the last copy was applied and acknowledged; `None` while one is on its way.
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
            let text = |member: &str| said[member].as_str().map(str::to_owned);
            if let (Some(view), Some(key)) = (text("recordType"), text("key")) {
                let version = text("version").and_then(|version| version.parse().ok());
                copies.insert(sent.id, Self { view, key, version, taken });
            }
        }
        copies.into_values().collect()
    }
}
