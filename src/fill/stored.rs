//! Uses of a stored entry, and the request that replaces it.

use super::ask::Routing;
use super::settings::Settings;
use crate::cache::entry::Entry;
use crate::protocol::standing::Use;

/// Routing of the request that replaces a stored entry; `None` when no route shows it any more.
pub(crate) fn routing_of(settings: &Settings, entry: &Entry) -> Option<Routing> {
    let routed = entry.validity.routed()?;
    // It was stored under a route that a reload took away.
    settings.router.index_of(routed.route)?;
    let records = routed.shows.iter().map(|shown| (shown.id(), shown.record.clone())).collect();
    Some(Routing::new(&settings.shared.freshness, routed.route, records))
}

/// The use of a stored entry now, if it is routed.
pub(crate) fn good_for(settings: &Settings, entry: &Entry) -> Option<Use> {
    let region_views = settings.shared.freshness.region_views();
    Some(entry.assess(&region_views, settings.shared.clock.now())?.good_for(settings.config.cache.soft_ttl))
}
