//! Background asks of regions that answer each caller by its own credentials: without any that have a
//! permit, they wait for a reader.

use std::sync::Arc;

use http::{HeaderValue, header};

use super::ask::{Ask, AskedPermit, Of, Routing};
use super::permits::PermitKey;
use super::settings::Settings;
use crate::access::token;
use crate::config::Claims;

/// `ask` as background work sends it: on a route where each caller asks for itself, with the newest
/// credentials that have a permit for what is asked. `None` if nobody's do now.
pub(crate) fn with_lent(settings: &Settings, mut ask: Ask) -> Option<Ask> {
    let Of::Route(routing) = &ask.of else { return Some(ask) };
    let Some(route) = settings.router.route(routing.route).filter(|route| route.identity.needs_permits()) else {
        return Some(ask);
    };
    let (key, value) = match route.identity.claims() {
        Some(claims) => of_its_claims(settings, &ask, routing, claims)?,
        None => newest(settings, routing)?,
    };
    let headers = &mut Arc::make_mut(&mut ask.request).headers;
    headers.insert(header::AUTHORIZATION, value);
    let hashes = &settings.shared.keyed_hashes;
    let own: PermitKey = hashes.permit(routing.route, hashes.caller(&route.identity, headers), route.view()).into();
    let credential = if own == key { 0 } else { own.short() };
    ask.permit = Some(AskedPermit { key, credential, is_missing: false, is_needed: true });
    Some(ask)
}

/// The newest credentials on the route: all who may read share what is stored (`granted`).
fn newest(settings: &Settings, routing: &Routing) -> Option<(PermitKey, HeaderValue)> {
    let shared = &settings.shared;
    shared.fills.lent.newest(routing.route, shared.clock.wall(), |permit| is_allowed(settings, permit))
}

/// Credentials with the claims of those with which the reply was asked for (`verified`): the newest of
/// them, or these themselves until they end.
fn of_its_claims(
    settings: &Settings,
    ask: &Ask,
    routing: &Routing,
    claims: &Claims,
) -> Option<(PermitKey, HeaderValue)> {
    let shared = &settings.shared;
    let key = shared.keyed_hashes.permit_of_reply(ask.key.as_ref()).into();
    if !is_allowed(settings, key) {
        return None;
    }
    let (kept, now) = (ask.request.headers.get(header::AUTHORIZATION)?, shared.clock.wall());
    if let Some(newest) = shared.fills.lent.of(routing.route, lent_by(settings, claims, kept)?, now) {
        return Some((key, newest));
    }
    (token::stated_end(token::bearer(kept.as_bytes())?)? > now).then(|| (key, kept.clone()))
}

/// Key of the caller who sent this line, by its token's claims.
pub(super) fn lent_by(settings: &Settings, claims: &Claims, line: &HeaderValue) -> Option<PermitKey> {
    let stated = token::stated_claims(token::bearer(line.as_bytes())?)?;
    settings.shared.keyed_hashes.claimed(claims, &stated).ok().map(|caller| caller.0.into())
}

fn is_allowed(settings: &Settings, permit: PermitKey) -> bool {
    let (shared, recheck) = (&settings.shared, settings.config.access.recheck);
    shared.fills.permits.allows(permit, shared.freshness.grants().floor(), shared.clock.now(), recheck)
}
