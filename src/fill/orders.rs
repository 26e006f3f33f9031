//! Order of an operator to refresh one entry.

use std::sync::Arc;

use super::ask::Ask;
use super::lending::with_lent;
use super::routed;
use super::settings::Settings;
use super::stored::routing_of;
use crate::cache::key::Key;

/// Outcome of the refresh of one entry.
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

/// Asks all regions for what is stored under `key`, end to end and without validators, and keeps
/// the best reply once all have answered. What is stored is still served meanwhile.
pub(crate) async fn refresh(settings: &Arc<Settings>, key: &Key) -> Refreshed {
    let Some(entry) = settings.shared.store.peek(key.as_ref()) else { return Refreshed::Gone };
    let Some(routing) = routing_of(settings, &entry) else { return Refreshed::Unrouted };
    let request = entry.request(key.as_ref().target());
    let Some(ask) = with_lent(settings, Ask::again(key.clone(), request, routing.clone())) else {
        return Refreshed::Failed;
    };
    let Some(asked) = routed::ask_all(settings, &ask, &routing).await else { return Refreshed::Failed };
    if asked.tally.attempts.is_empty() {
        return Refreshed::NoRoom;
    }
    routed::learn(settings, &ask, &routing, &asked, true);
    let stored = settings.shared.store.peek(key.as_ref());
    let kept = stored.is_some_and(|stored| !Arc::ptr_eq(&stored, &entry));
    if kept { Refreshed::Done } else { Refreshed::Failed }
}
