//! Background asks of regions that answer each caller by its own credentials (`identity = "granted"`):
//! without any that have a permit, they wait for a reader.

use std::sync::Arc;

use http::header;

use super::ask::{Ask, AskedPermit, Of};
use super::settings::Settings;

/// `ask` as background work sends it: on a route where each caller asks for itself, with the newest
/// credentials that have a permit. `None` if nobody's do now.
pub(crate) fn with_lent(settings: &Settings, mut ask: Ask) -> Option<Ask> {
    let Of::Route(routing) = &ask.of else { return Some(ask) };
    if !settings.router.route(routing.route).is_some_and(|route| route.identity.is_granted()) {
        return Some(ask);
    }
    let shared = &settings.shared;
    let (floor, now, recheck) =
        (shared.freshness.grants().floor(), shared.clock.now(), settings.config.access.recheck);
    let permits = &shared.fills.permits;
    let (key, value) =
        shared.fills.lent.newest(routing.route, |permit| permits.allows(permit, floor, now, recheck))?;
    Arc::make_mut(&mut ask.request).headers.insert(header::AUTHORIZATION, value);
    ask.permit = Some(AskedPermit { key, is_missing: false, is_needed: true });
    Some(ask)
}
