//! What an operator can ask about fills: which are under way, and to refresh one entry.

use std::sync::{Arc, PoisonError};

use super::{Ask, Fills, Of, routed};
use crate::cache::key::Key;
use crate::core::Core;
use crate::core::race::region::Purpose;

/// How the refresh of one entry ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refreshed {
    /// Regions answered, and the best reply is stored now.
    Done,
    /// No region gave anything to keep: what was stored stays.
    Failed,
    /// The background budget has no room now; try again shortly.
    NoRoom,
    /// Nothing is stored under the key any more.
    Gone,
    /// No route names its path: only a caller's own request could ask for it again.
    Unrouted,
}

impl Fills {
    /// The keys of shared fills under way whose target is `wanted`.
    pub fn under_way_of(&self, wanted: impl Fn(&str) -> bool) -> Vec<Key> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let keys = shard.keys().map(|fill_key| &fill_key.key);
            found.extend(keys.filter(|key| wanted(key.as_ref().target())).cloned());
        }
        found
    }
}

/// Asks all regions for what is stored under `key`, end to end and without validators, and keeps
/// the best reply once all have answered. What is stored is still served meanwhile.
pub(crate) async fn refresh(core: &Arc<Core>, key: &Key) -> Refreshed {
    let Some(entry) = core.store.peek(key.as_ref()) else { return Refreshed::Gone };
    let Some(routing) = core.routing_of(&entry) else { return Refreshed::Unrouted };
    let ask = Ask {
        request: entry.request(key.as_ref().target()),
        key: key.clone(),
        of: Of::Route(routing.clone()),
        previous: None,
        purpose: Purpose::Background,
        no_cache: true,
        floor: None,
        alone: false,
        dropped: Arc::default(),
        through: None,
    };
    let Some(asked) = routed::ask_all(core, &ask, &routing).await else { return Refreshed::Failed };
    if asked.tally.legs.is_empty() {
        return Refreshed::NoRoom;
    }
    routed::learn(core, &ask, &routing, &asked, true);
    let stored = core.store.peek(key.as_ref());
    let kept = stored.is_some_and(|stored| !Arc::ptr_eq(&stored, &entry));
    if kept { Refreshed::Done } else { Refreshed::Failed }
}
