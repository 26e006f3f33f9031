//! Begins a comparison of the route's two upstreams after a fill of the current one.

use std::sync::Arc;

use super::ask::{Ask, Routing};
use super::settings::Settings;
use crate::migration::comparison::{self, ComparisonDeps, Pair, is_sampled};
use crate::model::ids::{RegionId, RouteIndex};
use crate::protocol::standing::Sent;

/// Begins it, if the fill stored something and chance takes it.
pub(crate) fn begin(settings: &Settings, ask: &Ask, routing: &Routing, sent: &Sent) {
    let Some(index) = settings.router.index_of(routing.route) else { return };
    let Some(candidate) = &settings.route_at(index).candidate else { return };
    let id = settings.router.candidate_id(index).filter(|id| *id != routing.route);
    let Some(id) = id.filter(|_| is_sampled(candidate)) else { return };
    let shared = &settings.shared;
    let stored = shared.store.get(ask.key.as_ref()).filter(|entry| entry.sent == sent.at);
    let Some(entry) = stored.filter(|_| !shared.memory.is_short()) else { return };
    comparison::begin(pair(settings, ask, routing, index, entry.region), id, &shared.tasks);
}

/// The upstreams of the route at this index, to be compared in one region.
pub(crate) fn pair(settings: &Settings, ask: &Ask, routing: &Routing, index: RouteIndex, region: RegionId) -> Pair {
    let shared = &settings.shared;
    let (store, comparisons, clock) = (shared.store.clone(), shared.comparisons.clone(), shared.clock.clone());
    Pair {
        deps: ComparisonDeps { store, comparisons, clock },
        upstreams: Arc::clone(&settings.upstreams[index.0]),
        form: settings.route_at(index).payload.message.as_ref().map(|message| message.form),
        schema: settings.shapes[index.0].as_ref().and_then(|shapes| shapes.schema().cloned()),
        key: ask.key.clone(),
        region,
        request: ask.request.clone(),
        records: routing.records().len(),
    }
}
